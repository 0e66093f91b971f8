r"""Counted light by a transform: BM3D of white noise after the generalised Anscombe transform.

For variance = gain · l + c the transform makes the noise nearly white of sd 1,

    z = 2/gain √(gain y + 3/8 gain² + c)

and the estimate is taken back by the closed form of its exact unbiased inverse (Mäkitalo and Foi,
IEEE Transactions on Image Processing 22, 91, 2013), in which counts are (gain y + c)/gain².
"""

from __future__ import annotations

import math

from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines.bm3d import bm3d_white
from gibbsdiff.evidence.baselines.interface import one_image


def anscombe_bm3d(y: Tensor, gain: float, c: float) -> Tensor:
    """BM3D told gain and c, on an image (C, H, W)."""
    if not gain > 0:
        raise InputError(f"the Anscombe transform needs a gain above 0, not {gain:g}")
    z = transformed(one_image(y).double(), gain, c)
    low, high = float(z.min()), float(z.max())
    scale = max(high - low, 1e-9)  # BM3D's thresholds are for pictures on [0, 1]
    found = bm3d_white((z - low) / scale, 1 / scale)
    return restored(low + scale * found.double(), gain, c).to(y.dtype)


def transformed(y: Tensor, gain: float, c: float) -> Tensor:
    """z, whose noise has about sd 1."""
    return 2 / gain * (gain * y + 3 / 8 * gain**2 + c).clamp(min=0).sqrt()


def restored(z: Tensor, gain: float, c: float) -> Tensor:
    """E[y] from E[z]."""
    D, r = z.clamp(min=2 * math.sqrt(3 / 8)), math.sqrt(1.5)
    counts = D**2 / 4 + r / (4 * D) - 11 / (8 * D**2) + 5 * r / (8 * D**3) - 1 / 8
    return gain * counts.clamp(min=0) - c / gain
