"""Users' pictures: read as values near [0, 1], written in the format and depth they came in.

`read_picture` says how the values are to be taken back, original = zero + unit · values; a
standard deviation in the input's units is `unit` times its own.
"""

from __future__ import annotations

import io
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from gibbsdiff.errors import InputError
from gibbsdiff.io import fits, npy, photo, png, raw, tiff, transfer
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.file_format import (
    LARGEST,
    Array,
    FileFormat,
    Picture,
    Reader,
    check_size,
    stored,
)
from gibbsdiff.io.fits_parts import level_beside, plain_name, split, unpacked
from gibbsdiff.io.intensity import Scale, filled, scale_of

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
    ".avif": photo.read_avif,
    ".heic": raw.read_heif,
    ".heif": raw.read_heif,
    ".hif": raw.read_heif,
    **dict.fromkeys(raw.RAW, raw.read_raw),
}

#: Those that are named where none of them is found.
USUAL = " ".join(end for end in READERS if end not in raw.RAW and end not in (".heif", ".hif"))

#: A picture may be named wrongly, or have no name: the first bytes decide.
SIGNATURES: dict[bytes, Reader] = {
    png.SIGNATURE: png.read,
    b"\xff\xd8\xff": photo.read_jpeg,
    b"RIFF": photo.read_webp,
    b"II*\0": tiff.read,
    b"MM\0*": tiff.read,
    b"II+\0": tiff.read,  # those above 4 GB
    b"MM\0+": tiff.read,
    b"SIMPLE": fits.read,
    b"\x93NUMPY": npy.read,
}


def read_picture(path: str | Path, light: transfer.Transfer = "auto") -> Picture:
    """A PNG, JPEG, WebP, AVIF, TIFF, FITS or NPY file; with extras a HEIC or raw one; of FITS, also
    packed, or one extension of it.

    `light` says whether its numbers are "linear" or "srgb"; "auto" goes by what the file says, and
    takes them as they are if it says nothing. Linear ones become sRGB values.
    """
    place, content, reader = opened(path)
    picture = _in_srgb(_decoded(content, place, reader), light)
    return picture if picture.format.name != "FITS" else _with_level(picture, path)


def _with_level(picture: Picture, path: str | Path) -> Picture:
    """With the level map that its file has, and without the pixels that are flagged."""
    try:
        level = level_beside(path)
    except Exception:  # of other parts of the file the picture does not depend
        return picture
    if level is None or level.kind:
        return replace(picture, level=level)
    flagged = np.isnan(level.values)
    if flagged.shape != picture.missing.shape or flagged.all():
        return picture
    return replace(picture, missing=picture.missing | flagged)


def opened(path: str | Path) -> tuple[Path, bytes, Reader]:
    """The file, what it holds, and who can read it."""
    file, part = split(path)
    place = plain_name(file)
    suffix = place.suffix.lower()
    if suffix not in READERS:
        raise InputError(f"{place}: unknown suffix {suffix!r}; a picture ends in one of {USUAL}")
    try:
        content = file.read_bytes()
        content = unpacked(content) if READERS[suffix] is fits.read else content
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (OSError, EOFError, ValueError, zlib.error) as trouble:
        reason = getattr(trouble, "strerror", None) or str(trouble)
        raise InputError(f"{file}: cannot be read ({reason})") from None
    # Raw files begin as a TIFF, with a thumbnail.
    reader = None if suffix in raw.RAW else _by_first_bytes(content)
    reader = reader or READERS[suffix]
    return place, content, reader if part is None else partial(fits.read, part=part)


def _in_srgb(picture: Picture, light: transfer.Transfer) -> Picture:
    said = picture.format.linear or transfer.says_linear(picture.profile)
    if light == "srgb" or (light == "auto" and not said):
        return picture
    return replace(picture, values=transfer.encode(picture.values), linear=True)


def picture_from_bytes(content: bytes, name: str, light: transfer.Transfer = "auto") -> Picture:
    """A picture that has no file, its format told by the first bytes; `name` is for messages.

    Its path is `name` with the format's usual suffix.
    """
    reader = _by_first_bytes(content)
    if content and reader is None:
        raise InputError(f"{name}: neither PNG, JPEG, WebP, TIFF, FITS nor NPY")
    picture = _in_srgb(_decoded(content, Path(name), reader or png.read), light)
    return replace(picture, path=Path(f"{name}{picture.format.suffixes[0]}"))


def _by_first_bytes(content: bytes) -> Reader | None:
    if content[4:8] == b"ftyp":
        return photo.read_avif if content[8:12] in (b"avif", b"avis") else raw.read_heif
    return next((r for start, r in SIGNATURES.items() if content.startswith(start)), None)


def _decoded(content: bytes, place: Path, reader: Reader) -> Picture:
    """The picture in these bytes; whatever is wrong with them is one line."""
    try:
        if not content:
            raise InputError("the file is empty")
        with _large_pictures():
            return replace(_scaled(place, *reader(content)), profile=_profile(content))
    except InputError as trouble:
        raise InputError(f"{place}: {trouble}") from None
    except UnidentifiedImageError:
        raise InputError(f"{place}: not a {place.suffix[1:].upper()} picture") from None
    except Exception as trouble:  # decoders of damaged files raise whatever they meet
        reason = getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__
        raise InputError(f"{place}: cannot be read ({' '.join(reason.split())})") from None


