"""NPY: plain arrays of numbers. What would have to be unpickled is refused unread."""

from __future__ import annotations

import io
from functools import partial

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat


def read(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W) of an array (H, W), (H, W, 1 or 3) or (1 or 3, H, W)."""
    if not content.startswith(b"\x93NUMPY"):
        raise InputError("not an NPY file")
    try:
        array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except ValueError as trouble:
        if "Object arrays" in str(trouble):
            raise InputError("dtype object is not pixel data") from None
        raise
    if array.dtype.kind not in "iuf":
        raise InputError(f"dtype {array.dtype} is not real pixel data")
    layout = _layout(array.shape)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    encode = partial(_encode, layout=layout, fortran=fortran)
    file_format = FileFormat(
        "NPY",
        (".npy",),
        array.dtype,
        encode,
        encode,
        map_suffix=".npy",
        unit_name="levels" if array.dtype.kind in "iu" else "",
    )
    planes = {"HW": array[None], "CHW": array}.get(layout)
    return np.moveaxis(array, -1, 0) if planes is None else planes, file_format


def _layout(shape: tuple[int, ...]) -> str:
    if len(shape) == 2:
        return "HW"
    if len(shape) == 3 and shape[-1] in (1, 3):
        return "HWC"
    if len(shape) == 3 and shape[0] in (1, 3):
        return "CHW"
    raise InputError(f"shape {shape}; need (H, W), (H, W, 3), (H, W, 1), (3, H, W) or (1, H, W)")


def _encode(pixels: Array, layout: str, fortran: bool) -> bytes:
    planes = {"HW": pixels[0], "CHW": pixels}.get(layout)
    array = np.moveaxis(pixels, 0, -1) if planes is None else planes
    buffer = io.BytesIO()
    np.lib.format.write_array(
        buffer, np.asarray(array, order="F" if fortran else "C"), allow_pickle=False
    )
    return buffer.getvalue()
