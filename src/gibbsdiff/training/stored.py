"""Noisy pictures as files keep them, for training: clipped, rounded, compressed as JPEG.

A JPEG's steps take noise away where they are coarse, subsampling takes chroma's at small scales,
and both take a little of the picture. What a network is told is what is left, the power of
z - x: N(k) times the ratio of (z - x)'s power to the noise's around every reference frequency, in
which the chance of the draw cancels.
"""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gibbsdiff.fourier import between_references, half_plane, power, to_opponent
from gibbsdiff.noise.covariance import SpectralCovariance

LOUDEST = 0.15  # of the levels that are stored: beyond it too much would be clipped
QUALITY = (70.0, 99.0)  # more often fine than coarse
SUBSAMPLING = (0, 1, 2)  # 4:4:4, 4:2:2, 4:2:0
MOST = 100.0  # of the factor by which power is changed


def stored(
    x: Tensor, z: Tensor, noise: SpectralCovariance, u: Tensor, part: float
) -> tuple[Tensor, SpectralCovariance]:
    """A `part` of the noisy colour pictures z stored and read again, and what the noise is then.

    u (B, 3), uniform, chooses which, how finely and with which subsampling.
    """
    which = (u[:, 0] < part) & (noise.level < LOUDEST)
    if not bool(which.any()):
        return z, noise
    after = z.clone()
    for i in which.nonzero()[:, 0].tolist():
        quality = round(QUALITY[1] - (QUALITY[1] - QUALITY[0]) * float(u[i, 1]) ** 2)
        step = SUBSAMPLING[min(int(len(SUBSAMPLING) * float(u[i, 2])), len(SUBSAMPLING) - 1)]
        after[i] = jpeg(z[i], quality, step)
    return after, _changed(noise, z - x, after - x)


def jpeg(picture: Tensor, quality: int, subsampling: int) -> Tensor:
    """A picture (3, H, W) on [0, 1] as it comes back from a JPEG of 8 bits."""
    pixels = (255 * picture.clamp(0, 1)).round().to(torch.uint8).permute(1, 2, 0).numpy()
    kept = BytesIO()
    Image.fromarray(pixels).save(kept, "JPEG", quality=quality, subsampling=subsampling)
    back = np.array(Image.open(kept))
    return torch.from_numpy(back).permute(2, 0, 1).to(picture) / 255


def _changed(noise: SpectralCovariance, before: Tensor, after: Tensor) -> SpectralCovariance:
    """The noise's spectra, changed as those of one draw of it were."""
    assert noise.descriptor is not None
    between = between_references(noise.shape)
    hats = between * half_plane(noise.shape).weight
    # Where the grid has no mode around a frequency, the next higher one tells.
    for j in range(len(hats) - 2, -1, -1):
        if float(hats[j].sum()) < 1:
            hats[j] = hats[j + 1]
    was, now = (power(to_opponent(e)).flatten(2).double() @ hats.T for e in (before, after))
    log_ratio = torch.log(((now + 1e-12) / (was + 1e-12)).clamp(1 / MOST, MOST))
    change = torch.exp(log_ratio @ between).unflatten(-1, (noise.shape[0], -1))
    return replace(
        noise,
        power=noise.power * change.to(noise.power),
        descriptor=noise.descriptor + 0.5 * log_ratio.to(noise.descriptor),
    )