def _profile(content: bytes) -> bytes | None:
    """The ICC profile, where Pillow knows the format; nothing is decoded for it."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            return image.info.get("icc_profile")
    except Exception:  # FITS, NPY, depths of TIFF that Pillow has no mode for
        return None


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


def page_of(place: Path, pixels: Array, file_format: FileFormat, scale: Scale) -> Picture:
    """A page (C, H, W) of several that have one scale; trouble is one line."""
    try:
        return _scaled(place, pixels, file_format, scale)
    except InputError as trouble:
        raise InputError(f"{place}: {trouble}") from None


def _scaled(
    place: Path, pixels: Array, file_format: FileFormat, scale: Scale | None = None
) -> Picture:
    """Stored numbers (C, H, W) as values near [0, 1], holes filled; by default on a scale of their
    own.
    """
    channels, height, width = pixels.shape
    check_size(height, width)
    own = scale is None and channels == 3
    if own and all(np.array_equal(pixels[0], p, equal_nan=True) for p in pixels[1:]):
        pixels = pixels[:1]  # grey: the noise of the three is one and the same
    missing: Array = np.asarray(~np.isfinite(pixels).all(axis=0))
    if file_format.blank is not None:
        missing |= (pixels == file_format.blank).any(axis=0)
    if missing.all():
        raise InputError("no pixel has a value (all are NaN, infinite or blank)")
    zero, unit = scale or scale_of(pixels, missing, file_format)
    values = np.empty(pixels.shape, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for plane, out in zip(pixels, values, strict=True):
            original = file_format.offset + file_format.slope * plane.astype(np.float64)
            out[:] = (original - zero) / unit
    missing |= ~np.isfinite(values).all(axis=0)
    if missing.any():
        for out in values:
            out[:] = filled(np.where(missing, 0, out), missing)
    return Picture(place, values, missing, zero, unit, file_format, channels)


def encoded(picture: Picture, values: Array) -> bytes:
    """The picture's file with other values (C, H, W): format, depth, alpha and notes its own.

    Integers are rounded and clipped to the depth. Missing pixels are written like others: the
    values are there, and the uncertainty's file marks them.
    """
    return picture.format.encode(stored_pixels(picture, values))


def stored_pixels(picture: Picture, values: Array) -> Array:
    """Values (C, H, W) as the file stores them, in all its channels."""
    form = picture.format
    pixels = np.empty(picture.values.shape, dtype=form.dtype)
    _same_shape(picture, values)
    values = transfer.decode(values) if picture.linear else values
    for plane, out in zip(values, pixels, strict=True):
        original = picture.zero + picture.unit * np.asarray(plane, dtype=np.float64)
        out[:] = stored((original - form.offset) / form.slope, form.dtype)
    if form.blank is not None:  # no pixel may seem to be missing by its value
        other = form.blank + (1 if form.blank < np.iinfo(form.dtype).max else -1)
        pixels[pixels == form.blank] = other
    return _all_channels(picture, pixels)


def write_picture(picture: Picture, values: Array, path: str | Path) -> None:
    """Write the picture's file with other values (C, H, W)."""
    check_output(picture, path)
    write_atomically(path, encoded(picture, values))


def write_uncertainty(
    picture: Picture, sd: Array, stem: str | Path, mean: Array | None = None
) -> Path:
    """Standard deviations (C, H, W) of the values, in the input's units: the file's path. Those of
    linear light are told around their `mean`, by default the values as they were read.

    "<stem>.uncertainty.tiff", .fits or .npy, float32; NaN where the input has no value.
    """
    path = Path(f"{stem}.uncertainty{picture.format.map_suffix}")
    write_atomically(path, picture.format.encode_map(map_in_units(picture, sd, mean)))
    return path


def map_in_units(picture: Picture, sd: Array, mean: Array | None = None) -> Array:
    """Standard deviations in the input's units, float32, in all channels of the file."""
    _same_shape(picture, sd)
    if picture.linear:
        sd = sd * transfer.slope_of_decode(picture.values if mean is None else mean)
    in_units = (picture.unit * np.asarray(sd, dtype=np.float64)).astype(np.float32)
    in_units[:, picture.missing] = np.nan
    return _all_channels(picture, in_units)


def check_output(picture: Picture, path: str | Path) -> None:
    """Whether the picture can be written there, to be asked before the work is done."""
    place = Path(path)
    named = {*picture.format.suffixes, picture.path.suffix.lower()}
    if place.suffix.lower() not in named:
        kind, usual = picture.format.name, picture.path.suffix
        raise InputError(f"{place}: the input is {kind}, so the output must end in {usual}")
    if not os.path.isdir(place.parent):
        raise InputError(f"{place}: no such folder as {place.parent}")
    if not os.access(place.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise InputError(f"{place}: the folder cannot be written to")


def _same_shape(picture: Picture, values: Array) -> None:
    if np.shape(values) != picture.values.shape:
        raise ValueError(f"shape {np.shape(values)}, but the picture's is {picture.values.shape}")


def _all_channels(picture: Picture, planes: Array) -> Array:
    return np.repeat(planes, picture.channels // len(planes), axis=0)
