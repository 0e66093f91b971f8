"""Exact draws of a variance given Gaussian data."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def truncated_inverse_gamma(
    shape: Tensor, rate: Tensor, low: Tensor, high: Tensor, u: Tensor
) -> Tensor:
    """v with density ∝ v^(-shape-1) exp(-rate/v) on [low, high], by inversion of uniforms u.

    P(v ≤ t) = Q(shape, rate/t), the regularised upper incomplete gamma function. Above the
    median its complement is inverted instead, which keeps the precision of that tail.
    """
    from scipy.special import gammainc, gammaincc, gammainccinv, gammaincinv

    a, b, floor, ceiling, part = (
        q.double().numpy() for q in torch.broadcast_tensors(shape, rate, low, high, u)
    )
    at_low, at_high = b / floor, b / ceiling
    above = gammaincc(a, at_low) > 0.5

    def between(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        return p + part * (q - p)

    # A tail beyond the reach of double precision inverts to 0 or ∞; the wall catches it.
    with np.errstate(divide="ignore", invalid="ignore"):
        below_median = b / gammainccinv(a, between(gammaincc(a, at_low), gammaincc(a, at_high)))
        above_median = b / gammaincinv(a, between(gammainc(a, at_low), gammainc(a, at_high)))
    v = np.where(above, np.nan_to_num(above_median, nan=0.0, posinf=0.0), below_median)
    v = np.where(~above & (gammaincc(a, at_high) == 0), np.inf, np.nan_to_num(v, nan=0.0))
    return torch.as_tensor(np.clip(v, floor, ceiling))
