"""How close an image is to its reference: PSNR and SSIM, for images on [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# SSIM compares windows of 7×7 pixels.
SMALLEST_SSIM = 7


def psnr(x: Tensor, reference: Tensor) -> Tensor:
    """-10 log₁₀ mean (x - reference)², in dB, over the last three axes: (..., C, H, W) -> (...)."""
    _same_shape(x, reference)
    error = (x.double() - reference.double()).square().mean((-3, -2, -1))
    return -10 * torch.log10(error)


def ssim(x: Tensor, reference: Tensor) -> Tensor:
    """Structural similarity, averaged over channels: (..., C, H, W) -> (...)."""
    from skimage import metrics

    _same_shape(x, reference)
    if min(x.shape[-2:]) < SMALLEST_SSIM:
        raise ValueError(f"SSIM needs sides of {SMALLEST_SSIM} pixels, not {tuple(x.shape[-2:])}")
    pairs = zip(
        x.double().reshape(-1, *x.shape[-3:]),
        reference.double().reshape(-1, *x.shape[-3:]),
        strict=True,
    )
    similarity: Callable[..., float] = metrics.structural_similarity
    values = [similarity(a.numpy(), b.numpy(), data_range=1.0, channel_axis=0) for a, b in pairs]
    return torch.tensor(values, dtype=torch.float64).reshape(x.shape[:-3])


def _same_shape(x: Tensor, reference: Tensor) -> None:
    if x.shape != reference.shape or x.ndim < 3:
        raise ValueError(
            f"need two images (..., C, H, W) of one shape, "
            f"not {tuple(x.shape)} and {tuple(reference.shape)}"
        )
