r"""Hamiltonian Monte Carlo transitions, batched over chains, eq. (9).

    H(q, p) = -log π(q) + ½ pᵀM⁻¹p,    accept with probability min(1, exp(H - H')).

A transition draws p ~ N(0, M) and takes L ~ U{5..15} leapfrog steps of size ε;
walls reflect (walls.py). ε and M belong to one chain each. The position q lives in
the unit cube: `State` is in these coordinates, `run` takes and gives the parameters' units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gibbsdiff.mcmc.walls import apply, drift

LogDensity = Callable[[Tensor], Tensor]
"""(B, d) → (B,), float64, up to a constant."""

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Unit coordinates (B, d) → log density (B,) and its gradient (B, d)."""

STEPS = (5, 15)
MAX_RISE = 1000.0
"""An energy that rises by more is a divergence. It may fall by any amount."""


class Rng(Protocol):
    """Random numbers, row b from a stream of its own."""

    def __len__(self) -> int:
        """Number of rows B."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal (B, *shape)."""

    def uniform(self, *shape: int) -> Tensor:
        """Uniform on [0, 1), (B, *shape)."""


@dataclass(frozen=True)
class State:
    """Positions in the unit cube, with log density and gradient there."""

    position: Tensor
    value: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Info:
    """What happened: (B,) for one transition, (transitions, B) for a run."""

    accept: Tensor
    """Acceptance probability."""
    diverged: Tensor
    """Energy error above MAX_RISE or not finite, or motion given up; rejected."""
    steps: Tensor
    """Leapfrog steps taken."""


@dataclass(frozen=True)
class Metric:
    """M⁻¹ and the factor F that makes momenta: p = F z ~ N(0, M) for z ~ N(0, 1)."""

    inverse_mass: Tensor
    factor: Tensor
    dense: bool

    @classmethod
    def of(cls, inverse_mass: Tensor) -> Metric:
        """F = L⁻ᵀ with M⁻¹ = L Lᵀ."""
        upper = torch.linalg.cholesky(inverse_mass).mT
        identity = torch.eye(upper.shape[-1], dtype=upper.dtype).expand_as(upper)
        factor = torch.linalg.solve_triangular(upper, identity, upper=True)
        dense = not torch.equal(inverse_mass, inverse_mass * identity)
        return cls(inverse_mass, factor, dense)

    def kinetic(self, momentum: Tensor) -> Tensor:
        """½ pᵀM⁻¹p."""
        return 0.5 * (momentum * apply(self.inverse_mass, momentum)).sum(1)


@dataclass(frozen=True)
class Tuning:
    """Step size (B,) and inverse mass (B, d, d) in the unit cube, and the box (d,), (d,)."""

    step: Tensor
    inverse_mass: Tensor
    low: Tensor
    high: Tensor

    def rows(self, index: Sequence[int] | Tensor) -> Tuning:
        """The tuning of the named chains."""
        pick = torch.as_tensor(index, dtype=torch.int64)
        return Tuning(self.step[pick], self.inverse_mass[pick], self.low, self.high)


def in_unit_cube(log_density: LogDensity, low: Tensor, high: Tensor) -> Evaluate:
    """Log density and gradient by u, for φ = low + (high - low) u.

    A log density that is not finite counts as -inf, a gradient that is not finite as
    zero. Both depend on the position alone: the dynamics stay reversible.
    """
    width = high - low

    def evaluate(position: Tensor) -> tuple[Tensor, Tensor]:
        phi = to_box(position, low, high).requires_grad_()
        with torch.enable_grad():
            value = log_density(phi)
            if value.shape != phi.shape[:1]:
                raise ValueError(
                    f"log_density of {tuple(phi.shape)} has shape {tuple(value.shape)}, "
                    f"not {tuple(phi.shape[:1])}"
                )
            slope = None
            if value.requires_grad:
                (slope,) = torch.autograd.grad(value.sum(), phi, allow_unused=True)
        value = value.detach().to(torch.float64)
        value = torch.where(value.isfinite(), value, -torch.inf)
        if slope is None:
            return value, torch.zeros_like(position)
        return value, (slope * width).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)

    return evaluate


