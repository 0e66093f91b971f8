"""`denoise_file` in Python: files left out, left alone, or not written at all."""

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.inference.files import denoise_file
from gibbsdiff.inference.posterior import Posterior

CLEAN = data.astronaut()[20:84, 150:230]
NOISE = 20 * np.random.default_rng(0).normal(size=CLEAN.shape)
NOISY = np.clip(CLEAN + NOISE, 0, 255).astype(np.uint8)
ALPHA = np.tile(np.arange(80, dtype=np.uint8), (64, 1))
WHITE = {"known": {"sigma": 0.08, "phi": 0.0}, "samples": 0, "figure": False}


def save(path, array):
    Image.fromarray(array).save(path)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_without_a_map_there_is_no_file_of_it_and_a_note(tmp_path):
    save(tmp_path / "a.png", NOISY)
    done = denoise_file(tmp_path / "a.png", model=lambda z, noise: 0.5 * z, **WHITE)
    assert done.posterior.sd is None
    assert "no uncertainty map: the denoiser says nothing of the error in a pixel" in done.summary
    assert names(tmp_path) == ["a.denoised.png", "a.png", "a.posterior.nc"]
    assert done.files == [tmp_path / "a.denoised.png", tmp_path / "a.posterior.nc"]
    assert Posterior.load(done.files[1]).notes == done.posterior.notes
    one = {"chains": 1, "draws": 1, "method": "gibbs", "figure": False, "samples": 0}
    done = denoise_file(tmp_path / "a.png", model=lambda z, noise: 0.5 * z, **one)
    assert "no uncertainty map: a single draw of x has no spread" in done.summary


def test_the_posterior_gives_the_picture_back_as_it_came(tmp_path):
    save(tmp_path / "a.png", np.dstack([NOISY, ALPHA]))
    done = denoise_file(tmp_path / "a.png", **WHITE)
    again = Posterior.load(tmp_path / "a.posterior.nc")
    with Image.open(tmp_path / "a.denoised.png") as image:
        np.testing.assert_array_equal(again.image, np.array(image))
        np.testing.assert_array_equal(done.posterior.image, np.array(image))


def test_files_may_be_left_out_and_existing_ones_left_alone(tmp_path):
    save(tmp_path / "a.png", NOISY)
    done = denoise_file(tmp_path / "a.png", posterior=False, clobber=False, **WHITE)
    assert names(tmp_path) == ["a.denoised.png", "a.png", "a.uncertainty.tiff"]
    before = done.files[0].read_bytes()
    with pytest.raises(InputError, match=r"a\.denoised\.png: exists already"):
        denoise_file(tmp_path / "a.png", clobber=False, seed=1, **WHITE)
    assert done.files[0].read_bytes() == before
    assert len(names(tmp_path)) == 3


def test_what_appears_during_the_work_is_left_alone_too(tmp_path):
    save(tmp_path / "a.png", NOISY)

    def meanwhile(stage, step, of):
        (tmp_path / "a.uncertainty.tiff").write_bytes(b"another's")

    with pytest.raises(InputError, match="exists already"):
        denoise_file(tmp_path / "a.png", clobber=False, progress=meanwhile, **WHITE)
    assert names(tmp_path) == ["a.png", "a.uncertainty.tiff"]


def interrupted_at(wanted, reached):
    """A progress callback that is Ctrl-C, once, at a stage."""

    def progress(stage, step, of):
        reached.append(stage)
        if stage == wanted and reached.count(wanted) == 2:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_picture_is_marked_and_one_without_a_result_is_not_written(tmp_path):
    save(tmp_path / "a.png", NOISY[:32, :32])
    options = {"method": "marginal", "second_stage": True, "calls": 1, "samples": 0}
    reached = []
    search = interrupted_at("searching for the noise", reached)
    with pytest.raises(KeyboardInterrupt):
        denoise_file(tmp_path / "a.png", progress=search, **options)
    assert set(reached) == {"searching for the noise"}
    assert names(tmp_path) == ["a.png"]
    draws = interrupted_at("searching for the noise by draws of x", reached)
    done = denoise_file(tmp_path / "a.png", progress=draws, **options)
    assert len(done.files) == 4
    again = Posterior.load(tmp_path / "a.posterior.nc")
    assert again.interrupted
    assert again.summary().startswith("INTERRUPTED, the search ended: marginal (first stage")


def test_formats_of_files_are_imported_when_a_path_is_given():
    code = (
        "import sys; from gibbsdiff import denoise; "
        "print({'PIL', 'tifffile', 'astropy', 'rich'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
