"""A picture in memory, and all of its file but the pixels."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gibbsdiff.errors import InputError

Array = npt.NDArray[Any]

SMALLEST = 16
LARGEST = 2_000_000_000


@dataclass(frozen=True, eq=False)
class JpegSteps:
    """Steps (planes, 8, 8) in levels to which a JPEG's cosine coefficients were rounded, of Y or of
    Y, Cb and Cr; row u is the vertical frequency.

    `down` and `across` pixels have one chroma value: 2 and 2 in a file with 4:2:0.
    """

    tables: Array = field(repr=False)
    down: int = 1
    across: int = 1


@dataclass(frozen=True)
class FileFormat:
    """Enough to write the file again with other pixels.

    A stored number s means the value `offset + slope · s`; `blank` is the stored integer that
    means "no value". `measured` says that the depth is no range: a FITS file of 16 bits may
    hold a sky of 900 and stars of 60000. `alpha` (1, H, W) goes out as it came in.
    """

    name: str
    suffixes: tuple[str, ...]
    dtype: np.dtype[Any]
    encode: Callable[[Array], bytes]  # (C, H, W) in `dtype`
    encode_map: Callable[[Array], bytes]  # (C, H, W) float32, in the input's units
    map_suffix: str = ".tiff"
    offset: float = 0.0
    slope: float = 1.0
    blank: int | None = None
    measured: bool = False
    unit_name: str = ""
    alpha: Array | None = None
    linear: bool | None = None  # whether numbers are linear light, if the format says so
    steps: JpegSteps | None = None  # of a JPEG: what its coefficients were rounded to

    @property
    def integer(self) -> bool:
        """Whether the stored numbers are integers."""
        return self.dtype.kind in "iu"


class Beside(NamedTuple):
    """A level map that was found with a picture, (H, W), NaN where pixels are flagged; its kind, ""
    if there are flags alone; and where it is from.
    """

    values: Array
    kind: str
    source: str


@dataclass(frozen=True)
class Picture:
    """A picture on a scale near [0, 1], and what is needed to write it again.

    `values` is (C, H, W) float32, C = 1 or 3, finite; where `missing` (H, W) it is filled.
    Values in the file's own units are zero + unit · values. Colour files whose three channels are
    equal have C = 1.
    """

    path: Path
    values: Array
    missing: Array
    zero: float
    unit: float
    format: FileFormat = field(repr=False)
    channels: int  # in the file, alpha aside
    profile: bytes | None = field(default=None, repr=False)  # ICC: what its colours mean
    linear: bool = False  # the file is linear light, `values` are its sRGB values

    level: Beside | None = field(default=None, repr=False)  # of the noise, if the file has a map

    @property
    def unit_name(self) -> str:
        """What `unit` is counted in: "levels", a FITS BUNIT, or "" if the file does not say."""
        return self.format.unit_name


Reader = Callable[[bytes], tuple[Array, FileFormat]]


def check_size(height: int, width: int) -> None:
    """Refuse what is too small to denoise and what would be unpacked without end."""
    if min(height, width) < SMALLEST:
        raise InputError(f"{height}×{width} pixels; each side needs at least {SMALLEST}")
    if height * width > LARGEST:
        raise InputError(f"{height}×{width} pixels; more than {LARGEST} are not read")


def stored(values: Array, dtype: np.dtype[Any]) -> Array:
    """Values as they are stored: integers are rounded and clipped to what the depth holds."""
    if dtype.kind not in "iu":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    rounded = np.rint(np.nan_to_num(values))
    low, high = float(limits.min), float(limits.max)
    held = np.clip(rounded, low, np.nextafter(high, 0) if int(high) > limits.max else high)
    return held.astype(dtype)


def tiff_map(values: Array) -> bytes:
    """A float32 TIFF of one or three channels (C, H, W)."""
    import tifffile

    buffer = io.BytesIO()
    grey = len(values) == 1
    tifffile.imwrite(
        buffer,
        values[0] if grey else np.ascontiguousarray(values.transpose(1, 2, 0)),
        photometric="minisblack" if grey else "rgb",
        metadata=None,
        software="gibbsdiff",
    )
    return buffer.getvalue()
