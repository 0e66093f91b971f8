"""Files that are no pictures: one clear line that names the file."""

import io
import pickle
import struct
import zlib

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.io.picture import read_picture

CHELSEA = data.chelsea()[:64, :96]


def made(kind, array=CHELSEA, **options):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format=kind, **options)
    return buffer.getvalue()


def cut(content):
    return content[: len(content) * 2 // 3]


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def fits_of(*hdus):
    buffer = io.BytesIO()
    fits.HDUList(list(hdus)).writeto(buffer)
    return buffer.getvalue()


def tiff(array, **options):
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, array, **options)
    return buffer.getvalue()


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, a=CHELSEA)
    return buffer.getvalue()


def frames(kind):
    buffer = io.BytesIO()
    first, second = Image.fromarray(CHELSEA), Image.fromarray(CHELSEA[::-1])
    first.save(buffer, format=kind, save_all=True, append_images=[second])
    return buffer.getvalue()


def bomb():
    """A PNG that says it has 10¹⁰ pixels."""
    content = bytearray(made("PNG", CHELSEA[..., 0]))
    content[16:24] = struct.pack(">II", 100_000, 100_000)
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    return bytes(content)


CMYK = io.BytesIO()
Image.fromarray(CHELSEA).convert("CMYK").save(CMYK, format="JPEG")
NOTHING = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=[1, 2])])
FITS = fits_of(fits.PrimaryHDU(CHELSEA[..., 0].astype(np.int16)))

BAD = {
    "cut.png": (cut(made("PNG")), "cannot be read"),
    "header only.png": (made("PNG")[:20], "not a PNG|cannot be read"),
    "cut.jpg": (cut(made("JPEG")), "cannot be read"),
    "cut.webp": (cut(made("WEBP")), "cannot be read|not a WEBP"),
    "cut.tiff": (tiff(CHELSEA, photometric="rgb")[:5000], "cannot be read|cut off"),
    "cut.fits": (FITS[:5000], "cut off"),
    "cut.npy": (npy(CHELSEA)[:2000], "cannot be read"),
    "empty.png": (b"", "empty"),
    "empty.npy": (b"", "empty"),
    "text.png": (b"these are words, not pixels\n" * 9, "not a PNG"),
    "text.jpg": (b"these are words, not pixels\n" * 9, "not a JPG"),
    "text.tif": (b"these are words, not pixels\n" * 9, "cannot be read|not a TIF"),
    "text.fits": (b"these are words, not pixels\n" * 9, "not a FITS"),
    "text.npy": (b"these are words, not pixels\n" * 9, "not an NPY"),
    "cmyk.jpg": (CMYK.getvalue(), "CMYK"),
    "cmyk.tif": (tiff(np.dstack([CHELSEA] * 2)[..., :4], photometric="separated"), "SEPARATED"),
    "stack.tif": (tiff(np.stack([CHELSEA] * 4), photometric="rgb"), "stack of pages"),
    "channels.tif": (
        tiff(np.dstack([CHELSEA] * 2), photometric="minisblack", planarconfig="contig"),
        "6 channels",
    ),
    "moving.png": (frames("PNG"), "animation"),
    "moving.webp": (frames("WEBP"), "animation"),
    "bomb.png": (bomb(), "exceeds limit"),
    "small.png": (made("PNG", CHELSEA[:15]), "15×96 pixels"),
    "object.npy": (npy(np.array([[{}]])), "object"),
    "complex.npy": (npy(np.ones((20, 20), dtype=complex)), "complex128"),
    "bool.npy": (npy(np.ones((20, 20), dtype=bool)), "bool"),
    "shape.npy": (npy(np.ones((20, 20, 5))), "shape"),
    "line.npy": (npy(np.ones(400)), "shape"),
    "none.npy": (npy(np.ones((0, 20))), "0×20 pixels"),
    "nan.npy": (npy(np.full((20, 20), np.nan)), "no pixel has a value"),
    "zip.npy": (npz(), "not an NPY"),
    "a.npz": (npz(), "unknown suffix '.npz'"),
    "a.gif": (made("GIF"), "unknown suffix '.gif'"),
    "none": (b"x", "unknown suffix ''"),
    "nan.fits": (fits_of(fits.PrimaryHDU(np.full((20, 20), np.nan))), "no pixel has a value"),
    "table.fits": (fits_of(fits.PrimaryHDU(), NOTHING), "holds no image"),
    "cube.fits": (fits_of(fits.PrimaryHDU(np.ones((7, 20, 20)))), "holds no image"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_clear_line(tmp_path, name):
    content, trouble = BAD[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=trouble) as raised:
        read_picture(path)
    line = str(raised.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    assert len(line) < len(str(path)) + 160


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match=r"a\.png: no such file"):
        read_picture(tmp_path / "a.png")
    (tmp_path / "b.png").mkdir()
    with pytest.raises(InputError, match=r"b\.png: cannot be read"):
        read_picture(tmp_path / "b.png")


class Payload:
    """Unpickling this makes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return open, (str(self.target), "w")


def test_no_pickle_is_run(tmp_path):
    target = tmp_path / "it ran"
    (tmp_path / "a.npy").write_bytes(pickle.dumps(Payload(target)))
    array = np.empty((20, 20), dtype=object)
    array[0, 0] = Payload(target)
    np.save(tmp_path / "b.npy", array, allow_pickle=True)
    for name in ("a.npy", "b.npy"):
        with pytest.raises(InputError, match=r"not an NPY|object"):
            read_picture(tmp_path / name)
    assert not target.exists()
    np.load(tmp_path / "b.npy", allow_pickle=True)[0, 0].close()
    assert target.exists()  # the trap would have worked
