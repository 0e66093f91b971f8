"""Users' pictures: read as values near [0, 1], written in the format and depth they came in.

`read_picture` says how the values are to be taken back, original = zero + unit · values; a
standard deviation in the input's units is `unit` times its own.
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from gibbsdiff.errors import InputError
from gibbsdiff.io import fits, npy, photo, png, tiff
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.file_format import LARGEST, Array, Container, Reader, check_size, stored
from gibbsdiff.io.intensity import filled, scale_of

READERS: dict[str, Reader] = {
    ".png": png.read,
    ".jpg": photo.read_jpeg,
    ".jpeg": photo.read_jpeg,
    ".webp": photo.read_webp,
    ".tif": tiff.read,
    ".tiff": tiff.read,
    ".fits": fits.read,
    ".fit": fits.read,
    ".fts": fits.read,
    ".npy": npy.read,
}

#: A picture may also be named wrongly: the first bytes of PNG, JPEG and WebP decide.
SIGNATURES: dict[bytes, Reader] = {
    png.SIGNATURE: png.read,
    b"\xff\xd8\xff": photo.read_jpeg,
    b"RIFF": photo.read_webp,
}

#: What this package writes beside a picture: "photo.denoised.png" is not a picture to denoise.
OUTPUTS = (".denoised.", ".uncertainty.", ".report.")


@dataclass(frozen=True)
class Picture:
    """A picture on a scale near [0, 1], and what is needed to write it again.

    `values` is (C, H, W) float32, C = 1 or 3, finite; where `missing` (H, W) it is filled.
    Colour files whose three channels are equal have C = 1.
    """

    path: Path
    values: Array
    missing: Array
    zero: float
    unit: float
    container: Container = field(repr=False)
    channels: int  # in the file, alpha aside

    @property
    def unit_name(self) -> str:
        """What `unit` is counted in: "levels", a FITS BUNIT, or "" if the file does not say."""
        return self.container.unit_name


def read_picture(path: str | Path) -> Picture:
    """A PNG, JPEG, WebP, TIFF, FITS or NPY file."""
    place = Path(path)
    suffix = place.suffix.lower()
    if suffix not in READERS:
        known = " ".join(READERS)
        raise InputError(f"{place}: unknown suffix {suffix!r}; a picture ends in one of {known}")
    try:
        content = place.read_bytes()
        if not content:
            raise InputError("the file is empty")
        with _large_pictures():
            pixels, container = _reader(content, suffix)(content)
            return _picture(place, pixels, container)
    except InputError as trouble:
        raise InputError(f"{place}: {trouble}") from None
    except FileNotFoundError:
        raise InputError(f"{place}: no such file") from None
    except UnidentifiedImageError:
        raise InputError(f"{place}: not a {suffix[1:].upper()} picture") from None
    except Exception as trouble:  # decoders of damaged files raise whatever they meet
        reason = getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__
        raise InputError(f"{place}: cannot be read ({' '.join(reason.split())})") from None


def _reader(content: bytes, suffix: str) -> Reader:
    own = READERS[suffix]
    if own not in SIGNATURES.values():
        return own
    return next((r for start, r in SIGNATURES.items() if content.startswith(start)), own)


@contextmanager
def _large_pictures() -> Iterator[None]:
    """Let Pillow open more than 89 megapixels, up to our own limit, for this while."""
    usual = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = LARGEST // 2  # Pillow refuses twice this
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = usual


def _picture(place: Path, pixels: Array, container: Container) -> Picture:
    channels, height, width = pixels.shape
    check_size(height, width)
    if channels == 3 and all(np.array_equal(pixels[0], p, equal_nan=True) for p in pixels[1:]):
        pixels = pixels[:1]  # grey: the noise of the three is one and the same
    missing: Array = np.asarray(~np.isfinite(pixels).all(axis=0))
    if container.blank is not None:
        missing |= (pixels == container.blank).any(axis=0)
    if missing.all():
        raise InputError("no pixel has a value (all are NaN, infinite or blank)")
    zero, unit = scale_of(pixels, missing, container)
    values = np.empty(pixels.shape, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for plane, out in zip(pixels, values, strict=True):
            original = container.offset + container.slope * plane.astype(np.float64)
            out[:] = (original - zero) / unit
    missing |= ~np.isfinite(values).all(axis=0)
    if missing.any():
        for out in values:
            out[:] = filled(np.where(missing, 0, out), missing)
    return Picture(place, values, missing, zero, unit, container, channels)


def write_picture(picture: Picture, values: Array, path: str | Path) -> None:
    """Other values (C, H, W) in the picture's file: format, depth, alpha and notes its own.

    Integers are rounded and clipped to the depth. Missing pixels are written like others: the
    values are there, and the uncertainty's file marks them.
    """
    check_output(picture, path)
    box = picture.container
    pixels = np.empty(picture.values.shape, dtype=box.dtype)
    _same_shape(picture, values)
    for plane, out in zip(values, pixels, strict=True):
        original = picture.zero + picture.unit * np.asarray(plane, dtype=np.float64)
        out[:] = stored((original - box.offset) / box.slope, box.dtype)
    if box.blank is not None:  # no pixel may seem to be missing by its value
        pixels[pixels == box.blank] = box.blank + (1 if box.blank < np.iinfo(box.dtype).max else -1)
    write_atomically(path, box.encode(_all_channels(picture, pixels)))


def write_uncertainty(picture: Picture, sd: Array, stem: str | Path) -> Path:
    """Standard deviations (C, H, W) of the values, in the input's units: the file's path.

    "<stem>.uncertainty.tiff", .fits or .npy, float32; NaN where the input has no value.
    """
    _same_shape(picture, sd)
    told = (picture.unit * np.asarray(sd, dtype=np.float64)).astype(np.float32)
    told[:, picture.missing] = np.nan
    path = Path(f"{stem}.uncertainty{picture.container.map_suffix}")
    write_atomically(path, picture.container.encode_map(_all_channels(picture, told)))
    return path


def check_output(picture: Picture, path: str | Path) -> None:
    """Whether the picture can be written there, to be asked before the work is done."""
    place = Path(path)
    named = {*picture.container.suffixes, picture.path.suffix.lower()}
    if place.suffix.lower() not in named:
        kind, usual = picture.container.format, picture.path.suffix
        raise InputError(f"{place}: the input is {kind}, so the output must end in {usual}")
    if not os.path.isdir(place.parent):
        raise InputError(f"{place}: no such folder as {place.parent}")
    if not os.access(place.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(f"{place}: the folder cannot be written to")


def find_pictures(pattern: str | Path) -> list[Path]:
    """The pictures that a file, a folder or a glob names, sorted; outputs of ours left out."""
    place = Path(pattern)
    if os.path.isfile(place):
        return [place]
    if os.path.isdir(place):
        found = list(place.iterdir())
    elif glob.has_magic(str(pattern)):
        found = [Path(name) for name in glob.glob(str(pattern), recursive=True)]
    else:
        raise InputError(f"{place}: no such file or folder")
    pictures = sorted(p for p in found if p.suffix.lower() in READERS and _is_input(p))
    if not pictures:
        raise InputError(f"{place}: no picture there ({' '.join(READERS)})")
    return pictures


def _is_input(path: Path) -> bool:
    return path.is_file() and not any(mark in path.name for mark in OUTPUTS)


def _same_shape(picture: Picture, values: Array) -> None:
    if np.shape(values) != picture.values.shape:
        raise ValueError(f"shape {np.shape(values)}, but the picture's is {picture.values.shape}")


def _all_channels(picture: Picture, planes: Array) -> Array:
    return np.repeat(planes, picture.channels // len(planes), axis=0)
