"""AVIF, HEIC and raw files: read and written again, or one line that names what is missing."""

import io
import sys

import numpy as np
import pytest
import tifffile
from PIL import Image, features
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.io.picture import encoded, picture_from_bytes, read_picture
from gibbsdiff.io.raw import raw_size

CHELSEA = data.chelsea()[:96, :128]


def image(**options):
    out = io.BytesIO()
    Image.fromarray(CHELSEA).save(out, **options)
    return out.getvalue()


@pytest.mark.skipif(not features.check("avif"), reason="a Pillow without AVIF")
def test_avif_comes_back_with_its_notes(tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    (tmp_path / "a.avif").write_bytes(image(format="AVIF", quality=90, exif=exif))
    picture = read_picture(tmp_path / "a.avif")
    assert picture.values.shape == (3, 96, 128)
    again = picture_from_bytes(encoded(picture, picture.values), "b")
    assert again.path.name == "b.avif"
    assert np.sqrt(np.mean((again.values - picture.values) ** 2)) < 0.01
    with Image.open(io.BytesIO(encoded(picture, picture.values))) as written:
        assert written.getexif()[0x010F] == "a camera"


def test_heic_comes_back(tmp_path):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    (tmp_path / "a.heic").write_bytes(image(format="HEIF", quality=95))
    picture = read_picture(tmp_path / "a.heic")
    again = picture_from_bytes(encoded(picture, picture.values), "b")
    assert again.path.name == "b.heic"
    assert np.sqrt(np.mean((again.values - picture.values) ** 2)) < 0.01


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    heic = b"\0\0\0\x18ftypheic" + bytes(40)
    for name, content, package in (
        ("a.heic", heic, "pillow-heif: pip install 'gibbsdiff\\[heif\\]'"),
        ("a.dng", b"II*\0" + bytes(40), "rawpy: pip install 'gibbsdiff\\[raw\\]'"),
    ):
        (tmp_path / name).write_bytes(content)
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        monkeypatch.setitem(sys.modules, "rawpy", None)
        with pytest.raises(InputError, match=package) as trouble:
            read_picture(tmp_path / name)
        assert str(trouble.value).startswith(str(tmp_path / name))


def dng(path, orientation=1):
    """A colour filter array with a gain of its own for each colour, as a camera writes it."""
    rng = np.random.default_rng(0)
    bayer = np.full((128, 160), 1000, np.uint16)
    bayer[0::2, 1::2], bayer[1::2, 0::2], bayer[1::2, 1::2] = 2000, 2000, 1000  # RGGB
    bayer += rng.integers(0, 3, bayer.shape).astype(np.uint16)
    matrix = np.array([1, 0, 0, 0, 1, 0, 0, 0, 1])
    fractions = np.stack([matrix, np.ones_like(matrix)], 1).ravel().tolist()
    tags = [
        (274, "H", 1, (orientation,), True),
        (50706, "B", 4, (1, 4, 0, 0), True),
        (50707, "B", 4, (1, 1, 0, 0), True),
        (50708, "s", 0, "a camera", True),
        (33421, "H", 2, (2, 2), True),
        (33422, "B", 4, (0, 1, 1, 2), True),
        (50714, "H", 1, (0,), True),
        (50717, "H", 1, (4095,), True),
        (50721, "2i", 9, fractions, True),
        (50728, "2I", 3, (1, 2, 1, 1, 1, 2), True),
        (50778, "H", 1, (21,), True),
    ]
    tifffile.imwrite(path, bayer, photometric=32803, extratags=tags, metadata=None)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_the_size_by_the_head_is_that_of_the_picture(tmp_path, orientation):
    pytest.importorskip("rawpy")
    dng(tmp_path / "a.dng", orientation)
    width, height = raw_size(tmp_path / "a.dng")
    assert (width > height) == (orientation < 5)
    assert read_picture(tmp_path / "a.dng").values.shape == (3, height, width)


def test_a_raw_file_is_linear_light_with_the_cameras_white_balance(tmp_path):
    pytest.importorskip("rawpy")
    dng(tmp_path / "a.dng")
    picture = read_picture(tmp_path / "a.dng")
    assert picture.linear
    assert picture.format.name == "TIFF"
    light = np.frombuffer(encoded(picture, picture.values), np.uint8)
    tifffile.imwrite(tmp_path / "b.tif", np.zeros((2, 2)))
    (tmp_path / "b.tif").write_bytes(light.tobytes())
    written = tifffile.imread(tmp_path / "b.tif")
    assert written.dtype == np.uint16
    assert written.shape[-1] == 3
    # Twice as much light in green is what this camera calls white.
    means = written[16:-16, 16:-16].astype(float).mean((0, 1))
    assert means[0] == pytest.approx(means[2], rel=0.05)
