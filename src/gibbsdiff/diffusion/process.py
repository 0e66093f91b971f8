r"""Forward processes, eqs. (1) and (2).

dz = -f(t) z dt + g(t) Σ_φ^½ dw  has  z_t = a(t) x + b(t) ε',  with
a = exp(-∫f),  b² = a² ∫ (g/a)².  The level of time t is b(t)/a(t), increasing;
t*(σ) is its inverse. Everything is float64 and works on tensors of any shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of

Function = Callable[[Tensor], Tensor]


class Process(ABC):
    """z_t = a(t) x + b(t) ε' for t in [0, 1], eq. (1)."""

    @abstractmethod
    def a(self, t: Tensor) -> Tensor:
        """The signal's scale: a(0) = 1, not increasing."""

    @abstractmethod
    def level(self, t: Tensor) -> Tensor:
        """b(t)/a(t), eq. (2): level(0) = 0, increasing."""

    def b(self, t: Tensor) -> Tensor:
        """The noise's scale."""
        return self.a(t) * self.level(t)

    @property
    def highest(self) -> float:
        """b(1)/a(1): no noisier observation lies on the process."""
        return float(self.level(torch.ones((), dtype=torch.float64)))

    def digest(self) -> str | None:
        """A name that is the same for the same process; None for one's own f and g."""
        return digest_of(self)

    def time(self, sigma: Tensor) -> Tensor:
        """t*(σ), the time at which the level is σ, eq. (2); σ is never snapped to a grid."""
        value = torch.as_tensor(sigma, dtype=torch.float64)
        if bool((~(value >= 0)).any()):
            raise InputError(f"the noise level σ = {float(value.min()):g} must be 0 or more")
        # The level of a single-precision spectrum may round to just above the end.
        if bool((value > self.highest * (1 + 1e-6)).any()):
            raise InputError(
                f"the noise level σ = {float(value.max()):g} is above b(1)/a(1) = "
                f"{self.highest:g}, the highest of this process"
            )
        return self._inverse(value.clamp(max=self.highest))

    def _inverse(self, sigma: Tensor) -> Tensor:
        """Bisection: 60 halvings of [0, 1] reach double precision."""
        low, high = torch.zeros_like(sigma), torch.ones_like(sigma)
        for _ in range(60):
            middle = (low + high) / 2
            above = self.level(middle) > sigma
            low, high = torch.where(above, low, middle), torch.where(above, middle, high)
        return torch.where(sigma == 0, 0.0, (low + high) / 2)


@dataclass(frozen=True)
class VariancePreserving(Process):
    """VP with β(t) = β_min + (β_max - β_min) t: f = β/2, g = √β, so a² + b² = 1.

    The paper has (0.1, 20) for images and (0.1, 2) for cosmology.
    """

    beta_min: float = 0.1
    beta_max: float = 20.0

    def __post_init__(self) -> None:
        low, high = self.beta_min, self.beta_max
        if not 0 <= low <= high or high <= 0:
            raise InputError(f"β must not fall: 0 ≤ {low:g} ≤ {high:g}, β_max > 0 needed")

    @classmethod
    def reaching(cls, level: float, beta_min: float, least: float = 0.0) -> VariancePreserving:
        """β_max, at least `least` and rounded up to 0.01, such that b(1)/a(1) covers a level."""
        enough = math.ceil(100 * (2 * math.log1p(level**2) - beta_min)) / 100
        return cls(beta_min, max(least, enough))

    def a(self, t: Tensor) -> Tensor:
        """exp(-½ ∫β)."""
        return torch.exp(-0.5 * self._integral(t))

    def level(self, t: Tensor) -> Tensor:
        """√(exp(∫β) - 1)."""
        return torch.sqrt(torch.expm1(self._integral(t)))

    def _integral(self, t: Tensor) -> Tensor:
        return self.beta_min * t + 0.5 * (self.beta_max - self.beta_min) * t**2

    def _inverse(self, sigma: Tensor) -> Tensor:
        """∫β = log(1 + σ²), a quadratic in t; this form of its root does not cancel."""
        integral = torch.log1p(sigma**2)
        slope = self.beta_max - self.beta_min
        root = torch.sqrt(self.beta_min**2 + 2 * slope * integral)
        return torch.where(integral > 0, 2 * integral / (self.beta_min + root), 0.0).clamp(max=1.0)


