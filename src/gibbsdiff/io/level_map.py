"""Maps of how strong the noise is where, as numbers of a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array
from gibbsdiff.io.picture import opened, read_picture


def read_map(path: str | Path) -> Array:
    """The numbers (H, W) of a file in its own units, NaN where there are none: a map, not a picture
    to look at.
    """
    planes = len(read_picture(path).values)  # whatever is wrong with the file is one line
    if planes != 1:
        raise InputError(f"{path}: needs one plane, not {planes}")
    _, content, reader = opened(path)
    pixels, form = reader(content)
    values: Array = form.offset + form.slope * pixels[0].astype(np.float64)
    if form.blank is not None:
        values[pixels[0] == form.blank] = np.nan
    return values
