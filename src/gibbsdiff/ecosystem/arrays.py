"""Arrays of any numbers in, the clean ones with their standard deviation out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.io.file_format import Array, FileFormat, stored
from gibbsdiff.io.intensity import scale_of

DEPTHS = (np.dtype(np.uint8), np.dtype(np.uint16))  # whose range `denoise` knows
BEYOND = 0.5  # that floats on [0, 1] may leave it by: their noise


class Restored(NamedTuple):
    """The clean picture in the type that it came in, and its standard deviation as floats, both
    with the axes and in the units of the input; and the posteriors, one if there is one picture.
    """

    image: Array
    sd: Array
    posteriors: list[Any]


def restored_array(
    image: Any, channel_axis: int | str | None, options: Mapping[str, Any]
) -> Restored:
    """What `restore` does with an array, masked or not."""
    hidden = np.ma.getmaskarray(image) if isinstance(image, np.ma.MaskedArray) else None
    array = np.asarray(np.ma.getdata(image) if hidden is not None else image)
    if array.dtype.kind not in "iuf":
        raise InputError(f"image: dtype {array.dtype} is not real pixel data")
    axis = _axis(channel_axis, array.ndim)
    planes = array[None] if axis is None else np.moveaxis(array, axis, 0)
    missing = np.zeros(planes.shape[1:], dtype=bool)
    if hidden is not None:
        missing |= (hidden[None] if axis is None else np.moveaxis(hidden, axis, 0)).any(axis=0)
    groups = [planes] if len(planes) in (1, 3) else [plane[None] for plane in planes]
    done = [_of_channels(group, missing, options) for group in groups]
    clean, sd = (np.concatenate([each[i] for each in done]) for i in range(2))
    clean, sd = (m[0] if axis is None else np.moveaxis(m, 0, axis) for m in (clean, sd))
    return Restored(clean, sd, [each[2] for each in done])


def _of_channels(
    planes: Array, missing: Array, options: Mapping[str, Any]
) -> tuple[Array, Array, Any]:
    """Planes (1 or 3, H, W) of any numbers: the clean ones, their sd, and the posterior."""
    missing = missing | ~np.isfinite(planes).all(axis=0)
    if missing.all():
        raise InputError("image: no pixel has a value")
    if planes.dtype in DEPTHS and not missing.any():
        zero, unit = 0.0, float(np.iinfo(planes.dtype).max)
        given = np.ascontiguousarray(planes)
    else:
        zero, unit = _scale(planes, missing)
        if unit != 1 and options.get("level_absolute"):
            raise InputError("level_absolute: the image is scaled here; use gibbsdiff.denoise")
        exact = np.float64 if planes.dtype.itemsize > 4 else np.float32
        given = ((planes.astype(np.float64) - zero) / unit).astype(exact)
        given[:, missing] = np.nan
    posterior = denoise(given, **options)
    picture = zero + unit * posterior.picture.double().numpy()
    kind = planes.dtype if planes.dtype.kind in "iu" else np.dtype(f"f{planes.dtype.itemsize}")
    spread = posterior.sd if posterior.sd is not None else np.nan * posterior.mean
    sd = (unit * spread.double().numpy()).astype(kind if kind.kind == "f" else np.float32)
    return stored(picture, kind), sd, posterior


def _scale(planes: Array, missing: Array) -> tuple[float, float]:
    """Zero and unit: (0, 1) of floats that are about [0, 1], else as of a file of such numbers."""
    seen = planes[:, ~missing]
    if planes.dtype.kind == "f":
        low, high = np.percentile(seen.astype(np.float64), (1, 99))
        if low >= -BEYOND and 0.1 <= high <= 1 + BEYOND:
            return 0.0, 1.0
    elif planes.dtype in DEPTHS:
        return 0.0, float(np.iinfo(planes.dtype).max)
    unpacked = FileFormat("array", (), planes.dtype, _bytes, _bytes, measured=True)
    return scale_of(planes, missing, unpacked)


def _bytes(pixels: Array) -> bytes:
    return pixels.tobytes()


def _axis(channel_axis: int | str | None, axes: int) -> int | None:
    """The channel axis from 0 on, if it fits an array of so many axes."""
    if isinstance(channel_axis, str):
        raise InputError(f"channel_axis: {channel_axis!r} is a name; an array has numbered axes")
    if axes != (2 if channel_axis is None else 3):
        wanted = "two axes, or three and a channel_axis"
        raise InputError(f"image: {axes} axes; a picture has {wanted}")
    if channel_axis is None:
        return None
    if not -axes <= channel_axis < axes:
        raise InputError(f"channel_axis: {channel_axis}, but the image has {axes} axes")
    return channel_axis % axes
