"""What may be asked for: names of files, and choices that are the command's own."""

import pytest

from gibbsdiff.cli.denoise_options import Method, Noise
from gibbsdiff.errors import InputError
from gibbsdiff.noise import CMBNoise
from gibbsdiff.web.limits import METHODS, NOISES, SKY, Wishes, number, safe_name


def test_the_choices_are_those_of_the_command_and_the_prior():
    assert set(NOISES) == {noise.value for noise in Noise}
    assert set(METHODS) == {method.value for method in Method}
    noise = CMBNoise()
    box = dict(
        zip(noise.names, zip(noise.low.tolist(), noise.high.tolist(), strict=True), strict=True)
    )
    for name, (low, high, first) in SKY.items():
        assert low == pytest.approx(box[name][0])
        assert high == pytest.approx(box[name][1])
        assert low < first < high


def test_chains_are_for_the_power_law_as_in_the_command():
    assert Wishes.read({"method": "gibbs"}).options["noise"] == "power-law"
    assert Wishes.read({"method": "gibbs", "noise": "white"}).options["noise"] == "white"
    assert Wishes.read({}).options == {"noise": "auto", "method": "auto", "keep": 0.0}
    assert Wishes.read({"crop": "1,2,30,40"}).crop == (1, 2, 30, 40)
    assert Wishes.read({"crop": "256"}).crop == (256,)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("photo.jpg", "photo.jpg"),
        ("../../etc/passwd", "passwd"),
        ("C:\\pictures\\a.png", "a.png"),
        ("", "picture"),
        ("..", "picture"),
        ("a\0b\n.png", "ab.png"),
        ("漢 <b>&.png", "漢 <b>&.png"),
        ("x" * 400 + ".tiff", "x" * 60 + ".tiff"),
        ("x" * 400, "x" * 80),
        ("😀" * 60 + ".png", "😀" * 45 + ".png"),  # a file's name has 255 bytes
        (".png", ".png"),
    ],
)
def test_a_name_is_one_that_a_file_may_have(given, kept):
    assert safe_name(given) == kept


@pytest.mark.parametrize("text", ["", "nan", "inf", "-1", "1.1", "words"])
def test_numbers_have_limits(text):
    with pytest.raises(InputError, match="share: a number from 0 to 1"):
        number(text, "share", 0, 1)