def to_box(position: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """From the unit cube to the box; never outside by rounding."""
    return torch.minimum(torch.maximum(low + (high - low) * position, low), high)


def leapfrog(
    evaluate: Evaluate,
    state: State,
    momentum: Tensor,
    step: Tensor,
    metric: Metric,
    *,
    steps: Tensor,
) -> tuple[State, Tensor, Tensor]:
    """Kick ½ε, drift ε, kick ½ε; `steps` (B,) times for each chain, which then rests.

    Returns the state, the momentum and a mask of the chains that went through. Energy
    is off by O(ε²), plus O(ε) of random sign for each reflection off a wall that the
    gradient pushes at: kicks do not depend on when in the step the wall was hit.
    """
    position, value, gradient = state.position, state.value, state.gradient
    alive = torch.ones_like(steps, dtype=torch.bool)
    count = torch.arange(int(steps.max()))
    for time in step * (count.unsqueeze(1) < steps):
        now = time * alive
        half = 0.5 * now.unsqueeze(1)
        kicked = momentum + half * gradient
        position, momentum, ok = drift(
            position, kicked, metric.inverse_mass, now, dense=metric.dense
        )
        alive = alive & ok
        value, gradient = evaluate(position)
        momentum = momentum + half * gradient
    return State(position, value, gradient), momentum, alive


@dataclass(frozen=True)
class Chance:
    """The random part of one transition: z (B, d), number of steps (B,), uniform (B,)."""

    normal: Tensor
    steps: Tensor
    uniform: Tensor


def chances(rng: Rng, transitions: int, d: int) -> list[Chance]:
    """All that the coming transitions draw, at once: a call to every stream is not cheap."""
    normal, uniform = rng.normal(transitions, d), rng.uniform(transitions, 2)
    least, most = STEPS
    steps = (least + uniform[..., 0] * (most - least + 1)).long().clamp(max=most)
    return [Chance(normal[:, i], steps[:, i], uniform[:, i, 1]) for i in range(transitions)]


def transition(
    evaluate: Evaluate, state: State, step: Tensor, metric: Metric, chance: Chance
) -> tuple[State, Info]:
    """One Metropolis-adjusted trajectory of every chain, eq. (9)."""
    momentum = apply(metric.factor, chance.normal)
    steps = chance.steps
    end, last, alive = leapfrog(evaluate, state, momentum, step, metric, steps=steps)
    rise = (metric.kinetic(last) - end.value) - (metric.kinetic(momentum) - state.value)
    diverged = ~(alive & (rise <= MAX_RISE))  # NaN diverges
    accept = torch.where(diverged, 0.0, (-rise).clamp(max=0).exp())
    return choose(chance.uniform < accept, end, state), Info(accept, diverged, steps)


def choose(which: Tensor, yes: State, no: State) -> State:
    """Row by row, one state or the other."""
    column = which.unsqueeze(1)
    return State(
        torch.where(column, yes.position, no.position),
        torch.where(which, yes.value, no.value),
        torch.where(column, yes.gradient, no.gradient),
    )


def first_state(
    log_density: LogDensity, start: Tensor, low: Tensor, high: Tensor, rng: Rng
) -> tuple[Evaluate, State]:
    """The checked start, scaled to the unit cube and evaluated."""
    start = torch.as_tensor(start, dtype=torch.float64).detach()
    if start.ndim != 2 or low.shape != start.shape[1:] or high.shape != start.shape[1:]:
        raise ValueError(
            f"start must be (B, d), low and high (d,): got {tuple(start.shape)}, "
            f"{tuple(low.shape)}, {tuple(high.shape)}"
        )
    if len(rng) != len(start):
        raise ValueError(f"rng has {len(rng)} rows for {len(start)} chains")
    wrong = ~((low < high) & low.isfinite() & high.isfinite())
    if bool(wrong.any()):
        i = int(wrong.nonzero()[0])
        raise ValueError(f"parameter {i}: low {low[i]:g} is not below high {high[i]:g}")
    outside = ~((start >= low) & (start <= high))
    if bool(outside.any()):
        b, i = outside.nonzero()[0].tolist()
        raise ValueError(f"chain {b} starts outside the box: parameter {i} is {start[b, i]:g}")
    evaluate = in_unit_cube(log_density, low, high)
    position = ((start - low) / (high - low)).clamp(0, 1)
    value, gradient = evaluate(position)
    if not bool(value.isfinite().all()):
        b = int((~value.isfinite()).nonzero()[0])
        raise ValueError(f"log_density is not finite where chain {b} starts: {start[b].tolist()}")
    return evaluate, State(position, value, gradient)


def run(
    log_density: LogDensity,
    position: Tensor,
    tuning: Tuning,
    rng: Rng,
    *,
    transitions: int = 10,
    keep: int = 1,
) -> tuple[Tensor, Info]:
    """Transitions with a fixed tuning, eq. (9), from `position` (B, d).

    Returns `keep` draws (keep, B, d), evenly spaced, the last of them the final
    position, and the Info of all transitions, (transitions, B) each.
    """
    if transitions < 1 or keep < 1 or transitions % keep:
        raise ValueError(f"keep must divide transitions: got {keep} of {transitions}")
    evaluate, state = first_state(log_density, position, tuning.low, tuning.high, rng)
    if tuning.inverse_mass.shape != (*state.position.shape, state.position.shape[1]):
        raise ValueError(
            f"tuning of {len(tuning.step)} chains does not fit positions "
            f"{tuple(state.position.shape)}"
        )
    metric = Metric.of(tuning.inverse_mass)
    draws, infos = [], []
    for i, chance in enumerate(chances(rng, transitions, state.position.shape[1]), 1):
        state, info = transition(evaluate, state, tuning.step, metric, chance)
        infos.append(info)
        if i % (transitions // keep) == 0:
            draws.append(to_box(state.position, tuning.low, tuning.high))
    return torch.stack(draws), Info(
        torch.stack([info.accept for info in infos]),
        torch.stack([info.diverged for info in infos]),
        torch.stack([info.steps for info in infos]),
    )
