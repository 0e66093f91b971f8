"""FITS: the first image of the file. Everything else in the file is kept to the byte."""

from __future__ import annotations

import io
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat
from gibbsdiff.io.fits_parts import chosen

BLOCK = 2880

#: How BITPIX stores a number, big-endian.
STORED = {8: "u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}

#: How the names of such files end.
SUFFIXES = (".fits", ".fit", ".fts")

#: Sums over data that are no longer the same.
SUMS = ("CHECKSUM", "DATASUM")


def read(content: bytes, part: str | None = None) -> tuple[Array, FileFormat]:
    """Stored numbers (C, H, W) of the first image of 2 axes, or of 3 with 1 or 3 planes; or of that
    in the extension of a name or number.
    """
    if not content.startswith(b"SIMPLE"):
        raise InputError("not a FITS file")
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong with other parts is not our concern
        with fits.open(io.BytesIO(content), disable_image_compression=True) as file:
            found = [hdu for hdu in file if hdu.is_image and planes(hdu.shape) in (1, 3)]
            if not found:
                raise InputError("holds no image of one or three planes")
            image = chosen(file, found, part)
            header, shape, place = image.header.copy(), image.shape, image.fileinfo()
    start, dtype = place["datLoc"], np.dtype(STORED[header["BITPIX"]])
    count = int(np.prod(shape))
    if len(content) < start + count * dtype.itemsize:
        raise InputError("the file is cut off")
    numbers = np.frombuffer(content, dtype, count, start)
    pixels = numbers.reshape(-1, *shape[-2:]).astype(dtype.newbyteorder("="))
    slope = float(header.get("BSCALE", 1.0))
    if slope == 0:
        raise InputError("BSCALE is 0: every pixel has the same value")
    levels = "levels" if dtype.kind in "iu" and slope == 1 else ""
    encode = partial(
        _encode,
        header=header,
        before=content[: place["hdrLoc"]],
        after=content[start + place["datSpan"] :],
    )
    file_format = FileFormat(
        "FITS",
        SUFFIXES,
        pixels.dtype,
        encode,
        partial(_encode_map, header=header, shape=shape),
        map_suffix=".fits",
        offset=float(header.get("BZERO", 0.0)),
        slope=slope,
        blank=header.get("BLANK") if dtype.kind in "iu" else None,
        measured=True,
        unit_name=str(header.get("BUNIT", "")).strip() or levels,
    )
    return pixels, file_format


def first_image(path: str | Path) -> tuple[Array, Any]:
    """The numbers, scaled, and the header of a file's first image of 2 axes or more."""
    from astropy.io import fits

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong with other parts is not our concern
            with fits.open(path, memmap=False) as file:
                for hdu in file:
                    if hdu.is_image and hdu.data is not None and hdu.data.ndim >= 2:
                        return np.array(hdu.data), hdu.header.copy()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, TypeError, KeyError) as trouble:
        reason = " ".join(str(trouble).split())[:100]
        raise InputError(f"{path}: not a readable FITS file ({reason})") from None
    raise InputError(f"{path}: holds no image")


def planes(shape: tuple[int, ...]) -> int:
    """How many planes an array of this shape has: 0 if it is no picture."""
    if len(shape) < 2 or not all(shape):
        return 0
    return int(np.prod(shape[:-2], dtype=np.int64))


def _encode(pixels: Array, header: Any, before: bytes, after: bytes) -> bytes:
    """The file with these numbers in place of its own and one more line of history."""
    new = _without(header, *SUMS)
    new.add_history("denoised by gibbsdiff")
    numbers = pixels.astype(STORED[header["BITPIX"]]).tobytes()
    padding = b"\0" * (-len(numbers) % BLOCK)
    return b"".join([before, new.tostring().encode("ascii"), numbers, padding, after])


def _encode_map(values: Array, header: Any, shape: tuple[int, ...]) -> bytes:
    """The standard deviation, float32, with the coordinates and the unit of the input."""
    new = _without(header.copy(strip=True), *SUMS, "BZERO", "BSCALE", "BLANK", "EXTNAME")
    new.add_history("posterior standard deviation by gibbsdiff")
    from astropy.io import fits

    buffer = io.BytesIO()
    data = values.astype(np.float32).reshape(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fits.verify.VerifyWarning)
        fits.PrimaryHDU(data, new).writeto(buffer, output_verify="silentfix+ignore")
    return buffer.getvalue()


def _without(header: Any, *names: str) -> Any:
    copy = header.copy()
    for name in names:
        copy.remove(name, ignore_missing=True, remove_all=True)
    return copy
