"""The signal's mean spectrum S_x, and the Wiener filter that it makes, eq. (4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape, half_plane, power


class Signal(Protocol):
    """A mean level m and a power spectrum S_x(k) of x - m, per opponent channel."""

    @property
    def mean(self) -> float:
        """The mean level m."""

    def power(self, shape: Shape) -> Tensor:
        """S_x on the half-plane: (1, C, H, W//2+1), or one channel for all."""


@dataclass(frozen=True)
class PowerLawSignal:
    """S_x = A |k|^-γ per opponent channel; k = 0 takes |k| = 0.5/max(H, W)."""

    amplitude: tuple[float, ...]
    slope: tuple[float, ...]
    mean: float = 0.0

    def power(self, shape: Shape) -> Tensor:
        """A |k|^-γ: (1, C, H, W//2+1), float64."""
        log_k = torch.log(half_plane(shape).without_zero.k).reshape(shape[0], -1)
        a = torch.tensor(self.amplitude, dtype=torch.float64)[:, None, None]
        gamma = torch.tensor(self.slope, dtype=torch.float64)[:, None, None]
        return (a * torch.exp(-gamma * log_k))[None]


@dataclass(frozen=True)
class FixedSignal:
    """A spectrum given mode by mode, for one shape: (C, H, W//2+1)."""

    spectrum: Tensor
    mean: float = 0.0

    def power(self, shape: Shape) -> Tensor:
        """The given spectrum."""
        expected = (shape[0], shape[1] // 2 + 1)
        if tuple(self.spectrum.shape[-2:]) != expected:
            raise ValueError(
                f"the spectrum has modes {tuple(self.spectrum.shape[-2:])}, "
                f"an image of {shape[0]}×{shape[1]} has {expected}"
            )
        return self.spectrum.reshape(1, -1, *expected)


@dataclass(frozen=True)
class TabulatedSignal:
    """An isotropic spectrum by a table: log S_x, one row per channel, at knots in log|k|.

    Log-linear between the knots and along the outer slopes beyond them; k = 0 takes
    |k| = 0.5/max(H, W), where a measured table has a knot of its own.
    """

    log_k: tuple[float, ...]
    log_power: tuple[tuple[float, ...], ...]
    mean: float = 0.0

    def __post_init__(self) -> None:
        if len(self.log_k) < 2 or any(len(row) != len(self.log_k) for row in self.log_power):
            raise ValueError("a table needs two knots or more, and a value at each of them")

    @classmethod
    def measured(cls, images: Tensor, ratio: float = 1.2) -> TabulatedSignal:
        """The radial mean of |x̂|² over images (B, C, H, W) of mean 0.

        Knots are the mean log|k| of rings a factor `ratio` wide; those without a mode are left
        out. The zero mode has its knot at |k| = 0.5/max(H, W).
        """
        shape = (images.shape[-2], images.shape[-1])
        modes = half_plane(shape)
        P = power(images.double()).mean(0).flatten(1)
        log_k = torch.log(modes.without_zero.k)
        first = math.log(1 / max(shape))
        rings = ((log_k - first + 1e-9) / math.log(ratio)).floor().long() + 1
        ring = torch.where(modes.k > 0, rings, 0)
        weight, at, values = (
            torch.zeros(len(rows), int(ring.max()) + 1, dtype=torch.float64).index_add_(
                1, ring, modes.weight * rows
            )
            for rows in (torch.ones_like(P), log_k[None], P)
        )
        seen = weight[0] > 0
        knots = (at[0] / weight[0])[seen]
        rows = torch.log((values / weight)[:, seen])
        return cls(tuple(knots.tolist()), tuple(tuple(row) for row in rows.tolist()))

    def power(self, shape: Shape) -> Tensor:
        """S_x on the half-plane: (1, C, H, W//2+1), float64."""
        log_k = torch.log(half_plane(shape).without_zero.k)
        knots = torch.tensor(self.log_k, dtype=torch.float64)
        rows = torch.tensor(self.log_power, dtype=torch.float64)
        upper = torch.searchsorted(knots, log_k).clamp(1, len(knots) - 1)
        part = (log_k - knots[upper - 1]) / (knots[upper] - knots[upper - 1])
        log_s = rows[:, upper - 1] + part * (rows[:, upper] - rows[:, upper - 1])
        return torch.exp(log_s).reshape(1, len(rows), shape[0], -1)


#: Natural images on [0, 1]: fitted to 256² photographs.
NATURAL = PowerLawSignal((5e-4, 2.4e-5, 1.06e-5), (2.63, 2.84, 2.56), 0.45)


class Wiener(NamedTuple):
    """Eq. (4) with T = S_x + N: skip = S_x/T, whiten = T^(-½), V = S_x N/T."""

    skip: Tensor
    whiten: Tensor
    V: Tensor


def wiener(S_x: Tensor, N: Tensor) -> Wiener:
    """The linear estimate's gain, the filter that whitens z, and the estimate's variance."""
    T = S_x + N
    skip = S_x / T
    return Wiener(skip, T.rsqrt(), skip * N)
