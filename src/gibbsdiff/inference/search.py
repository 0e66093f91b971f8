"""Steps of the search for the mode of p(φ | y), in the unit box."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

REACH = 0.3  # longest step of the search, in prior widths
NEAR_SD, NEAR = 0.05, 5e-4  # converged: the next step is this short, in sd and in prior widths

Visited = tuple[Tensor, Tensor]
"""A place u (B, d) and the score g there."""


def next_step(
    u: Tensor, gradient: Tensor, information: Tensor, past: list[Visited]
) -> tuple[Tensor, Tensor]:
    """The next step of every image, and whether it is short enough to be the last.

    J⁻¹ g, with J corrected by the scores of the last steps (Broyden). A parameter at a wall that g
    pushes against stays there.
    """
    steps, short = torch.zeros_like(u), torch.zeros(len(u), dtype=torch.bool)
    for b in range(len(u)):
        g = gradient[b]
        free = ~(((u[b] <= 0) & (g < 0)) | ((u[b] >= 1) & (g > 0)))
        if not bool(free.any()):
            short[b] = True
            continue
        J = make_positive_definite(information[b][free][:, free])
        B = J.clone()
        for (u0, g0), (u1, g1) in pairwise(past):
            s, y = (u1 - u0)[b][free], (g0 - g1)[b][free]
            if float(s.norm()) > 1e-9:
                B = B + torch.outer(y - B @ s, s) / s.square().sum()  # Broyden: B s = y
        step = torch.linalg.solve(B, g[free])
        plain = torch.linalg.solve(J, g[free])
        # A correction that points downhill, or leaps, is worse than none.
        if float(step @ g[free]) <= 0 or float(step.norm()) > 4 * float(plain.norm()):
            step = plain
        length = float(step.abs().max())
        short[b] = length < NEAR and float((step @ J @ step).sqrt()) < NEAR_SD
        steps[b, free] = step * min(1.0, REACH / max(length, 1e-12))
    return steps, short


def make_positive_definite(matrix: Tensor, least: Tensor | None = None) -> Tensor:
    """A symmetric matrix made positive definite: eigenvalues below a floor are raised to it."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    floor = 1e-10 * values.abs().amax(-1, keepdim=True) + 1e-12
    if least is not None:
        floor = torch.maximum(floor, torch.linalg.eigvalsh(least).amin(-1, keepdim=True))
    return (vectors * torch.maximum(values, floor).unsqueeze(-2)) @ vectors.mT


def raised_to(H: Tensor, floor: Tensor) -> Tensor:
    """The matrix nearest to H (B, d, d), in the metric of `floor`, with H - floor ≥ 0."""
    L = torch.linalg.cholesky(floor)
    inner = torch.linalg.solve_triangular(L, H, upper=False)
    inner = torch.linalg.solve_triangular(L, inner.mT, upper=False)
    values, vectors = torch.linalg.eigh((inner + inner.mT) / 2)
    raised = (vectors * values.clamp(min=1)[:, None, :]) @ vectors.mT
    return L @ raised @ L.mT
