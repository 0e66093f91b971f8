r"""Noise whose channels go together, eq. (17): the chroma that is left tells of luma's noise.

Cameras amplify red and blue more than green, and have half as many pixels of each. Noise of luma
and of green chroma, (R-2G+B)/√6, is then correlated wherever chroma has noise:

    ε_l = β ε_g + ε',      ε' independent of ε_g

A denoiser for independent channels gives E[ε_g | y] = y_g - D_g, so that a second call may be shown

    y_l - β (y_g - D_g),      whose noise has the power N_l - β² (N_g - Ê_g)
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    Shape,
    between_references,
    filtered,
    from_opponent,
    half_plane,
    to_opponent,
)
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance

#: β of cameras: sensors with twice as many green pixels as red or blue ones, white balance of 1.5
#: to 2.5 for red and 1.3 to 2.2 for blue, and common colour matrices have 0.65 ± 0.09.
OF_CAMERAS = 0.65
MOST = 0.7  # of luma's power in a mode that may come from chroma
LUMA, GREEN = 0, 2


class Correlated(Denoiser):
    """D of a denoiser for independent channels, under noise of which luma has β of green chroma's.

    Two calls; noise of one spectrum for all channels is taken as it is.
    """

    error_model = True

    def __init__(self, inner: Denoiser, beta: float = OF_CAMERAS) -> None:
        self.inner, self.beta = inner, beta
        self.channels = inner.channels

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """E[x | z] by two calls."""
        first = self.inner(z, noise)
        if not isinstance(noise, SpectralCovariance) or noise.power.shape[1] < 3:
            return first
        E = None if first.error is None else first.error.spectrum()
        if E is None:
            raise InputError("correlated channels need a denoiser whose error has a spectrum")
        N = noise.power
        beta = (MOST * N[:, LUMA] / N[:, GREEN]).sqrt().clamp(max=self.beta)
        known = beta.square() * (N[:, GREEN] - E[:, GREEN]).clamp(min=0)
        left = (z - first.mean).to(N)
        shown = to_opponent(z)
        told = filtered(to_opponent(left)[:, GREEN : GREEN + 1], beta[:, None])
        shown = torch.cat([shown[:, :1] - told.to(shown), shown[:, 1:]], 1)
        power = torch.cat([N[:, :1] - known[:, None], N[:, 1:]], 1)
        return self.inner(from_opponent(shown), with_power(noise, power))


def with_power(noise: SpectralCovariance, power: Tensor) -> SpectralCovariance:
    """The same noise with another power, and a descriptor that has changed by as much."""
    descriptor = noise.descriptor
    if descriptor is not None:
        change = 0.5 * torch.log(power / noise.power)
        rows = descriptor.expand(-1, power.shape[1], -1)
        descriptor = rows + around_references(change, noise.shape).to(rows)
    return replace(noise, power=power, descriptor=descriptor)


def around_references(values: Tensor, shape: Shape) -> Tensor:
    """Means of (B, C, H, W//2+1) around the frequencies of eq. (5), (B, C, 8); a frequency below
    all modes has the next one's.
    """
    hats = between_references(shape) * half_plane(shape).weight
    counts = hats.sum(1)
    means = values.double().flatten(2) @ hats.T.to(values.device) / counts.clamp(min=1e-12)
    for j in range(len(counts) - 2, -1, -1):
        if float(counts[j]) < 1:
            means[..., j] = means[..., j + 1]
    return means
