"""Conjugate gradients for a batch of images, each stopping by its own residual."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Operator = Callable[[Tensor], Tensor]


def solve(
    apply: Operator,
    b: Tensor,
    precondition: Operator,
    tolerance: float = 1e-10,
    most: int = 1000,
) -> Tensor:
    """x with A x = b for A symmetric positive definite, ‖A x - b‖ ≤ tolerance ‖b‖ in each row.

    Single precision stops at its own rounding. Raises if `most` iterations do not suffice.
    """
    goal = max(tolerance, 20 * torch.finfo(b.dtype).eps) * _norm(b)
    x = torch.zeros_like(b)
    r = b
    z = precondition(r)
    p = z
    rz = _dot(r, z)
    for _ in range(most):
        going = _norm(r) > goal
        if not bool(going.any()):
            return x
        Ap = apply(p)
        # A row that has converged takes no further step: 0/0 must not reach it.
        alpha = torch.where(going, rz / _dot(p, Ap).clamp(min=1e-300), 0.0)
        x = x + alpha * p
        r = r - alpha * Ap
        z = precondition(r)
        rz_next = _dot(r, z)
        p = z + torch.where(going, rz_next / rz.clamp(min=1e-300), 0.0) * p
        rz = rz_next
    raise RuntimeError(f"conjugate gradients did not converge in {most} iterations")


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum((1, 2, 3), keepdim=True)


def _norm(x: Tensor) -> Tensor:
    return _dot(x, x).sqrt()
