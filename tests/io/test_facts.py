"""What files say of how they were taken."""

import gzip

import numpy as np
import pytest
from astropy.io import fits
from PIL import Image

from gibbsdiff.io.facts import differing, facts_of


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_exif(tmp_path, suffix):
    exif = Image.Exif()
    exif[271], exif[272] = "Maker", "Model 5"
    exif.get_ifd(34665).update({34855: 1600, 33434: 0.004, 36867: "2024:05:01 10:00:00"})
    path = tmp_path / f"a{suffix}"
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(path, exif=exif)
    assert facts_of(path) == {
        "make": "Maker",
        "camera": "Model 5",
        "iso": 1600.0,
        "exposure": pytest.approx(0.004),
        "taken": "2024:05:01 10:00:00",
    }


def test_headers_of_fits_also_where_the_image_is_an_extension(tmp_path):
    first = fits.PrimaryHDU()
    first.header["TELESCOP"], first.header["INSTRUME"] = "T1", "CCD 7"
    second = fits.ImageHDU(np.zeros((20, 20)), name="SCI")
    second.header["EXPTIME"], second.header["GAIN"] = 300, 1.5
    fits.HDUList([first, second]).writeto(tmp_path / "a.fits")
    said = {"telescope": "T1", "camera": "CCD 7", "exposure": 300.0, "gain": 1.5}
    assert facts_of(tmp_path / "a.fits") == said
    (tmp_path / "b.fits.gz").write_bytes(gzip.compress((tmp_path / "a.fits").read_bytes()))
    assert facts_of(tmp_path / "b.fits.gz") == said


def test_files_that_say_nothing(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((20, 20)))
    (tmp_path / "b.fits").write_bytes(b"SIMPLE")
    Image.fromarray(np.zeros((20, 20), np.uint8)).save(tmp_path / "c.png")
    for name in ("a.npy", "b.fits", "c.png", "missing.jpg"):
        assert facts_of(tmp_path / name) == {}


def test_the_exposure_may_differ_and_the_camera_may_not():
    one = {"camera": "A", "iso": 100.0, "exposure": 1.0}
    assert differing(one, {"camera": "A", "iso": 100.0, "exposure": 2.0}) == []
    assert differing(one, {"camera": "B", "iso": 200.0}) == ["camera", "iso"]
    assert differing(one, {}) == []
