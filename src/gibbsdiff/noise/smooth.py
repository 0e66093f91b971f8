"""Free smooth spectra, one for each opponent channel: what no formula says."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.noise.stationary import StationaryNoise

#: |k| of the knots: denser where the noise of pictures differs.
KNOTS = (1 / 48, 1 / 24, 1 / 14, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4, 0.5, 0.62)
BEND = 2.0  # sd of the second derivative of log N in log|k|
USUAL, SPREAD = -9.0, 4.0  # of log N
FLAT = 0.1  # sd of the slope at the largest scales


class SmoothNoise(StationaryNoise):
    """log N of each channel log-linear between knots in |k|, and constant beyond them.

    The prior bounds second differences, and the slope at large scales, where N is flat.
    """

    amplitude = ""

    def __init__(self, channels: int = 3, knots: tuple[float, ...] = KNOTS) -> None:
        if len(knots) < 3 or list(knots) != sorted(set(knots)) or knots[0] <= 0:
            raise InputError("SmoothNoise: needs three knots or more, increasing and positive")
        self.spectra, self.knots = channels, tuple(float(k) for k in knots)
        n = len(knots)
        parameters = [Parameter(f"n{c}_{j}", -18.0, 3.0) for c in range(channels) for j in range(n)]
        one = _precision(torch.log(torch.tensor(self.knots, dtype=torch.float64)))
        mean = torch.full((channels * n,), USUAL)
        super().__init__(parameters, GaussianPrior(mean, torch.block_diag(*[one] * channels)))

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """Log-linear between the knots."""
        hats = between(torch.log(torch.tensor(self.knots, dtype=torch.float64)), k.k)
        values = phi.unflatten(-1, (self.spectra, -1)).unbind(-1)
        # Not `values @ hats`: BLAS rounds by batch size, and no chain may depend on the others.
        rows = sum(v[..., None] * hat for v, hat in zip(values, hats.to(phi), strict=True))
        return rows[..., 0, :] if self.spectra == 1 else rows

    def louder(self, phi: Tensor, by: Tensor) -> Tensor:
        """All of log N."""
        return phi + 2 * by[..., None]

    def _made_of(self) -> tuple[Any, ...]:
        return (self.spectra, self.knots)


def between(knots: Tensor, k: Tensor) -> Tensor:
    """(n, M) weights that interpolate linearly in log|k| between n knots, constant beyond them."""
    log_k = torch.log(k.clamp(min=math.exp(float(knots[0])))).clamp(max=float(knots[-1]))
    upper = torch.searchsorted(knots, log_k.contiguous()).clamp(1, len(knots) - 1)
    part = (log_k - knots[upper - 1]) / (knots[upper] - knots[upper - 1])
    weights = torch.zeros(len(knots), len(log_k), dtype=torch.float64)
    weights.scatter_(0, (upper - 1)[None], (1 - part)[None])
    return weights.scatter_(0, upper[None], part[None])


def _precision(log_k: Tensor) -> Tensor:
    """Λ of the values at the knots of one channel: bends, the first slope, and a wide level."""
    n, gaps = len(log_k), log_k.diff()
    rows = []
    for j in range(1, n - 1):
        # The change of slope over the length that it happens in.
        row = torch.zeros(n, dtype=torch.float64)
        row[j - 1], row[j + 1] = 1 / gaps[j - 1], 1 / gaps[j]
        row[j] = -row[j - 1] - row[j + 1]
        length = (gaps[j - 1] + gaps[j]) / 2
        rows.append(row / length * length.sqrt() / BEND)
    first = torch.zeros(n, dtype=torch.float64)
    first[:2] = torch.tensor([-1.0, 1.0]) / gaps[0] / FLAT
    D = torch.stack([*rows, first])
    return D.T @ D + torch.eye(n, dtype=torch.float64) / (n * SPREAD**2)
