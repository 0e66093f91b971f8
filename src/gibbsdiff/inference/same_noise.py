"""Picture files that have one noise: of one kind, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.inference.encoding import Given, read
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.intensity import Scale
from gibbsdiff.io.picture import read_picture


class FileFrames(Sequence[Given]):
    """Picture files on one scale, each read when it is asked for."""

    def __init__(self, files: Sequence[Path], scale: Scale) -> None:
        self.files, self.scale = files, scale

    def __len__(self) -> int:
        return len(self.files)

    def picture(self, index: int) -> Picture:
        """One of them, on the scale of all."""
        own = read_picture(self.files[index])
        values = (own.zero + own.unit * own.values.astype(np.float64) - self.scale.zero) / (
            self.scale.unit
        )
        zero, unit = self.scale
        return replace(own, values=values.astype(np.float32), zero=zero, unit=unit)

    def __getitem__(self, index: Any, /) -> Any:
        return read(self.picture(index))


def pictures_alike(files: Sequence[Path]) -> FileFrames:
    """Files of one kind: of one format, type, unit and number of channels; others are refused.

    The scale holds the range of all.
    """
    first = read_picture(files[0])
    low, high = first.zero, first.zero + first.unit
    for file in files[1:]:
        other = read_picture(file)
        if kind_of(other) != kind_of(first):
            raise InputError(
                f"{file}: {kind_of(other)}, but {files[0]} is {kind_of(first)}; "
                "pictures of different kinds have no noise in common"
            )
        low, high = min(low, other.zero), max(high, other.zero + other.unit)
    return FileFrames(files, Scale(low, high - low))


def kind_of(picture: Picture) -> str:
    """What pictures with one noise have in common."""
    form = picture.format
    colours = "grey" if len(picture.values) == 1 else "colour"
    unit = f" in {picture.unit_name}" if picture.unit_name not in ("", "levels") else ""
    return f"{colours} {form.name} of {form.dtype.newbyteorder('=')}{unit}"
