r"""Warm-up: a step size and a mass matrix for every chain, eq. (9).

Chains first climb to where the mass is (climb.py). Then P iterations: the step size follows
dual averaging throughout; at 3P/4 the inverse mass becomes the sample covariance of the
iterations P/4..3P/4, and dual averaging starts again, since a step size means nothing under
another metric. A provisional metric comes from the iterations P/8..P/4.

With γ = 0.05 the step still swings by a factor of two after 75 iterations, and where
acceptance falls off a cliff, as it does for Gaussians in few dimensions, the average of
such swings accepts 0.85 instead of 0.65. So the last 3P/16 iterations start once more,
from that average, with swings ten times smaller.

The climb, the provisional metric, the fine γ and a little shrinkage of the covariance are ours:
`Adaptation` switches each off, and `PAPER` all of them. What the paper leaves open stays as it is
here: the first step, the restart under a new metric, and the limits of a step. Chains that do not
climb start from M = 1 in the unit cube.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gibbsdiff.mcmc.climb import climb
from gibbsdiff.mcmc.hmc import (
    Evaluate,
    LogDensity,
    Metric,
    Rng,
    State,
    Tuning,
    chances,
    first_state,
    leapfrog,
    to_box,
    transition,
)
from gibbsdiff.mcmc.walls import apply

TARGET, GAMMA, T0, KAPPA = 0.65, 0.05, 10.0, 0.75
GAMMA_FINE = 10 * GAMMA

STRIDE, STABLE = 0.5, 1.75
"""Limits of a step. STRIDE: box widths at the typical velocity of the widest parameter. Where a
density is flat between the walls every step is accepted, and without a limit it would grow for
ever. STABLE: leapfrog with M⁻¹ = covariance is stable below 2 on a Gaussian, and acceptance that
is measured with noise must not carry a chain past that.
"""


@dataclass(frozen=True)
class Adaptation:
    """What a warm-up does beyond the paper's.

    Attributes:
        climb: Chains first climb to where the mass is.
        provisional: A first metric from the iterations P/8..P/4.
        fine: The last part of dual averaging again, with ten times the γ.
        shrink: Covariances are shrunk a little to their diagonal.
        again: Gibbs chains are adapted a second time, after their burn-in.
    """

    climb: bool = True
    provisional: bool = True
    fine: bool = True
    shrink: bool = True
    again: bool = True


OURS, PAPER = Adaptation(), Adaptation(False, False, False, False, False)


@dataclass(frozen=True)
class DualAverage:
    """Dual averaging of log ε towards a mean acceptance of TARGET (Hoffman & Gelman 2014).

        η = 1/(n + T₀),      H̄ ← (1 - η) H̄ + η (δ - α)
        log ε = μ - √n/γ H̄,  log ε̄ ← n^-κ log ε + (1 - n^-κ) log ε̄

    with n counted from 1 and μ = log 10 ε₀, as long as γ is coarse.
    """

    gamma: float
    centre: Tensor
    limit: Tensor
    error: Tensor
    log_step: Tensor
    log_mean: Tensor
    count: int = 0

    @classmethod
    def start(cls, step: Tensor, limit: Tensor) -> DualAverage:
        """From a first step ε₀, never to exceed `limit`."""
        log_step = step.log()
        centre = log_step + math.log(10)
        return cls(GAMMA, centre, limit.log(), torch.zeros_like(step), log_step, log_step)

    def refine(self) -> DualAverage:
        """Start again at the averaged step, with smaller swings about it."""
        mean = self.log_mean
        return DualAverage(GAMMA_FINE, mean, self.limit, torch.zeros_like(mean), mean, mean)

    def update(self, accept: Tensor) -> DualAverage:
        """Learn from the acceptance probability α of one transition."""
        n = self.count + 1
        eta, weight = 1 / (n + T0), n**-KAPPA
        error = (1 - eta) * self.error + eta * (TARGET - accept)
        log_step = torch.minimum(self.centre - math.sqrt(n) / self.gamma * error, self.limit)
        log_mean = weight * log_step + (1 - weight) * self.log_mean
        return DualAverage(self.gamma, self.centre, self.limit, error, log_step, log_mean, n)


def step_limit(inverse_mass: Tensor) -> Tensor:
    """√M⁻¹_ii ε ≤ STRIDE for the widest parameter, ε ≤ STABLE."""
    widest = inverse_mass.diagonal(dim1=1, dim2=2).amax(1).sqrt()
    return (STRIDE / widest).clamp(max=STABLE)


def reasonable_step(
    evaluate: Evaluate, state: State, metric: Metric, rng: Rng, limit: Tensor
) -> Tensor:
    """Double or halve ε until one leapfrog step is accepted about half of the time.

    Algorithm 4 of Hoffman & Gelman (2014), every chain for itself.
    """
    momentum = apply(metric.factor, rng.normal(state.position.shape[1]))
    energy = metric.kinetic(momentum) - state.value
    once = torch.ones_like(energy, dtype=torch.int64)

    def likely(step: Tensor) -> Tensor:
        end, last, alive = leapfrog(evaluate, state, momentum, step, metric, steps=once)
        return alive & (metric.kinetic(last) - end.value - energy < math.log(2))

    step = 0.2 * limit
    grow = likely(step)
    searching = torch.ones_like(grow)
    for _ in range(50):
        trial = torch.where(grow, 2 * step, step / 2)
        searching = searching & (trial <= limit)
        if not bool(searching.any()):
            break
        good = likely(torch.where(searching, trial, step))
        # A growing step stops before the first bad one, a shrinking one at the first good.
        step = torch.where(searching & (good | ~grow), trial, step)
        searching = searching & (good == grow)
    return step


def sample_covariance(draws: Tensor, otherwise: Tensor) -> Tensor:
    """Unbiased sample covariance (B, d, d) of draws (B, d, n).

    A chain that did not move, or in fewer directions than there are, keeps the matrix it had.
    """
    covariance = _covariance(draws)
    sd = covariance.diagonal(dim1=1, dim2=2).sqrt().clamp(min=1e-300)
    correlation = covariance / sd.unsqueeze(2) / sd.unsqueeze(1)
    moved = (sd.amin(1) > 1e-12) & (torch.linalg.eigvalsh(correlation).amin(1) > 1e-9)
    return torch.where(moved[:, None, None], covariance, otherwise)


def shrunk_covariance(draws: Tensor, otherwise: Tensor) -> Tensor:
    """Sample covariance (B, d, d) of draws (B, d, n), shrunk a little to its diagonal.

    The weight of the diagonal is ((d + 1)/m)² after m accepted moves: nothing for a chain
    that moved freely, all for one that hardly did, and positive definite in between. A
    chain that did not move at all keeps the matrix it had.
    """
    covariance = _covariance(draws)
    variance = covariance.diagonal(dim1=1, dim2=2)
    moves = (draws[..., 1:] != draws[..., :-1]).any(1).sum(1)
    weight = ((draws.shape[1] + 1) / moves.clamp(min=1)).clamp(max=1).square()[:, None, None]
    shrunk = (1 - weight) * covariance + weight * torch.diag_embed(variance)
    moved = variance.amin(1) > 1e-24
    return torch.where(moved[:, None, None], shrunk, otherwise)


def _covariance(draws: Tensor) -> Tensor:
    # Sums run over the last axis, where their order does not depend on the batch.
    centred = draws - draws.mean(2, keepdim=True)
    return (centred.unsqueeze(2) * centred.unsqueeze(1)).sum(3) / (draws.shape[2] - 1)


def warm_up(
    log_density: LogDensity,
    start: Tensor,
    low: Tensor | Sequence[float],
    high: Tensor | Sequence[float],
    rng: Rng,
    *,
    iterations: int = 300,
    tuning: Tuning | None = None,
    adaptation: Adaptation = OURS,
) -> tuple[Tensor, Tuning]:
    """Adapt step and mass of each chain from `start` (B, d) in the box [low, high], eq. (9).

    Returns the last positions (B, d) and the tuning. An earlier `tuning` gives the first
    metric when chains are adapted again; otherwise they first climb to where the mass is,
    unless the `adaptation` leaves that out.
    """
    if iterations < 20:
        raise ValueError(f"warm-up needs at least 20 iterations, got {iterations}")
    low, high = (torch.as_tensor(x, dtype=torch.float64).detach() for x in (low, high))
    evaluate, state = first_state(log_density, start, low, high, rng)
    rows, d = state.position.shape
    if tuning is None and adaptation.climb:
        state, inverse_mass = climb(evaluate, state)
    elif tuning is None:
        inverse_mass = torch.eye(d, dtype=torch.float64).expand(rows, d, d).contiguous()
    elif tuning.inverse_mass.shape == (rows, d, d):
        inverse_mass = tuning.inverse_mass
    else:
        raise ValueError(f"tuning of {len(tuning.step)} chains for {rows} chains")
    first, last, rest = iterations // 4, 3 * iterations // 4, iterations - 3 * iterations // 4
    covariance = shrunk_covariance if adaptation.shrink else sample_covariance
    kept = 0
    if adaptation.provisional:
        state, _, draws = _adapt_step(evaluate, state, inverse_mass, rng, first)
        inverse_mass = covariance(draws[..., first // 2 :], inverse_mass)
        kept = first
    state, _, draws = _adapt_step(evaluate, state, inverse_mass, rng, last - kept)
    inverse_mass = covariance(draws[..., first - kept :], inverse_mass)
    fine = 3 * rest // 4 if adaptation.fine else 0
    state, step, _ = _adapt_step(evaluate, state, inverse_mass, rng, rest, fine=fine)
    return to_box(state.position, low, high), Tuning(step, inverse_mass, low, high)


def _adapt_step(
    evaluate: Evaluate,
    state: State,
    inverse_mass: Tensor,
    rng: Rng,
    iterations: int,
    *,
    fine: int = 0,
) -> tuple[State, Tensor, Tensor]:
    """Dual averaging under one metric; the averaged step and all positions (B, d, n)."""
    metric, limit = Metric.of(inverse_mass), step_limit(inverse_mass)
    average = DualAverage.start(reasonable_step(evaluate, state, metric, rng, limit), limit)
    positions = []
    for i, chance in enumerate(chances(rng, iterations, state.position.shape[1])):
        if i == iterations - fine:
            average = average.refine()
        state, info = transition(evaluate, state, average.log_step.exp(), metric, chance)
        average = average.update(info.accept)
        positions.append(state.position)
    return state, average.log_mean.exp(), torch.stack(positions, -1)
