"""What a picture will take is told before: memory, tiles within it, and time."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import gibbsdiff
from gibbsdiff.errors import InputError
from gibbsdiff.inference.cost import (
    bytes_of,
    in_words,
    memory_needed,
    seconds_needed,
    tile_within,
)
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.picture import read_picture

CHILD = """
import resource, sys
import torch
import gibbsdiff
torch.set_num_threads(1)
gibbsdiff.denoise_file(sys.argv[1], model="natural-fast", noise="white", known={"sigma": 0.08},
                       check=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def empty(height, width):
    values = np.broadcast_to(np.float32(0), (3, height, width))
    return Picture(Path("a.png"), values, values[0], 0.0, 1.0, None, 3)


def test_sizes_are_read_as_they_are_written():
    cases = {"4G": 4e9, "500M": 5e8, "1.5GB": 1.5e9, "2GiB": 2e9, "3000000": 3e6, " 2 g ": 2e9}
    assert {text: bytes_of(text) for text in cases} == cases
    for text in ("4X", "G", "-1G", "0", ""):
        with pytest.raises(InputError, match="a size such as 4G"):
            bytes_of(text)


def test_tiles_are_the_largest_that_fit():
    picture = empty(3000, 4000)
    whole = memory_needed(picture)
    assert tile_within(2 * whole, picture) == 1024
    small = tile_within(memory_needed(picture, tile=400), picture)
    assert small == 384
    assert memory_needed(picture, tile=small) <= memory_needed(picture, tile=400)
    assert tile_within(4e9, empty(512, 512)) is None
    with pytest.raises(InputError, match=r"a.png: needs .* with the smallest tiles, more than 1.0"):
        tile_within(1e9, picture)


def test_24_megapixels_need_less_than_8_gigabytes():
    assert memory_needed(empty(4000, 6000)) < 8e9


def test_times_are_said_as_one_says_them():
    assert [in_words(s) for s in (0.2, 40, 800, 11000)] == [
        "1 s",
        "40 s",
        "13 minutes",
        "3.1 hours",
    ]


def test_the_time_is_about_what_it_takes(tmp_path):
    noisy = data.camera()[:256, :256] / 255 + 0.1 * np.random.default_rng(0).normal(size=(256, 256))
    np.save(tmp_path / "a.npy", noisy)
    picture, model = read_picture(tmp_path / "a.npy"), gibbsdiff.load_model("natural-fast")
    seconds_needed(picture, model, searched=False, best=False, check=False)  # warm
    told = seconds_needed(picture, model, searched=False, best=True, check=False)
    begun = time.perf_counter()
    gibbsdiff.denoise(
        picture, model=model, noise="white", known={"sigma": 0.1}, best=True, check=False
    )
    assert told / 4 < time.perf_counter() - begun < 4 * told


@pytest.mark.slow
@pytest.mark.parametrize("side", [2048])
def test_the_memory_is_within_a_factor_of_what_it_takes(tmp_path, side):
    tiled = np.tile(data.astronaut(), (side // 512, side // 512, 1))
    Image.fromarray(tiled).save(tmp_path / "a.png")
    told = memory_needed(read_picture(tmp_path / "a.png"))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.png")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert told / 1.5 < float(done.stdout) < 1.5 * told
