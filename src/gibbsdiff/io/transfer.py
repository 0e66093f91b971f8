"""Linear light and sRGB: networks for pictures have seen the encoded values alone.

Linear data are encoded before and decoded after; standard deviations go through the derivative.
"""

from __future__ import annotations

import io
from typing import Literal

import numpy as np

from gibbsdiff.io.file_format import Array

Transfer = Literal["auto", "linear", "srgb"]

KNEE, SLOPE = 0.0031308, 12.92  # where the curve becomes a line, and that line
POWER, RAISED = 2.4, 0.055


def encode(light: Array) -> Array:
    """sRGB values of linear light; odd, and the same curve beyond 1."""
    size = np.abs(light)
    curve = (1 + RAISED) * np.maximum(size, KNEE) ** (1 / POWER) - RAISED
    return np.sign(light) * np.where(size <= KNEE, SLOPE * size, curve)


def decode(values: Array) -> Array:
    """Linear light of sRGB values."""
    size = np.abs(values)
    curve = ((np.maximum(size, SLOPE * KNEE) + RAISED) / (1 + RAISED)) ** POWER
    return np.sign(values) * np.where(size <= SLOPE * KNEE, size / SLOPE, curve)


def slope_of_decode(values: Array) -> Array:
    """∂ light/∂ value."""
    size = np.abs(values)
    base = (np.maximum(size, SLOPE * KNEE) + RAISED) / (1 + RAISED)
    steep = POWER / (1 + RAISED) * base ** (POWER - 1)
    return np.where(size <= SLOPE * KNEE, 1 / SLOPE, steep)


def says_linear(profile: bytes | None) -> bool:
    """Whether an ICC profile says by its name that values are linear light."""
    if not profile:
        return False
    from PIL import ImageCms

    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return "linear" in ImageCms.getProfileDescription(opened).lower()
    except (ImageCms.PyCMSError, OSError):
        return False
