"""What a JPEG's header says of its rounding is what its pixels were rounded to."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from scipy.fft import dctn

from gibbsdiff.inference.encoding import read
from gibbsdiff.inference.setting import depth_of
from gibbsdiff.io.jpeg_steps import steps_of
from gibbsdiff.io.picture import read_picture

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(60, 200, (48, 64, 3), dtype=np.uint8)
STANDARD = (8, 6, 5, 8, 12, 20, 26, 31)  # first row of the luma table at quality 75


def opened(pixels, **how):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **how)
    return Image.open(file)


@pytest.mark.parametrize(("subsampling", "ways"), [(0, (1, 1)), (1, (1, 2)), (2, (2, 2))])
def test_tables_and_subsampling(subsampling, ways):
    steps = steps_of(opened(COLOUR, quality=75, subsampling=subsampling))
    assert (steps.down, steps.across) == ways
    assert steps.tables.shape == (3, 8, 8)
    assert tuple(steps.tables[0, 0]) == STANDARD
    assert np.array_equal(steps.tables[1], steps.tables[2])
    assert steps.tables[1, 7, 7] > steps.tables[1, 0, 0]


def test_coefficients_are_multiples_of_the_steps():
    # A table of its own, unequal under a transposition: rows must be vertical frequencies.
    u, v = np.indices((8, 8))
    table = (10 + 5 * u + 2 * v).astype(int)
    image = opened(COLOUR[..., 0], qtables=[table.ravel().tolist()])
    steps = steps_of(image)
    assert np.array_equal(steps.tables[0], table)
    pixels = np.asarray(image, dtype=float) - 128
    blocks = pixels.reshape(6, 8, 8, 8).swapaxes(1, 2)
    off = dctn(blocks, axes=(2, 3), norm="ortho") / table
    # What is left is the rounding of pixels, of variance 1/12.
    left = (off - np.rint(off)) * table
    assert pixels.min() > -128
    assert pixels.max() < 127
    assert left.std() == pytest.approx(np.sqrt(1 / 12), rel=0.05)


def test_the_steps_reach_the_depth_of_a_picture(tmp_path):
    for name, how in (("a.jpg", {"quality": 80}), ("a.png", {}), ("a.webp", {"quality": 80})):
        Image.fromarray(COLOUR).save(tmp_path / name, **how)
        given = read(tmp_path / name)
        depth = depth_of(given.encoding.dtype, given.full, given.steps)
        assert (depth.steps is not None) == (name == "a.jpg")
        assert depth == replace(depth_of("uint8"), steps=depth.steps)


def test_grey_files_have_one_table(tmp_path):
    Image.fromarray(COLOUR[..., 0]).save(tmp_path / "a.jpg", quality=75)
    steps = read_picture(tmp_path / "a.jpg").format.steps
    assert steps.tables.shape == (1, 8, 8)
    assert (steps.down, steps.across) == (1, 1)


def odd(**changes):
    image = opened(COLOUR)
    for name, value in changes.items():
        setattr(image, name, value)
    return image


@pytest.mark.parametrize(
    "changes",
    [
        {"quantization": {}},
        {"quantization": {0: [1] * 64}},
        {"quantization": {0: [1] * 63, 1: [1] * 64}},
        {"quantization": {0: [0] * 64, 1: [1] * 64}},
        {"layer": []},
        {"layer": [(82, 1, 1, 0), (71, 1, 1, 0), (66, 1, 1, 0)]},
        {"layer": [(1, 1, 1, 0), (2, 2, 2, 1), (3, 2, 2, 1)]},
        {"layer": [(1, 2, 2, 0), (2, 1, 1, 1), (3, 2, 2, 1)]},
        {"layer": [(1, 1, 1, 0), (2, 0, 1, 1), (3, 0, 1, 1)]},
        {"info": {"adobe_transform": 0}},
    ],
)
def test_odd_files_say_nothing(changes):
    assert steps_of(odd(**changes)) is None
