"""FITS files of several parts: packed ones, extensions by name, and level maps beside the image."""

from __future__ import annotations

import gzip
import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, Beside

PACKED = (".gz", ".fz")
NAMED = re.compile(r"^(?P<file>.+\.(?:fits|fit|fts)(?:\.gz|\.fz)?)\[(?P<part>[\w.\- ]+)\]$", re.I)
LARGEST = 16_000_000_000  # bytes that a packed file may be unpacked to

#: Names of extensions, and what they hold: JWST's and Euclid's, and those of surveys.
LEVELS = {
    **dict.fromkeys(("ERR", "RMS", "ERROR", "SIGMA", "UNCERT"), "sd"),
    **dict.fromkeys(("VAR", "VARIANCE"), "variance"),
    **dict.fromkeys(("IVAR", "INVVAR", "WEIGHT"), "ivar"),
}
FLAGS = ("DQ", "FLG")
UNUSABLE = 1  # the bit of a flag: DO_NOT_USE of JWST, INVALID of Euclid
WEIGHT = ".weight"  # between a file's name and its suffix: a map of inverse variance


def split(path: str | Path) -> tuple[Path, str | None]:
    """The file and the extension that it names: "a.fits[SCI]" is a.fits and SCI."""
    found = NAMED.match(str(path))
    if found is None or Path(path).is_file():
        return Path(path), None
    return Path(found["file"]), found["part"]


def plain_name(path: Path) -> Path:
    """The name without an extension in brackets and without .gz or .fz."""
    place, _ = split(path)
    packed = place.suffix.lower() in PACKED and Path(place.stem).suffix != ""
    return place.with_name(place.stem) if packed else place


def unpacked(content: bytes) -> bytes:
    """A FITS file as it is without gzip and tile compression; other files as they are."""
    if content.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise InputError("unpacks to more than can be read")
    if not content.startswith(b"SIMPLE") or b"ZIMAGE" not in content:
        return content
    from astropy.io import fits

    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with fits.open(io.BytesIO(content)) as file:
            parts = [_plain(hdu) for hdu in file]
            fits.HDUList(parts).writeto(out, output_verify="silentfix+ignore")
    return out.getvalue()


def _plain(hdu: Any) -> Any:
    from astropy.io import fits

    if isinstance(hdu, fits.CompImageHDU):
        return fits.ImageHDU(hdu.data, hdu.header)
    return hdu.copy()


def chosen(file: Any, images: list[Any], part: str | None) -> Any:
    """The image of a file that is meant: the first one, or that of a name or number."""
    if part is None:
        return images[0]
    for number, hdu in enumerate(file):
        if str(number) == part or _is(hdu, part):
            if not any(hdu is image for image in images):
                raise InputError(f"[{part}] holds no image of one or three planes")
            return hdu
    names = [hdu.name or str(number) for number, hdu in enumerate(file)]
    raise InputError(f"has no extension {part}; there are {', '.join(names)}")


def level_beside(path: str | Path) -> Beside | None:
    """The level map in a FITS file, ERR and such, or in a file of weights beside it, and what its
    flags leave out; None if there is neither.
    """
    place, part = split(path)
    plain = plain_name(place)
    if plain.suffix.lower() not in (".fits", ".fit", ".fts") or not place.is_file():
        return None
    weights = [w for w in (plain.with_name(f"{plain.stem}{WEIGHT}{plain.suffix}"),) if w.is_file()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = _inside(unpacked(place.read_bytes()), place, part)
        if weights and (found is None or found.kind == ""):
            other = _first(unpacked(weights[0].read_bytes()))
            flags = None if found is None else np.isnan(found.values)
            if other is not None:
                other = other if flags is None else np.where(flags, np.nan, other)
                return Beside(other, "ivar", weights[0].name)
    return found


def _inside(content: bytes, place: Path, part: str | None) -> Beside | None:
    from astropy.io import fits

    with fits.open(io.BytesIO(content)) as file:
        images = [hdu for hdu in file if hdu.is_image and len(hdu.shape) >= 2]
        if not images:
            return None
        image = chosen(file, images, part)
        prefix = image.name.rpartition(".")[0]
        alike = [h for h in images if h is not image and h.shape[-2:] == image.shape[-2:]
                 and h.name.rpartition(".")[0] == prefix]  # fmt: skip
        levels = [(h, kind) for h in alike for name, kind in LEVELS.items() if _is(h, name)]
        flags = [h for h in alike if any(_is(h, name) for name in FLAGS)]
        flagged = None
        if flags and np.issubdtype(flags[0].data.dtype, np.integer):
            flagged = (_plane(flags[0].data).astype(np.int64) & UNUSABLE) != 0
        if not levels:
            if flagged is None or not flagged.any():
                return None
            return Beside(np.where(flagged, np.nan, 1.0), "", f"{place.name}[{flags[0].name}]")
        hdu, kind = levels[0]
        values = _plane(hdu.data).astype(np.float64)
        if flagged is not None:
            values = np.where(flagged, np.nan, values)
        return Beside(values, kind, f"{place.name}[{hdu.name}]")


def _first(content: bytes) -> Array | None:
    from astropy.io import fits

    with fits.open(io.BytesIO(content)) as file:
        for hdu in file:
            if hdu.is_image and len(hdu.shape) >= 2:
                return _plane(hdu.data).astype(np.float64)
    return None


def _plane(data: Array) -> Array:
    return np.asarray(data).reshape(-1, *data.shape[-2:])[0]


def _is(hdu: Any, name: str) -> bool:
    own = hdu.name.upper()
    return bool(own) and name.upper() in (own, own.rpartition(".")[2])
