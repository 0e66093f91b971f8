"""How many pixels a file says it has, by its head alone: nothing is decoded."""

from __future__ import annotations

import gzip
import math
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import LARGEST
from gibbsdiff.io.fits import planes
from gibbsdiff.io.raw import RAW, know_heif, raw_size
from gibbsdiff.io.tiff import is_picture
from gibbsdiff.web.limits import Limits

Crop = tuple[int, ...]
DEEPEST = 8  # bytes of a pixel, at most
GZIP = b"\x1f\x8b"


def size_of(path: Path) -> tuple[int, int, int] | None:
    """Width, height and pages; None if the head cannot be read, and then no reader will go on."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
        if path.suffix.lower() in RAW:  # they begin as a TIFF, with a thumbnail
            return (*raw_size(path), 1)
        if first.startswith(b"\x93NUMPY"):
            return _npy(path)
        if first.startswith((b"SIMPLE", GZIP)):
            return _fits(path)
        if first[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return _tiff(path)
        if first[4:8] == b"ftyp":
            with suppress(InputError):  # without the extra, the reader names it
                know_heif()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures: it is for us to refuse them
            with Image.open(path) as image:
                return (*image.size, 1)
    except Exception:  # heads of damaged files raise whatever they meet
        return None


def check_size(path: Path, limits: Limits, crop: Crop) -> tuple[int, Crop]:
    """Pixels that will be denoised, and where the crop is, if there is one; too many, or a crop
    that is not in the picture, is one line.
    """
    _check_unpacked(path, DEEPEST * limits.decoded)
    size = size_of(path)
    if size is None:
        return 0, ()  # the reader says what is wrong with it
    width, height, pages = size
    whole = width * height * pages
    if whole > LARGEST:
        return 0, ()  # readers refuse so many without decoding, in the command's own words
    if whole > limits.decoded:
        raise InputError(
            f"{path.name}: {whole / 1e6:.1f} megapixels; the page reads at most "
            f"{limits.decoded / 1e6:g}: the command `gibbsdiff denoise` takes it"
        )
    if len(crop) == 1:
        crop = middle(width, height, crop[0])
    if crop:
        left, top, wide, high = crop
        inside = left >= 0 and top >= 0 and left + wide <= width and top + high <= height
        if not (inside and wide > 0 and high > 0):
            raise InputError(f"{path.name}: the crop is not inside of {width} × {height} pixels")
        whole = wide * high
    if whole > limits.pixels:
        raise TooLargeError(path.name, width, height, whole, limits)
    return whole, crop


def middle(width: int, height: int, side: int) -> tuple[int, int, int, int]:
    """A square in the middle, or what there is of it."""
    wide, high = min(side, width), min(side, height)
    return ((width - wide) // 2, (height - high) // 2, wide, high)


class TooLargeError(InputError):
    """A picture of which a crop can be denoised: `offer` is one from the middle."""

    def __init__(self, name: str, width: int, height: int, whole: int, limits: Limits) -> None:
        most = limits.pixels / 1e6
        super().__init__(
            f"{name}: {whole / 1e6:.1f} megapixels; the page denoises at most {most:g}. A crop can "
            "be denoised here, the whole picture by the command `gibbsdiff denoise`; to make it "
            "smaller would change its noise"
        )
        self.size = (width, height)
        self.offer = middle(width, height, min(1024, math.isqrt(limits.pixels)))


def _npy(path: Path) -> tuple[int, int, int] | None:
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read: Any = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
            (3, 0): np.lib.format.read_array_header_2_0,  # but for names of fields, the same
        }[version]
        shape = read(file)[0]
    return _of_shape(shape)


def _check_unpacked(path: Path, most: int) -> None:
    """Refuse a FITS file, packed by gzip or in tiles, that unpacks to more bytes than this."""
    with path.open("rb") as file:
        first = file.read(6)
    count = 0
    with suppress(Exception):  # of a damaged file, as above: the reader says what is wrong
        if first.startswith(GZIP):
            with gzip.open(path) as content:
                while count <= most and (block := content.read(1 << 20)):
                    count += len(block)
        if count <= most and first.startswith((b"SIMPLE", GZIP)):
            packed = [hdu for hdu in _images(path) if hasattr(hdu, "compression_type")]
            count = max(count, sum(hdu.size for hdu in packed))
    if count > most:
        raise InputError(
            f"{path.name}: unpacks to more than {most / 1e6:g} megabytes, and the page reads no "
            "more: the command `gibbsdiff denoise` takes it"
        )


def _images(path: Path) -> list[Any]:
    """Heads of all images of a FITS file, packed or not."""
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fits.open(path) as file:
            return [hdu for hdu in file if hdu.is_image]


def _fits(path: Path) -> tuple[int, int, int] | None:
    """Of the image that the reader takes."""
    shapes = (hdu.shape for hdu in _images(path))
    return next(((s[-1], s[-2], 1) for s in shapes if planes(s) in (1, 3)), None)


def _tiff(path: Path) -> tuple[int, int, int]:
    import tifffile

    with tifffile.TiffFile(path) as file:
        pages: list[Any] = [page for page in file.pages if is_picture(page)]
        return (int(pages[0].imagewidth), int(pages[0].imagelength), len(pages))


def _of_shape(shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    if len(shape) == 2:
        return (shape[1], shape[0], 1)
    if len(shape) == 3:
        sides = shape[:2] if shape[-1] in (1, 3) else shape[1:]
        return (sides[1], sides[0], 1 if min(shape[0], shape[-1]) <= 4 else shape[0])
    return None
