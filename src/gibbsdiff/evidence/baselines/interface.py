"""What the denoising baselines share: one image in, one image out."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import SpectralCovariance

Baseline = Callable[[Tensor, SpectralCovariance | None], Tensor]
"""(y (C, H, W), Σ_φ of that image or None) -> an estimate of x (C, H, W), of y's dtype."""

Array = NDArray[np.float64]


def one_image(y: Any) -> Tensor:
    """An observation (C, H, W), or (H, W), checked: grey or RGB."""
    x = as_images(y, "observation")
    if x.shape[:2] not in ((1, 1), (1, 3)):
        raise InputError(
            f"observation: a baseline takes one image of 1 or 3 channels, not {tuple(x.shape)}"
        )
    return x[0]


def pixels_last(y: Tensor) -> Array:
    """(C, H, W) -> (H, W, C), or (H, W) if grey; float64."""
    array: Array = y.double().cpu().permute(1, 2, 0).contiguous().numpy()
    return array[:, :, 0] if array.shape[2] == 1 else array


def as_image(pixels: Array, like: Tensor) -> Tensor:
    """The inverse of `pixels_last`."""
    x = torch.from_numpy(np.ascontiguousarray(pixels))
    return (x[None] if x.ndim == 2 else x.permute(2, 0, 1)).contiguous().to(like)


def white_sigma(y: Tensor) -> float:
    """σ as a user would find it: `skimage.restoration.estimate_sigma`, mean over channels.

    It is the median of the finest wavelet coefficients, so it sees only the highest
    frequencies, and takes the noise for white.
    """
    needs("pywt", "PyWavelets")
    from skimage.restoration import estimate_sigma

    estimate: Callable[..., float] = estimate_sigma
    return float(estimate(y.double().cpu().numpy(), channel_axis=0, average_sigmas=True))


def needs(module: str, package: str) -> ModuleType:
    """Import an optional module, or say in one line how to get it."""
    try:
        return import_module(module)
    except ImportError as trouble:
        raise InputError(
            f"this baseline needs {package} ({trouble}): pip install 'gibbsdiff[bench]'"
        ) from None
