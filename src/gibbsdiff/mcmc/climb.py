r"""From anywhere in the box to where the mass is, before HMC adapts, eq. (9).

A chain that starts far out spends its warm-up on the way, and the covariance of that way is no
metric: the posterior of φ may be a thousand times narrower than the prior. So every chain first
climbs by BFGS within the box, and hands over its inverse Hessian as the first metric.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.mcmc.hmc import Evaluate, State, choose
from gibbsdiff.mcmc.walls import apply

REACH = 0.2  # longest step, in box widths
ENOUGH = 1e-3  # rise of the log density that is not worth another step


def climb(evaluate: Evaluate, state: State, iterations: int = 80) -> tuple[State, Tensor]:
    """The highest point that each chain finds, and M⁻¹ ≈ (-∂² log π)⁻¹ there, (B, d, d).

    H ← (1 - ρ s yᵀ) H (1 - ρ y sᵀ) + ρ s sᵀ with s the step, y the fall of the gradient and
    ρ = 1/yᵀs, where the density curves down.
    """
    d = state.position.shape[1]
    identity = torch.eye(d, dtype=torch.float64)
    H = identity.expand(len(state.position), d, d)
    fresh = torch.ones(len(H), dtype=torch.bool)
    climbing = torch.ones_like(fresh)
    for _ in range(iterations):
        held = ((state.position <= 0) & (state.gradient < 0)) | (
            (state.position >= 1) & (state.gradient > 0)
        )
        slope = torch.where(held, 0.0, state.gradient)
        way = torch.where(held, 0.0, apply(H, slope))
        uphill = (way * slope).sum(1) > 0
        way = torch.where(uphill[:, None], way, slope)
        way = way * (REACH / way.abs().amax(1).clamp(min=1e-300)).clamp(max=1)[:, None]
        higher = _line_search(evaluate, state, way)
        s, y = higher.position - state.position, state.gradient - higher.gradient
        updated, still_fresh = _update(H, s, y, fresh)
        # A chain that has arrived rests: it must not go on because others do.
        H = torch.where(climbing[:, None, None], updated, H)
        fresh = torch.where(climbing, still_fresh, fresh)
        rise = higher.value - state.value
        state = choose(climbing, higher, state)
        climbing = climbing & (rise > ENOUGH)
        if not bool(climbing.any()):
            break
    # Where nothing curved down, or hardly, the box itself is the scale.
    values, vectors = torch.linalg.eigh(torch.where(fresh[:, None, None], identity, H))
    return state, (vectors * values.clamp(1e-14, 1.0).unsqueeze(1)) @ vectors.mT


def _line_search(evaluate: Evaluate, state: State, way: Tensor) -> State:
    """Halve the step until the density rises; a chain for which it never does stays."""
    size = torch.ones_like(state.value)
    waiting = torch.ones_like(size, dtype=torch.bool)
    best = state
    for _ in range(25):
        position = (state.position + size[:, None] * way).clamp(0, 1)
        tried = State(position, *evaluate(position))
        # A rise that rounding could make must decide nothing, least of all the metric.
        good = waiting & (tried.value > state.value + 0.1 * ENOUGH)
        best = choose(good, tried, best)
        waiting = waiting & ~good
        if not bool(waiting.any()):
            break
        size = torch.where(waiting, size / 2, size)
    return best


def _update(H: Tensor, s: Tensor, y: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    """BFGS, from the scale sᵀy/yᵀy at first; left alone where yᵀs ≤ 0."""
    ys = (y * s).sum(1)
    good = ys > 1e-12 * (y.square().sum(1) * s.square().sum(1)).sqrt().clamp(min=1e-300)
    scale = (ys / y.square().sum(1).clamp(min=1e-300))[:, None, None]
    identity = torch.eye(H.shape[-1], dtype=H.dtype)
    base = torch.where((fresh & good)[:, None, None], scale * identity, H)
    rho = torch.where(good, 1 / ys.clamp(min=1e-300), 0.0)[:, None, None]
    left = identity - rho * s[:, :, None] * y[:, None, :]
    # Sums over the last axis, as elsewhere: their rounding does not depend on the batch.
    half = (left.unsqueeze(2) * base.mT.unsqueeze(1)).sum(-1)
    whole = (half.unsqueeze(2) * left.unsqueeze(1)).sum(-1)
    updated = whole + rho * s[:, :, None] * s[:, None, :]
    return torch.where(good[:, None, None], updated, H), fresh & ~good
