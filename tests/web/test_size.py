"""Pixels are counted by the head of a file: without decoding, and right in every format."""

import gzip
import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image

from gibbsdiff.errors import InputError
from gibbsdiff.io.picture import read_picture
from gibbsdiff.web.crop import crop_picture
from gibbsdiff.web.limits import Limits
from gibbsdiff.web.size import TooLargeError, check_size, middle, size_of

GREY = np.random.default_rng(0).integers(0, 255, (40, 70), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 255, (40, 70, 3), dtype=np.uint8)
TILED = fits.CompImageHDU


def fits_of(*parts):
    buffer = io.BytesIO()
    fits.HDUList(list(parts)).writeto(buffer)
    return buffer.getvalue()


def third_npy(array):
    """By the third version of the format, which numpy itself seldom writes."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=(3, 0))
    return buffer.getvalue()


def with_thumbnail(path):
    with tifffile.TiffWriter(path) as file:
        file.write(COLOUR, photometric="rgb")
        file.write(COLOUR[::4, ::4], photometric="rgb", subfiletype=1)


WRITE = {
    "a.png": lambda f: Image.fromarray(COLOUR).save(f),
    "a.jpg": lambda f: Image.fromarray(COLOUR).save(f),
    "a.webp": lambda f: Image.fromarray(COLOUR).save(f),
    "a.tiff": lambda f: tifffile.imwrite(f, COLOUR, photometric="rgb"),
    "b.tiff": lambda f: tifffile.imwrite(f, GREY.astype(np.float32)),
    "a.fits": lambda f: fits.PrimaryHDU(GREY.astype(np.int16)).writeto(f),
    "b.fits": lambda f: fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(1.0 * GREY)]).writeto(f),
    "a.fits.gz": lambda f: f.write_bytes(gzip.compress(fits_of(fits.PrimaryHDU(1.0 * GREY)))),
    "a.fits.fz": lambda f: f.write_bytes(fits_of(fits.PrimaryHDU(), TILED(GREY.astype(np.int16)))),
    "c.fits": lambda f: f.write_bytes(
        fits_of(fits.PrimaryHDU(np.zeros((5, 8, 9))), fits.ImageHDU(1.0 * GREY))
    ),
    "c.tiff": with_thumbnail,
    "a.npy": lambda f: np.save(f, GREY),
    "b.npy": lambda f: np.save(f, COLOUR),
    "d.npy": lambda f: f.write_bytes(third_npy(GREY)),
    "c.npy": lambda f: np.save(f, 1.0 * COLOUR.transpose(2, 0, 1)),
}


@pytest.mark.parametrize("name", WRITE)
def test_the_size_is_that_of_the_picture(tmp_path, name):
    WRITE[name](tmp_path / name)
    assert size_of(tmp_path / name) == (70, 40, 1)
    assert read_picture(tmp_path / name).values.shape[-2:] == (40, 70)
    content = (tmp_path / name).read_bytes()
    if not name.endswith(".tiff"):  # its head may be its tail
        (tmp_path / name).write_bytes(content[: len(content) * 3 // 4])
        assert size_of(tmp_path / name) in ((70, 40, 1), None)


def claimed(width, height):
    """A PNG that says it has so many pixels, and holds none."""
    buffer = io.BytesIO()
    Image.fromarray(GREY).save(buffer, format="PNG")
    content = bytearray(buffer.getvalue())
    content[16:24] = struct.pack(">II", width, height)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


def test_too_many_pixels_are_refused_by_the_head(tmp_path):
    path, limits = tmp_path / "a.png", Limits(pixels=10_000, decoded=1_000_000)
    path.write_bytes(claimed(300, 200))
    with pytest.raises(TooLargeError, match=r"a\.png: 0\.1 megapixels") as raised:
        check_size(path, limits, ())
    assert raised.value.size == (300, 200)
    assert raised.value.offer == (100, 50, 100, 100)
    assert check_size(path, limits, raised.value.offer) == (10_000, raised.value.offer)
    assert check_size(path, limits, (64,)) == (4096, (118, 68, 64, 64))
    for crop in ((250, 0, 100, 10), (-1, 0, 10, 10), (0, 0, 0, 10), (0, 195, 10, 10)):
        with pytest.raises(InputError, match="the crop is not inside of 300 × 200"):
            check_size(path, limits, crop)
    path.write_bytes(claimed(2000, 2000))
    with pytest.raises(InputError, match=r"a\.png: 4\.0 megapixels; the page reads at most 1"):
        check_size(path, limits, (64,))
    path.write_bytes(claimed(100_000, 100_000))  # for the reader, which knows such
    assert check_size(path, limits, ()) == (0, ())
    path.write_bytes(b"words")
    assert check_size(path, limits, ()) == (0, ())


@pytest.mark.parametrize("packed", ["a.fits.gz", "a.fits.fz", "a.fits.fz.gz"])
def test_what_unpacks_to_too_much_is_refused_unread(tmp_path, packed):
    """Zeros: 40 MB in some kilobytes."""
    zeros = np.zeros((2500, 4000), np.float32)
    image = TILED(zeros) if ".fz" in packed else fits.ImageHDU(zeros)
    content = fits_of(fits.PrimaryHDU(GREY), image)  # the first image alone is small enough
    path = tmp_path / packed
    path.write_bytes(gzip.compress(content) if packed.endswith("gz") else content)
    assert path.stat().st_size < 300_000
    tracemalloc.start()
    with pytest.raises(InputError, match="unpacks to more than 32 megabytes"):
        check_size(path, Limits(pixels=10_000, decoded=4_000_000), ())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 10e6
    assert check_size(path, Limits(), (16,)) == (256, (27, 12, 16, 16))


def test_heic_and_raw_files_have_their_size(tmp_path):
    know = pytest.importorskip("pillow_heif").register_heif_opener
    rawpy = pytest.importorskip("rawpy")
    know()
    Image.fromarray(COLOUR).save(tmp_path / "a.heic", format="HEIF")
    assert size_of(tmp_path / "a.heic") == (70, 40, 1)
    with_thumbnail(tmp_path / "a.dng")  # no raw file: LibRaw says so, not the thumbnail's size
    with pytest.raises(rawpy.LibRawError):
        rawpy.imread(str(tmp_path / "a.dng"))
    assert size_of(tmp_path / "a.dng") is None


def test_the_middle_of_a_small_picture_is_all_of_it():
    assert middle(100, 30, 64) == (18, 0, 64, 30)


@pytest.mark.parametrize("name", WRITE)
def test_a_crop_has_the_numbers_of_the_whole(tmp_path, name):
    WRITE[name](tmp_path / name)
    whole = read_picture(tmp_path / name)
    part = crop_picture(whole, (5, 3, 32, 24), tmp_path)
    assert part.values.shape == (len(whole.values), 24, 32)
    original = whole.zero + whole.unit * whole.values[:, 3:27, 5:37].astype(np.float64)
    kept = part.zero + part.unit * part.values.astype(np.float64)
    assert np.allclose(kept, original, atol=1e-4)
    assert part.path.name.startswith(f"{name[0]}.crop.")


def test_missing_pixels_stay_missing_in_a_crop(tmp_path):
    array = 1.0 * GREY
    array[10:12, 10:14] = np.nan
    np.save(tmp_path / "a.npy", array)
    part = crop_picture(read_picture(tmp_path / "a.npy"), (0, 0, 30, 30), tmp_path)
    assert np.array_equal(part.missing, np.isnan(array[:30, :30]))
