"""Stacks: many pages in one TIFF, FITS cube or NPY file, read and written one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gibbsdiff.errors import InputError
from gibbsdiff.io import stack_plain, stack_tiff
from gibbsdiff.io.raw import RAW
from gibbsdiff.io.stack_format import Stack


@contextmanager
def open_stack(path: str | Path, axes: str | None = None) -> Iterator[Stack | None]:
    """The stack in a file; None if that is one picture, which `read_picture` takes.

    Arguments:
        axes: Of the numbers in the file, such as "TZCYX", if it does not say them itself or is
            wrong; whatever is named so is a stack.
    """
    place = Path(path)
    start = b""
    if place.is_file() and place.suffix.lower() not in RAW:
        with place.open("rb") as file:
            start = file.read(8)
    found = None
    try:
        if start[:4] in stack_tiff.SIGNATURES:
            found = stack_tiff.open_tiff(place, axes)
        elif start.startswith(b"SIMPLE"):
            found = stack_plain.open_fits(place, axes)
        elif start.startswith(b"\x93NUMPY"):
            found = stack_plain.open_npy(place, axes)
        elif axes is not None and start:
            raise InputError("one picture has no further axes")
    except InputError as trouble:
        raise InputError(f"{place}: {trouble}") from None
    except (OSError, ValueError, KeyError, IndexError, TypeError) as trouble:
        reason = " ".join(str(trouble).split())[:120] or type(trouble).__name__
        raise InputError(f"{place}: cannot be read ({reason})") from None
    try:
        yield found
    finally:
        if found is not None:
            found.close()
