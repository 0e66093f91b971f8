"""BM3D for coloured noise, told its spectrum as in the paper, and as a user would run it.

The `bm3d` package is optional, is imported when first used, and is licensed for non-commercial
use only. One 256² image takes about 25 s of one core.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines.interface import (
    Array,
    as_image,
    needs,
    one_image,
    pixels_last,
    white_sigma,
)
from gibbsdiff.noise.covariance import SpectralCovariance


def bm3d_with_spectrum(y: Tensor, noise: SpectralCovariance | None) -> Tensor:
    """BM3D told the exact spectrum N(k) of the noise: the paper's baseline, not blind."""
    if noise is None:
        raise InputError("BM3D told the noise needs its covariance; bm3d_as_used estimates it")
    image = one_image(y)
    if noise.shape != tuple(image.shape[-2:]):
        raise InputError(
            f"the noise is for {noise.shape[0]}×{noise.shape[1]} pixels, "
            f"the observation has {image.shape[-2]}×{image.shape[-1]}"
        )
    return _run(image, psd(noise))


def bm3d_as_used(y: Tensor, noise: SpectralCovariance | None = None) -> Tensor:
    """BM3D told nothing: σ from `estimate_sigma`, the noise taken for white; `noise` is ignored."""
    image = one_image(y)
    sigma = white_sigma(image)
    return _run(image, sigma) if sigma > 0 else image.clone()


def bm3d_white(image: Tensor, sigma: float) -> Tensor:
    """BM3D told white noise of this σ, on an image (C, H, W)."""
    return _run(image, sigma)


def psd(noise: SpectralCovariance) -> Array:
    """What BM3D calls a power spectral density: E|FFT(ε)|² = N·H·W, on the whole plane (H, W).

    Our N is that of an orthonormal transform; the missing half-plane is N(-k) = N(k).
    """
    if noise.power.shape[:2] != (1, 1):
        raise InputError(
            "BM3D takes the noise of one image, equal in all channels, "
            f"not spectra of shape {tuple(noise.power.shape[:2])}"
        )
    height, width = noise.shape
    half = noise.power[0, 0].double().cpu()
    rest = half[:, 1 : (width + 1) // 2].flip(1)
    mirrored = torch.cat([rest[:1], rest[1:].flip(0)])
    full: Array = torch.cat([half, mirrored], 1).numpy()
    return full * height * width


def _run(image: Tensor, noise: Array | float) -> Tensor:
    package = _package()
    method = package.bm3d_rgb if image.shape[0] == 3 else package.bm3d
    profile = package.BM3DProfile()
    # With more threads the order of its sums, and so the last digits, change from run to run.
    profile.num_threads = 1
    return as_image(method(pixels_last(image), noise, profile), image)


def _package() -> ModuleType:
    package = needs("bm3d", "the package bm3d")
    engine: Any = needs("bm4d", "the package bm4d")
    if not hasattr(np, "trapz") and not isinstance(engine.np, _OlderNumPy):
        engine.np = _OlderNumPy("numpy")
    return package


class _OlderNumPy(ModuleType):
    """NumPy with `trapz`, which 2.4 dropped and BM3D's engine calls; only that engine sees it."""

    def __getattr__(self, name: str) -> object:
        return getattr(np, "trapezoid" if name == "trapz" else name)
