"""How well (σ, H0, ω_b) could be known if dust were Gaussian: what a posterior is compared with."""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.fourier import Shape
from gibbsdiff.noise.stationary import StationaryNoise

#: The lattice, in standard deviations of the Fisher matrix: ± REACH, POINTS in each direction. An
#: even number: a truth on a wall then has the wall between two points.
REACH, POINTS = 5.0, 32


def fisher(phi: Tensor, signal: Signal, noise: StationaryNoise, shape: Shape) -> Tensor:
    """F = ½ Σ_k w (N/T)² ∂ log N ∂ log Nᵀ, T = S_x + N: of y ~ N(0, T), eq. (10), at φ (d,)."""
    grouping = noise.grouping(shape)
    slopes = torch.autograd.functional.jacobian(lambda p: noise.log_power(grouping.k, p), phi)
    N = torch.exp(noise.log_power(grouping.k, phi))
    part = N / (_dust(signal, noise, shape) + N)
    return 0.5 * torch.einsum("m,mi,mj->ij", grouping.k.weight * part**2, slopes, slopes)


def gaussian_sd(phi: Tensor, signal: Signal, noise: StationaryNoise, shape: Shape) -> Tensor:
    """The sd of p(φ | y) under Gaussian dust, for a y whose power is just what φ (d,) makes it:

        log p = -½ Σ_k w [log T' + T/T'],   T' = S_x + N_φ',   inside the prior box.

    No y is drawn, so that the sd does not depend on one draw; the prior box cuts it as it cuts
    every posterior. Summed over a lattice along the axes of the Fisher matrix, to which the box
    adds its own variance.
    """
    grouping = noise.grouping(shape)
    S_x, w = _dust(signal, noise, shape), grouping.k.weight
    T = S_x + torch.exp(noise.log_power(grouping.k, phi))
    box = torch.diag(12 / (noise.high - noise.low) ** 2)
    axes = torch.linalg.cholesky(torch.linalg.inv(fisher(phi, signal, noise, shape) + box))
    step = torch.linspace(-REACH, REACH, POINTS, dtype=torch.float64)
    lattice = phi + torch.cartesian_prod(*[step] * len(phi)).reshape(-1, len(phi)) @ axes.T
    inside = lattice[noise.log_prior(lattice) > -torch.inf]
    parts = []
    for some in inside.split(2000):
        other = S_x + torch.exp(noise.log_power(grouping.k, some))
        parts.append(-0.5 * (w * (torch.log(other) + T / other)).sum(-1) + noise.log_prior(some))
    p = torch.softmax(torch.cat(parts), 0)
    return (p @ (inside - p @ inside) ** 2).sqrt()


def _dust(signal: Signal, noise: StationaryNoise, shape: Shape) -> Tensor:
    """S_x in the groups of modes that the noise is summed in."""
    grouping = noise.grouping(shape)
    return grouping.sum(signal.power(shape)[:, 0])[0] / grouping.k.weight
