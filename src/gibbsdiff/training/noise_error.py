r"""How wrong the noise is that a denoiser leaves: N̂ = |y-D|² + Ê against |y-x|².

With e = x-D and r = y-D, |y-x|² = |r|² + |e|² - 2 Re e*r. The last term is 0 on average if D is the
posterior mean. A network that has not learnt enough leaves some of it, and N̂ is too large or too
small by it, in the same way on all images: a gain removes it. What is left scatters from image to
image. It has the size ρ √(E (N-E)) of a correlation ρ between e and r, whose powers are E and N-E:
measured so, ρ(|k|) is the same at all levels of the noise, eq. (12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration, overlap
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import REFERENCE, between_references, half_plane
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training.error_table import (
    LEVELS,
    SLOPES,
    bare_with,
    errors,
    fit_factor,
    hats_of,
    penalty,
    place_in_ratio,
)

TOGETHER = 16.0  # neighbouring modes of an image are wrong together: they count as one
BELIEF = 0.05  # sd of a gain, before it is measured


def fit_calibration(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = LEVELS,
    phi: Sequence[float | tuple[float, ...]] = SLOPES,
    family: StationaryNoise | None = None,
    with_gain: bool = False,
) -> Calibration:
    """What held-out images say of a denoiser: the gain, if it is to have one, then c given the
    gain, then how wrong the noise is given the gain and the error by ∂D/∂y, eq. (13).
    """
    gain = fit_gain(denoiser, images, sigma, phi, family=family) if with_gain else None
    log_c = fit_factor(denoiser, images, sigma, phi, family=family, gain=gain)
    knots = log_c.shape[0] * log_c.shape[1]
    found = Calibration(log_c, torch.zeros(knots, knots, dtype=torch.float64), gain)
    known = SpectralDenoiser(denoiser.network, denoiser.signal, found).with_derivative_error()
    return replace(found, scatter=noise_scatter(known, images, sigma, phi, family=family))


def fit_gain(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float],
    phi: Sequence[float | tuple[float, ...]],
    seed: int = 2,
    family: StationaryNoise | None = None,
) -> Tensor:
    """The table b(|k|, N/S_x) that minimises Σ w |e - b r|²/Ê and a penalty, (C, 8, 10)."""
    bare = bare_with(denoiser, None)
    shape, channels = (images.shape[-2], images.shape[-1]), images.shape[1]
    S_x = denoiser.signal.power(shape)
    weight = half_plane(shape).weight / TOGETHER
    along_k = between_references(shape)
    size = len(REFERENCE) * len(LOG_RATIO)
    A = torch.zeros(channels, size, size, dtype=torch.float64)
    B = torch.zeros(channels, size, dtype=torch.float64)
    for i, (s, p) in enumerate(product(sigma, phi)):
        for e in errors(bare, images, s, p, seed + i, family=family):
            # All images of a cell have the same N, so that their modes meet the same knots.
            v = place_in_ratio(e.noise[:1].double(), S_x).flatten(2)[0]
            of_r, of_er = (
                ((part / e.predicted).flatten(2).sum(0) * weight) for part in (e.residual, e.shared)
            )
            for c in range(channels):
                knots = along_k.T[:, :, None] * hats_of(v[c], len(LOG_RATIO))[:, None, :]
                X = knots.flatten(1)
                A[c] += X.T @ (of_r[c, :, None] * X)
                B[c] += X.T @ of_er[c]
    belief = penalty() / BELIEF**2
    return torch.linalg.solve(A + belief, B[..., None])[..., 0].reshape(
        channels, len(REFERENCE), len(LOG_RATIO)
    )


def noise_scatter(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float],
    phi: Sequence[float | tuple[float, ...]],
    seed: int = 200,
    family: StationaryNoise | None = None,
) -> Tensor:
    """E[ρ ρᵀ], ρ_j = Σ w h_j (N̂ - |y-x|²)/N / Σ w h_j q, over images and cells: (8 C, 8 C).

    Subtracted is what a finite number of modes makes of a D and Ê that are right: with
    independent e ~ N(0, Ê) a mode of weight w has the variance (2 Ê² + 4 |r|² Ê)/(w N²).
    """
    shape = (images.shape[-2], images.shape[-1])
    weight = half_plane(shape).weight
    hats = between_references(shape)
    moments = []
    for i, (s, p) in enumerate(product(sigma, phi)):
        rows = []
        for e in errors(denoiser, images, s, p, seed + i, family=family):
            N = e.noise.double()
            off = ((e.predicted - e.true + 2 * e.shared) / N).flatten(2) * weight
            q = torch.einsum("bcm,jm->bcj", overlap(e.predicted, N).flatten(2) * weight, hats)
            q = q.clamp(min=1e-9)  # a small image has no mode near the lowest knots
            rho = (torch.einsum("bcm,jm->bcj", off, hats) / q).flatten(1)
            v = ((2 * e.predicted**2 + 4 * e.residual * e.predicted) / N**2).flatten(2) * weight
            sampling = torch.einsum("bcm,im,jm->bcij", v, hats, hats)
            sampling = sampling / (q[..., :, None] * q[..., None, :])
            own = torch.stack([torch.block_diag(*channel) for channel in sampling])
            rows.append(rho[:, :, None] * rho[:, None, :] - own)
        moments.append(torch.cat(rows).mean(0))
    return nearest_covariance(torch.stack(moments).mean(0))


def nearest_covariance(matrix: Tensor) -> Tensor:
    """A symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * values.clamp(min=0)) @ vectors.T
