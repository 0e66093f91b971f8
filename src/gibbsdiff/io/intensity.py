"""From stored numbers to values near [0, 1], and the filling of pixels that have none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat

#: Full scales of cameras and files: 8, 10, 12, 14 and 16 bits.
FULL_SCALES = (255, 1023, 4095, 16383, 65535)

#: Percentiles of float data that become 0 and 1.
LOW, HIGH = 0.1, 99.9

#: Of a picture with few bright things in it: 1 is not below this percentile, nor this many sd of
#: the noise above 0, if 99.9 % would put more of them there than `MANY` and be twice as far.
REST, ENOUGH_SD, MANY = 97.0, 25.0, 50.0

#: More pixels than these are thinned before the percentiles are taken.
ENOUGH = 4_000_000


class Scale(NamedTuple):
    """original = zero + unit · values."""

    zero: float
    unit: float


def scale_of(pixels: Array, missing: Array, file_format: FileFormat) -> Scale:
    """The scale of a picture, by its depth or by the range of what it holds.

    Integers: zero 0 and the smallest full scale that holds the largest of them, as files of 16
    bits often come from a camera of 12 that would be all but black on 65535. Other numbers
    (float, below zero, wider than 16 bits, measured): kept as they are where they lie in
    [0, 1] and use it, else between the 0.1 and 99.9 % percentiles; where a few bright things would
    leave next to nothing of the range to the noise, between fewer.
    """
    if file_format.dtype == np.uint8 and not file_format.measured:
        return Scale(0.0, 255.0)
    seen = pixels[:, ~missing]
    least, most = float(seen.min()), float(seen.max())
    if file_format.integer and not file_format.measured and least >= 0 and most <= FULL_SCALES[-1]:
        return Scale(0.0, float(next(full for full in FULL_SCALES if most <= full)))
    plain = not file_format.integer and file_format.slope == 1 and file_format.offset == 0
    if plain and least >= 0 and 0.1 <= most <= 1:  # a map in small units lies in a corner of it
        return Scale(0.0, 1.0)
    thinned = seen.ravel()[:: max(1, seen.size // ENOUGH)].astype(np.float64)
    low, rest, high = (float(value) for value in np.percentile(thinned, (LOW, REST, HIGH)))
    if not low < high:
        low, high = least, most
    sd = noise_sd(pixels, missing)
    if MANY * sd < high - low and 2 * (rest - low) < high - low:
        high = max(low + ENOUGH_SD * sd, rest)  # stars do not set the scale
    zero, unit = file_format.offset + file_format.slope * low, file_format.slope * (high - low)
    if unit == 0 or not np.isfinite(1 / unit):
        return Scale(zero, 1.0)
    if not np.isfinite(unit):
        raise InputError("the values are too far apart for a picture")
    # A negative slope must not turn the unit, in which standard deviations are told, negative.
    return Scale(zero, unit) if unit > 0 else Scale(zero + unit, -unit)


def noise_sd(pixels: Array, missing: Array) -> float:
    """About the sd of noise on (C, H, W), by the median of second differences: of white noise it is
    right, of other noise a guess; 0 where most neighbours are equal.
    """
    step = max(1, int((pixels.shape[-2] * pixels.shape[-1] / ENOUGH) ** 0.5))
    rows = slice(None, None, 2 * step)
    plane = np.where(missing, np.nan, pixels[0].astype(np.float64))
    if len(plane) < 2:
        return 0.0
    above, below = plane[:-1][rows], plane[1:][rows]
    change = np.diff(above, axis=1) - np.diff(below, axis=1)
    change = change[np.isfinite(change)]
    return float(np.median(np.abs(change))) / (2 * 0.6745) if change.size else 0.0


def filled(values: Array, missing: Array) -> Array:
    """Values (H, W) with the missing ones smoothly filled from their neighbours.

    Each halving of the picture averages the pixels that have a value; a hole takes the
    bilinear interpolation of the finest level at which it is closed.
    """
    if not missing.any():
        return values
    weight = _halved(1.0 - missing)
    total = _halved(np.where(missing, 0.0, values))
    coarse = filled(total / np.where(weight > 0, weight, 1), weight == 0)
    smooth = _doubled(_doubled(coarse).T).T[: values.shape[0], : values.shape[1]]
    return np.where(missing, smooth, values)


def _halved(x: Array) -> Array:
    """Sums of blocks of 2×2; the last block of an odd side has half of them."""
    x = np.pad(x, [(0, side % 2) for side in x.shape])
    return x[0::2, 0::2] + x[1::2, 0::2] + x[0::2, 1::2] + x[1::2, 1::2]


def _doubled(x: Array) -> Array:
    """Twice the rows, linear between the centres of the old ones."""
    above = np.concatenate([x[:1], x[:-1]])
    below = np.concatenate([x[1:], x[-1:]])
    out = np.empty((2 * len(x), x.shape[1]))
    out[0::2], out[1::2] = x + (above - x) / 4, x + (below - x) / 4
    return out
