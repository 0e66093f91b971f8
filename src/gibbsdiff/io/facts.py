"""What a file says of how its picture was taken: EXIF, or a FITS header."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from gibbsdiff.io.fits import SUFFIXES

Fact = str | float

#: Facts by name, and the EXIF tags or FITS cards that hold them, the first that is there.
EXIF = {
    "make": (271,),
    "camera": (272,),
    "iso": (34855,),
    "exposure": (33434,),
    "lens": (42036,),
    "taken": (36867, 306),
}
CARDS = {
    "telescope": ("TELESCOP",),
    "camera": ("INSTRUME", "DETECTOR", "CAMERA"),
    "filter": ("FILTER", "FILTER1", "BAND"),
    "gain": ("GAIN", "EGAIN"),
    "iso": ("ISOSPEED", "ISO"),
    "exposure": ("EXPTIME", "EXPOSURE"),
    "taken": ("DATE-OBS",),
}
EXIF_PART = 34665  # where a camera's own tags are

#: Of these the noise is not the same if they are not.
DECIDING = ("make", "telescope", "camera", "iso", "gain")


def facts_of(path: str | Path) -> dict[str, Fact]:
    """Camera, ISO, exposure and such, as far as the file says; {} if it says nothing."""
    place = Path(path)
    names = place.name.lower().removesuffix(".gz").removesuffix(".fz")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _of_header(place) if names.endswith(SUFFIXES) else _of_exif(place)
    except Exception:  # a picture without notes, or with damaged ones, is as good as any
        return {}


def differing(one: dict[str, Fact], other: dict[str, Fact]) -> list[str]:
    """Names of what both say and say differently, of what decides on the noise."""
    return [n for n in DECIDING if n in one and n in other and one[n] != other[n]]


def _of_exif(place: Path) -> dict[str, Fact]:
    from PIL import Image

    with Image.open(place) as image:
        tags = image.getexif()
        everything = {**tags, **tags.get_ifd(EXIF_PART)}
    return _named(EXIF, everything)


def _of_header(place: Path) -> dict[str, Fact]:
    from astropy.io import fits

    found: dict[str, Any] = {}
    with fits.open(place, lazy_load_hdus=True) as file:
        for hdu in file:
            found |= {card: hdu.header[card] for card in hdu.header if card and card not in found}
            if hdu.is_image and hdu.header.get("NAXIS", 0) >= 2:
                break
    return _named(CARDS, found)


def _named(table: dict[str, tuple[Any, ...]], values: dict[Any, Any]) -> dict[str, Fact]:
    named: dict[str, Fact] = {}
    for name, tags in table.items():
        value = next((values[tag] for tag in tags if values.get(tag) not in (None, "")), None)
        if isinstance(value, tuple | list):
            value = value[0] if value else None
        if value is None:
            continue
        if isinstance(value, str):
            named[name] = value.strip().strip("\0")
        else:
            named[name] = float(value)
    return named
