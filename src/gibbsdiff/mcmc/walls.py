r"""Free motion between the walls of the unit cube [0, 1]^d, eq. (9).

A particle of momentum p and mass matrix M moves with velocity v = M⁻¹ p. At a
wall with normal n it is reflected elastically,

    p ← p - 2 (n·M⁻¹p) / (n·M⁻¹n) n,        v ← v - 2 (n·v) / (n·M⁻¹n) M⁻¹n,

which conserves ½ pᵀM⁻¹p for any M. A dense M turns every component of the
velocity, not only the one across the wall. The motion is exact, hence reversible
and volume preserving.
"""

from __future__ import annotations

import torch
from torch import Tensor

MAX_REACH = 5.0
"""Box widths that one drift may cover. A stable step covers less than two."""

MAX_BOUNCES = 200
"""A narrow corner of M⁻¹ at correlation ρ takes up to π / acos(ρ) reflections."""


def apply(matrix: Tensor, vector: Tensor) -> Tensor:
    """Row by row matrix-vector product: (B, d, d), (B, d) → (B, d)."""
    # BLAS rounds differently for different batch sizes; this does not.
    return (matrix * vector.unsqueeze(1)).sum(-1)


def drift(
    position: Tensor, momentum: Tensor, inverse_mass: Tensor, time: Tensor, *, dense: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Move every chain freely for its own `time` (B,), reflecting it at the walls.

    Returns position, momentum and a mask (B,), False where the motion was given up:
    such a chain stays where it was, at rest. Matrices that are all diagonal need not
    be treated as `dense`.
    """
    velocity = apply(inverse_mass, momentum)
    moved = position + time.unsqueeze(1) * velocity
    least, most = moved.aminmax()
    # NaN fails both comparisons, and so takes the careful path as well.
    if least.item() >= 0 and most.item() <= 1:
        return moved, momentum, torch.ones_like(time, dtype=torch.bool)
    done = _sane(momentum, velocity, inverse_mass, time)
    if dense:
        velocity = torch.where(done.unsqueeze(1), velocity, 0.0)
        moved, after, arrived = _bounce(position, momentum, velocity, inverse_mass, time)
        done = done & arrived
    else:
        moved, after = _fold(moved, momentum)
    column = done.unsqueeze(1)
    return torch.where(column, moved, position), torch.where(column, after, 0.0), done


def _sane(momentum: Tensor, velocity: Tensor, inverse_mass: Tensor, time: Tensor) -> Tensor:
    """Whether a drift stays within MAX_REACH, judged by |v_i| ≤ √(M⁻¹_ii pᵀM⁻¹p).

    Only what the drift conserves enters, so that the reverse drift is judged alike.
    """
    twice_kinetic = (momentum * velocity).sum(1)
    widest = inverse_mass.diagonal(dim1=1, dim2=2).amax(1)
    reach = time.abs() * (widest * twice_kinetic).sqrt()
    return reach <= MAX_REACH  # False for NaN


def _fold(moved: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor]:
    """All reflections at once, where each turns one component only: a triangle wave."""
    phase = moved.remainder(2.0)
    back = phase > 1
    return torch.where(back, 2 - phase, phase), torch.where(back, -momentum, momentum)


def _bounce(
    position: Tensor, momentum: Tensor, velocity: Tensor, inverse_mass: Tensor, time: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """From wall to wall until every chain has used up its time."""
    left = time
    rows = torch.arange(len(time))
    hit = torch.ones_like(time, dtype=torch.bool)
    for _ in range(MAX_BOUNCES):
        ahead = torch.where(velocity > 0, 1 - position, position)
        # 0/0 is a particle that lies at the wall and does not move: it never hits.
        wait = (ahead / velocity.abs()).nan_to_num(nan=torch.inf, posinf=torch.inf)
        first, axis = wait.min(1)
        hit = first < left
        if not bool(hit.any()):
            break
        spent = torch.where(hit, first, 0.0)
        left = left - spent
        position = (position + spent.unsqueeze(1) * velocity).clamp(0, 1)
        index = axis.unsqueeze(1)
        column = inverse_mass[rows, axis]  # M⁻¹n, M⁻¹ being symmetric
        push = 2 * hit.unsqueeze(1) * velocity.gather(1, index) / column.gather(1, index)
        momentum = momentum.scatter_add(1, index, -push)
        velocity = velocity - push * column
    return (position + left.unsqueeze(1) * velocity).clamp(0, 1), momentum, ~hit
