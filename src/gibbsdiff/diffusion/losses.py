"""What a network is trained by: the relative error of eq. (6), and the likelihoods of its error
model, eq. (7).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import filtered, half_plane, power, to_opponent
from gibbsdiff.noise.covariance import SpectralCovariance


class Losses(NamedTuple):
    """Per image: the error relative to the Wiener filter's, eq. (6), in pixels and in units of
    the noise, and the negative log-likelihoods of the residual's pixels (v) and of its
    spectrum (B), eq. (7).
    """

    relative: Tensor
    whitened: Tensor
    pixel: Tensor
    spectral: Tensor


def losses(denoiser: SpectralDenoiser, x: Tensor, z: Tensor, noise: SpectralCovariance) -> Losses:
    """All four, for signals x (B, C, H, W) observed as z.

    The likelihoods are of the detached residual: they train the error model, not the mean.
    """
    mean, heads, w = denoiser.evaluate(z, noise)
    modes = half_plane(noise.shape)
    scale = modes.mean(w.V.flatten(2)).mean((1, 2))
    relative = (mean - x).square().mean((1, 2, 3)) / scale
    error = to_opponent(x - mean)
    in_noise = filtered(error, noise.power.rsqrt()).square().mean((1, 2, 3))
    whitened = in_noise / modes.mean((w.V / noise.power).flatten(2)).mean((1, 2))
    residual = filtered(error.detach(), w.V.rsqrt())
    v = heads.log_variance
    pixel = 0.5 * (v + residual.square() * torch.exp(-v)).mean((1, 2, 3))
    level = v.detach().exp().mean((-2, -1), keepdim=True).log()
    log_e = in_every_mode(heads.log_bands, noise.shape) + level
    terms = 0.5 * (log_e + power(residual) * torch.exp(-log_e))
    spectral = modes.mean(terms.flatten(2).double()).mean((1, 2))
    return Losses(relative, whitened, pixel, spectral)
