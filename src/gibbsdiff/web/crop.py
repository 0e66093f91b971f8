"""A part of a picture as a picture file of its own, in the numbers of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gibbsdiff.io import png
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.picture import read_picture


def crop_picture(picture: Picture, box: tuple[int, ...], folder: Path) -> Picture:
    """Left, top, width and height of a picture, as "name.crop.png" or, where PNG cannot hold its
    numbers, "name.crop.npy" in the folder; that file, read.
    """
    left, top, width, height = box
    rows, columns = slice(top, top + height), slice(left, left + width)
    values = picture.values[:, rows, columns]
    form, stem = picture.format, picture.path.stem
    missing = picture.missing[rows, columns]
    exact = form.integer and not form.measured and form.dtype.str[1:] in ("u1", "u2")
    if exact and not missing.any():
        original = np.rint(picture.zero + picture.unit * values.astype(np.float64))
        pixels = original.clip(0, np.iinfo(form.dtype).max).astype(form.dtype)
        pixels = np.repeat(pixels, picture.channels // len(pixels), axis=0)
        path = folder / f"{stem}.crop.png"
        write_atomically(path, png.encode(pixels, alpha=None, chunks=()))
        return read_picture(path)
    original = (picture.zero + picture.unit * values.astype(np.float64)).astype(np.float32)
    original[:, missing] = np.nan
    path = folder / f"{stem}.crop.npy"
    np.save(path, original[0] if len(original) == 1 else original, allow_pickle=False)
    return read_picture(path)
