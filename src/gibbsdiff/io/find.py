"""Which pictures a file, a folder or a glob names, and what is passed over."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import NamedTuple

from gibbsdiff.errors import InputError
from gibbsdiff.io.fits_parts import WEIGHT, plain_name, split
from gibbsdiff.io.picture import READERS, USUAL

#: What this package writes beside a picture: "photo.denoised.png" is not a picture to denoise.
RESULTS = (".noise-spectrum.", ".denoised.", ".uncertainty.", ".report.", ".posterior.nc")


class Found(NamedTuple):
    """Pictures, sorted; results of an earlier run; and whatever else lies there."""

    pictures: list[Path]
    results: list[Path]
    others: list[Path]


def find_pictures(pattern: str | Path) -> Found:
    """The pictures that a file, a folder or a glob names.

    A file that is named itself is a picture whatever its name; no pictures at all is an error.
    """
    place = Path(pattern)
    if os.path.isfile(split(place)[0]):
        return Found([place], [], [])
    if os.path.isdir(place):
        everything = sorted(place.iterdir())
    elif glob.has_magic(str(pattern)):
        everything = sorted(Path(name) for name in glob.glob(str(pattern), recursive=True))
    else:
        raise InputError(f"{place}: no such file or folder")
    found = Found([], [], [])
    for path in everything:
        if is_result(path):
            found.results.append(path)
        elif path.is_file() and _is_named_so(path):
            found.pictures.append(path)
        else:
            found.others.append(path)
    if not found.pictures:
        raise InputError(f"{place}: no picture there ({USUAL})")
    return found


def _is_named_so(path: Path) -> bool:
    """Whether it is a picture by its name, and no map of weights of another."""
    plain = plain_name(path)
    whose = plain.with_name(f"{Path(plain.stem).stem}{plain.suffix}")
    weights = Path(plain.stem).suffix == WEIGHT and whose.exists()
    return plain.suffix.lower() in READERS and not weights


def is_result(path: Path) -> bool:
    """Whether this package writes files of such a name."""
    return any(mark in path.name for mark in RESULTS)
