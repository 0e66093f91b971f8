"""Symmetric matrices made positive definite, and raised to a floor."""

from __future__ import annotations

import torch
from torch import Tensor


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
