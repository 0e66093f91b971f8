"""Level maps by options of `gibbsdiff denoise`, and those that FITS files bring along."""

import numpy as np
import pytest
from astropy.io import fits

QUICK = ("--no-figure", "--no-posterior", "--no-check", "--noise", "white")
SKY = np.random.default_rng(0).normal(100, 5, (64, 64)).astype(np.float32)


def save(folder, *names):
    fits.PrimaryHDU(SKY).writeto(folder / "a.fits")
    for name in names:
        np.save(folder / name, MAPS[name])


MAPS = {
    "good.npy": np.full((64, 64), 5.0),
    "small.npy": np.ones((64, 63)),
    "minus.npy": -np.ones((64, 64)),
    "zero.npy": np.zeros((64, 64)),
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level-map", "small.npy"], "a.fits: small.npy: is 64×63 pixels, and the picture 64×64"),
        (["--level-map", "minus.npy"], "minus.npy: has negative numbers"),
        (["--level-map", "zero.npy"], "zero.npy: every pixel|zero.npy: has no number above 0"),
        (["--level-map", "none.npy"], "none.npy: no such file"),
        (["--level-absolute"], "--level-absolute: needs --level-map"),
        (["--level-map", "good.npy", "--no-level-map"], "--no-level-map: a level map is given"),
        (["--level-map", "good.npy", "--level-kind", "snr"], "'sd', 'variance', 'ivar', 'flat'"),
    ],
    ids=str,
)
def test_bad_maps_are_one_clear_line(command, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    save(tmp_path, *MAPS)
    line = command("denoise", "a.fits", *options, *QUICK).refusal()
    assert any(word in line for word in words.split("|")), line
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["a.fits", *MAPS])


def test_an_absolute_map_tells_the_level(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(tmp_path, "good.npy")
    options = ("--level-map", "good.npy", "--level-absolute")
    result = command("denoise", "a.fits", *options, *QUICK)
    assert result.code == 0, result.stderr
    assert "the noise was given" in result.stdout
    assert "sigma = 5 in the file's units" in result.stdout
    assert (tmp_path / "a.denoised.fits").exists()


def test_the_map_of_a_file_is_used_unless_it_is_not_wanted(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [fits.ImageHDU(SKY, name="SCI"), fits.ImageHDU(MAPS["good.npy"], name="ERR")]
    fits.HDUList([fits.PrimaryHDU(), *parts]).writeto("b.fits")
    words = "the level of the noise goes with the map b.fits[ERR]"
    result = command("denoise", "b.fits[SCI]", *QUICK)
    assert result.code == 0, result.stderr
    assert words in result.stdout
    assert (tmp_path / "b.denoised.fits").exists()
    plain = command("denoise", "b.fits[SCI]", "--no-level-map", *QUICK)
    assert plain.code == 0, plain.stderr
    assert words not in plain.stdout


def test_noise_under_a_map_has_no_profile(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fits.PrimaryHDU(SKY).writeto("a.fits")
    fits.PrimaryHDU(MAPS["good.npy"]).writeto("a.weight.fits")
    options = ("--noise", "white", "--no-check", "--no-figure")
    result = command("noise", "a.fits", *options)
    assert result.code == 0, result.stderr
    assert "a.fits: no profile of noise whose level goes with a map" in result.stderr
    assert not (tmp_path / "a.noise.json").exists()
    assert command("noise", "a.fits", "--no-level-map", *options).code == 0
    assert (tmp_path / "a.noise.json").exists()


@pytest.mark.parametrize(
    ("weights", "words"),
    [(np.ones((64, 63)), "is 64×63 pixels, and the picture 64×64"), (0 * SKY, "above 0")],
    ids=["shape", "zero"],
)
def test_weights_beside_that_cannot_be_used_are_named(command, tmp_path, weights, words):
    fits.PrimaryHDU(SKY).writeto(tmp_path / "a.fits")
    fits.PrimaryHDU(weights).writeto(tmp_path / "a.weight.fits")
    result = command("denoise", tmp_path / "a.fits", "--sigma", "0.2", *QUICK)
    assert result.code == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if "left aside" in line]
    assert line.startswith("a.weight.fits: ")
    assert words in line


def test_a_packed_file_is_denoised(command, tmp_path):
    """Noise of 5 counts is found in the file as in the plain one."""
    packed = fits.CompImageHDU(np.rint(SKY).astype(np.int32), name="SCI")
    fits.HDUList([fits.PrimaryHDU(), packed]).writeto(tmp_path / "a.fits.fz")
    result = command("denoise", tmp_path / "a.fits.fz", *QUICK)
    assert result.code == 0, result.stderr
    with fits.open(tmp_path / "a.denoised.fits") as file:
        assert file["SCI"].data.std() < 2
