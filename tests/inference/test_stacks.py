"""Stacks in files: what is found is what `denoise_series` finds, and memory does not grow."""

import subprocess
import sys

import numpy as np
import pytest
import tifffile

import gibbsdiff
from gibbsdiff.inference.stacks import denoise_stack

CHILD = """
import resource, sys
import torch
from gibbsdiff.inference.stacks import denoise_stack
torch.set_num_threads(1)
denoise_stack(sys.argv[1], model="natural-fast", noise="white", known={"sigma": 0.1}, check=False,
              figure=False, posterior=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def noisy(count, side=48, sigma=0.1, seed=0):
    rng = np.random.default_rng(seed)
    wave = np.sin(np.arange(side) / 9)
    clean = 0.5 + 0.2 * wave[:, None] * wave
    return (clean + sigma * rng.standard_normal((count, side, side))).astype(np.float32)


@pytest.fixture(scope="module")
def fast():
    return gibbsdiff.load_model("natural-fast")


def test_pages_are_those_of_a_series_in_the_units_of_the_file(tmp_path, fast):
    pages, how = noisy(3), {"noise": "white", "model": fast}
    np.save(tmp_path / "a.npy", 1000 * pages + 300)
    found = denoise_stack(tmp_path / "a.npy", axes="TYX", figure=False, **how)
    (noise,) = found.noise
    assert noise.posterior.rows[0].mean * noise.picture.unit == pytest.approx(100, rel=0.03)
    assert f"{found.pages} pages, axes TYX: one noise for all" in found.summary
    scaled = [(1000 * page + 300 - noise.picture.zero) / noise.picture.unit for page in pages]
    again = gibbsdiff.denoise_series([page.astype(np.float32)[None] for page in scaled], **how)
    written = np.load(tmp_path / "a.denoised.npy")
    sd = np.load(tmp_path / "a.uncertainty.npy")
    for page, one, error in zip(written, again, sd, strict=True):
        expected = noise.picture.zero + noise.picture.unit * one.mean[0].numpy()
        assert np.allclose(page, expected, atol=0.5)
        assert np.allclose(error, noise.picture.unit * one.sd[0].numpy(), rtol=0.02)
    assert [file.name for file in found.files] == [
        "a.denoised.npy",
        "a.uncertainty.npy",
        "a.posterior.nc",
    ]


def test_each_page_may_have_its_own_noise_and_constant_pages_stay(tmp_path, fast):
    pages = np.concatenate([noisy(2, sigma=0.05), np.full((1, 48, 48), 0.5, np.float32)])
    pages[1] = noisy(1, sigma=0.2, seed=3)[0]
    np.save(tmp_path / "a.npy", pages)
    found = denoise_stack(tmp_path / "a.npy", axes="TYX", each=True, noise="white", model=fast)
    assert found.levels.values == pytest.approx([0.05, 0.2], rel=0.15)
    assert found.as_they_were == 1
    assert np.array_equal(np.load(tmp_path / "a.denoised.npy")[2], pages[2])
    assert "each its own noise" in found.summary


def test_channels_of_a_stack_have_noises_of_their_own(tmp_path, fast):
    quiet, loud = noisy(3, sigma=0.04), noisy(3, sigma=0.15, seed=1)
    both = (np.clip(np.stack([quiet, loud], 1), 0, 1) * 65535).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.ome.tif", both, metadata={"axes": "TCYX"})
    found = denoise_stack(tmp_path / "a.ome.tif", noise="white", model=fast, figure=False)
    levels = [one.posterior.rows[0].mean for one in found.noise]
    assert levels[0] == pytest.approx(0.04, rel=0.1)
    assert levels[1] > 3 * levels[0]
    assert "one noise for each of 2 channels" in found.summary
    assert {"a.ome.c0.posterior.nc", "a.ome.c1.posterior.nc"} <= {f.name for f in found.files}


def peak(path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True
    )
    return float(done.stdout)


@pytest.mark.parametrize(
    ("side", "few", "many"),
    [(64, 8, 40), pytest.param(512, 20, 200, marks=pytest.mark.slow)],
)
def test_memory_does_not_grow_with_the_number_of_pages(tmp_path, side, few, many):
    for count in (few, many):
        tifffile.imwrite(tmp_path / f"{count}.tif", noisy(count, side))
    assert peak(tmp_path / f"{many}.tif") < 1.2 * peak(tmp_path / f"{few}.tif")
