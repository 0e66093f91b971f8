r"""How fast Gibbs chains forget their start, and where they stop: the law ρ_M of σ after M
iterations, for the problem of Theorem 2.3 (`stationary`), without Monte Carlo.

One iteration draws x ~ q(x | y, σ), then σ' ~ p(σ' | y - x), so that

    ρ_M(σ') = ∫ ρ_{M-1}(σ) K(σ' | σ) dσ,   K(σ' | σ) = E_{q(x|y,σ)} p(σ' | y - x).

Under white noise p(σ' | y - x) depends on x by T = Σ w |ŷ - x̂|² alone, a weighted sum of
non-central χ², whose density is known by its characteristic function. On a grid of σ, K is a
stochastic matrix: its fixed point is π(σ | y), compatible or not, and the modulus of its second
eigenvalue is the factor by which TV(ρ_M, π) falls in one iteration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gibbsdiff.evidence.calibration.stationary import Conditional, Grid, kl, total_variation
from gibbsdiff.fourier import half_plane

#: T is tabulated over 40 of its standard deviations, 20 on either side of its mean.
SPAN, POINTS = 40.0, 512


def residual_power(y: Tensor, q: Conditional, sigma: Tensor) -> tuple[Tensor, Tensor]:
    r"""Values of T and their probabilities under q(x | y, σ), both (G, POINTS), for σ (G,).

    With y - x of mean m and variance V in every mode, the characteristic function of T is

        log E e^{iuT} = Σ_k w [ -½ log(1 - 2iuV) + iu |m|²/(1 - 2iuV) ],

    inverted by a Fourier sum. It needs an image of 16 pixels or more: with few of them the function
    falls off too slowly.
    """
    weight = half_plane((y.shape[-2], y.shape[-1])).weight
    mu, V = q.moments(y, sigma)
    m2 = (torch.fft.rfft2(y, norm="ortho").flatten() - mu).abs() ** 2
    mean = (weight * (V + m2)).sum(-1, keepdim=True)
    sd = (weight * (2 * V**2 + 4 * V * m2)).sum(-1, keepdim=True).sqrt()
    z = SPAN * (torch.arange(POINTS, dtype=torch.float64) / POINTS - 0.5)
    u = 2 * math.pi / SPAN * torch.arange(1, POINTS // 2, dtype=torch.float64)
    log_f = torch.zeros(len(sigma), len(u), dtype=torch.complex128)
    for k in range(len(weight)):
        below = 1 - 2j * (u / sd) * V[:, k, None]
        log_f += weight[k] * (1j * (u / sd) * m2[:, k, None] / below - 0.5 * torch.log(below))
    f = torch.exp(log_f - 1j * u * mean / sd)
    waves = torch.exp(-1j * u[:, None] * z)
    probability = (1 + 2 * (f @ waves).real).clamp(min=0) / POINTS
    return mean + sd * z, probability / probability.sum(-1, keepdim=True)


def transition(y: Tensor, q: Conditional, sigma: Tensor) -> Tensor:
    r"""K(σ_j | σ_i) as a matrix (G, G) of probabilities, rows of sum 1, for a uniform prior on σ.

    By eq. (8), p(σ | y - x) ∝ σ^-n e^{-T/2σ²} with n pixels.
    """
    T, probability = residual_power(y, q, sigma)
    pixels = y.shape[-2] * y.shape[-1]
    rows = []
    for t, weight in zip(T, probability, strict=True):
        log_p = -pixels * torch.log(sigma) - t[:, None] / (2 * sigma**2)
        rows.append(weight @ torch.softmax(log_p, -1))
    return torch.stack(rows)


@dataclass(frozen=True)
class Convergence:
    """What becomes of the law of σ under a kernel: TV(ρ_M, p) and TV(ρ_M, π) for every M asked for,
    the fixed point π, what TV(ρ_M, p) tends to, KL[p ‖ π], and the geometric rate.
    """

    iterations: tuple[int, ...]
    to_posterior: tuple[float, ...]
    to_stationary: tuple[float, ...]
    stationary: Grid
    limit: float
    kl: float
    rate: float

    @property
    def bound(self) -> float:
        """√(KL/2), which the limit TV(π, p) cannot exceed (Pinsker)."""
        return math.sqrt(max(self.kl, 0.0) / 2)


def fixed_point(kernel: Tensor) -> tuple[Tensor, float]:
    """π of π K = π, as probabilities (G,), and the modulus of the second eigenvalue."""
    values, vectors = torch.linalg.eig(kernel.T)
    order = values.abs().argsort(descending=True)
    pi = vectors[:, order[0]].real
    return pi / pi.sum(), float(values[order[1]].abs())


def converge(kernel: Tensor, p: Grid, start: Tensor, iterations: Sequence[int]) -> Convergence:
    """The chain from the law `start` (G,), probabilities on the grid of p(σ | y)."""
    pi, rate = fixed_point(kernel)
    density = pi / p.spacing
    stationary = Grid(p.sigma, density)
    rho, near, far = start, {}, {}
    for M in range(max(iterations) + 1):
        if M > 0:
            rho = rho @ kernel
        far[M] = total_variation(p, rho / p.spacing)
        near[M] = total_variation(stationary, rho / p.spacing)
    asked = tuple(iterations)
    return Convergence(
        iterations=asked,
        to_posterior=tuple(far[M] for M in asked),
        to_stationary=tuple(near[M] for M in asked),
        stationary=stationary,
        limit=total_variation(p, density),
        kl=float(kl(p, density)),
        rate=rate,
    )
