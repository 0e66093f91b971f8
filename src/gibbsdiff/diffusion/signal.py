"""The signal's mean spectrum S_x, and the Wiener filter that it makes, eq. (4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape, half_plane


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
        log_k = torch.log(half_plane(shape).lifted.k).reshape(shape[0], -1)
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
