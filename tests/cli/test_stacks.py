"""Stacks and --same-noise by the command."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from gibbsdiff.inference.posterior import Posterior

FAST = ("--model", "natural-fast", "--noise", "white", "--no-figure")
KNOWN = (*FAST, "--sigma", 0.1)
WAVE = np.sin(np.arange(48) / 9)
CLEAN = 128 + 40 * WAVE[:, None] * WAVE
PAGES = np.clip(CLEAN + 25.5 * np.random.default_rng(0).standard_normal((6, 48, 48)), 0, 255)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_a_stack_is_one_file_again(command, tmp_path):
    tifffile.imwrite(
        tmp_path / "a.tif", PAGES.astype(np.uint8), imagej=True, metadata={"axes": "TYX"}
    )
    result = command("denoise", tmp_path / "a.tif", *KNOWN)
    assert result.code == 0, result.stderr
    assert "6 pages, axes TYX: one noise for all" in result.stdout
    written = ["a.denoised.tif", "a.posterior.nc", "a.tif", "a.uncertainty.tiff"]
    assert names(tmp_path) == written
    clean = tifffile.imread(tmp_path / "a.denoised.tif").astype(float)
    before, after = (np.mean((x - CLEAN) ** 2) for x in (PAGES, clean))
    assert after < before / 10
    again = command("denoise", tmp_path / "a.tif", "--no-clobber", *KNOWN)
    assert again.code == 0
    assert "skipped" in again.stderr


def test_a_stack_that_is_cut_off_is_done_as_far_as_it_goes(command, tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", PAGES.astype(np.uint8))
    content = (tmp_path / "a.tif").read_bytes()
    (tmp_path / "a.tif").write_bytes(content[: len(content) * 2 // 3])
    result = command("denoise", tmp_path / "a.tif", *KNOWN)
    assert result.code == 2
    line = f"gibbsdiff: {tmp_path}/a.tif: cut off: 4 of 6 pages are there, and these are done"
    assert line in result.stderr.splitlines()
    assert tifffile.imread(tmp_path / "a.denoised.tif").shape == (4, 48, 48)


def test_axes_that_do_not_fit_write_nothing(command, tmp_path):
    np.save(tmp_path / "a.npy", PAGES)
    result = command("denoise", tmp_path / "a.npy", "--axes", "TZYX", *KNOWN)
    assert result.code == 2
    assert result.stderr == (
        f"gibbsdiff: {tmp_path}/a.npy: axes TZYX are 4, but the file has 3 (6×48×48)\n"
    )
    assert names(tmp_path) == ["a.npy"]


def test_pictures_may_have_one_noise(command, tmp_path):
    for i, page in enumerate(PAGES[:3]):
        Image.fromarray(page.astype(np.uint8)).save(tmp_path / f"{i}.png")
    result = command("denoise", tmp_path, "--same-noise", *FAST)
    assert result.code == 0, result.stderr
    found = [Posterior.load(tmp_path / f"{i}.posterior.nc") for i in range(3)]
    for p in found:
        assert p.rows[0].mean == pytest.approx(found[0].rows[0].mean, rel=1e-6)
        assert p.rows[0].mean == pytest.approx(0.1, rel=0.1)
        assert "one noise for 3 pictures" in p.how


def test_what_cannot_have_one_noise_is_one_line(command, tmp_path):
    Image.fromarray(PAGES[0].astype(np.uint8)).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", PAGES[1])
    np.save(tmp_path / "c.npy", PAGES)
    before = names(tmp_path)
    for files, says in (
        (("a.png", "b.npy"), "pictures of different kinds have no noise in common"),
        (("b.npy", "c.npy"), "a stack, which has one noise by itself"),
        (("a.png",), "--same-noise: one picture has its noise for itself"),
    ):
        result = command("denoise", *(tmp_path / f for f in files), "--same-noise", *FAST)
        assert result.code == 2
        assert says in result.stderr
        assert result.stderr.count("\n") == 1
    assert names(tmp_path) == before