@dataclass(frozen=True)
class DiscreteVariancePreserving(Process):
    """The paper's chain of T steps, β_i = (β_min + (β_max - β_min) i/T)/T, ᾱ_i = Π (1 - β_j).

    Time is i/T; log ᾱ is linear between steps, so that every level has its own time.
    """

    steps: int = 5000
    beta_min: float = 0.1
    beta_max: float = 20.0

    def __post_init__(self) -> None:
        steps, low, high = self.steps, self.beta_min, self.beta_max
        if steps < 1 or not 0 < low <= high < steps:
            raise InputError(f"cannot make {steps} steps of β from {low:g} to {high:g}")

    @cached_property
    def log_alpha_bar(self) -> Tensor:
        """log ᾱ at the times 0, 1/T, …, 1: (T+1,)."""
        i = torch.arange(self.steps, dtype=torch.float64)
        beta = (self.beta_min + (self.beta_max - self.beta_min) * i / self.steps) / self.steps
        zero = torch.zeros(1, dtype=torch.float64)
        return torch.cat([zero, torch.cumsum(torch.log1p(-beta), 0)])

    def a(self, t: Tensor) -> Tensor:
        """√ᾱ."""
        return torch.exp(0.5 * self._log_alpha_bar(t))

    def level(self, t: Tensor) -> Tensor:
        """√(1/ᾱ - 1)."""
        return torch.sqrt(torch.expm1(-self._log_alpha_bar(t)))

    def _log_alpha_bar(self, t: Tensor) -> Tensor:
        at = t * self.steps
        below = at.floor().clamp(0, self.steps - 1).long()
        left, right = self.log_alpha_bar[below], self.log_alpha_bar[below + 1]
        return left + (at - below) * (right - left)


@dataclass(frozen=True)
class VarianceExploding(Process):
    """VE: a = 1, b² = σ_min² ((σ_max/σ_min)^{2t} - 1), so that b(0) = 0."""

    sigma_min: float = 0.01
    sigma_max: float = 10.0

    def __post_init__(self) -> None:
        low, high = self.sigma_min, self.sigma_max
        if not 0 < low < high:
            raise InputError(f"0 < σ_min < σ_max needed, not {low:g} and {high:g}")

    @property
    def log_ratio(self) -> float:
        """log(σ_max/σ_min)."""
        return math.log(self.sigma_max / self.sigma_min)

    def a(self, t: Tensor) -> Tensor:
        """1."""
        return torch.ones_like(t)

    def level(self, t: Tensor) -> Tensor:
        """b(t)."""
        return self.sigma_min * torch.sqrt(torch.expm1(2 * self.log_ratio * t))

    def _inverse(self, sigma: Tensor) -> Tensor:
        return torch.log1p((sigma / self.sigma_min) ** 2) / (2 * self.log_ratio)


class AnySDE(Process):
    """f and g given as functions of t on [0, 1]; the integrals are by Gauss-Legendre panels."""

    def __init__(self, f: Function, g: Function, panels: int = 256) -> None:
        self.f, self.g, self.panels = f, g, panels
        if not math.isfinite(self.highest) or self.highest <= 0:
            raise InputError("f and g must be finite on [0, 1], and g not zero everywhere")

    def a(self, t: Tensor) -> Tensor:
        """exp(-∫₀ᵗ f)."""
        return torch.exp(-self._integral(self.f, self._table[0], t))

    def level(self, t: Tensor) -> Tensor:
        """√∫₀ᵗ (g/a)²."""
        return torch.sqrt(self._integral(self._rate, self._table[1], t))

    def _rate(self, t: Tensor) -> Tensor:
        return (self.g(t) / self.a(t)) ** 2

    @cached_property
    def _rule(self) -> tuple[Tensor, Tensor]:
        x, w = np.polynomial.legendre.leggauss(8)
        return torch.from_numpy((x + 1) / 2), torch.from_numpy(w / 2)

    @cached_property
    def _table(self) -> tuple[Tensor, Tensor]:
        """∫f and ∫(g/a)² from 0 to the start of every panel; the second needs the first."""
        starts = torch.arange(self.panels, dtype=torch.float64) / self.panels
        zero = torch.zeros(1, dtype=torch.float64)

        def cumulative(function: Function) -> Tensor:
            pieces = self._piece(function, starts, torch.full_like(starts, 1 / self.panels))
            return torch.cat([zero, pieces.cumsum(0)[:-1]])

        first = cumulative(self.f)

        def rate(t: Tensor) -> Tensor:
            return (self.g(t) * torch.exp(self._integral(self.f, first, t))) ** 2

        return first, cumulative(rate)

    def _piece(self, function: Function, start: Tensor, width: Tensor) -> Tensor:
        x, w = self._rule
        at = start[..., None] + width[..., None] * x
        return (function(at) * w).sum(-1) * width

    def _integral(self, function: Function, table: Tensor, t: Tensor) -> Tensor:
        panel = (t * self.panels).floor().clamp(0, self.panels - 1).long()
        start = panel / self.panels
        return table[panel] + self._piece(function, start, t - start)
