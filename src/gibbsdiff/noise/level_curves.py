r"""How the level of the noise goes with the brightness l: curves of log g, up to a constant.

`ByBrightness` is that of photographs, log g = a (l-½) + b (l-½)². `ByCounts` is that of counted
light, whose variance is a line,

    g² ∝ gain · l + c ∝ (1-r) + r t,     t = (l - l₀)/(l̄ - l₀),     r = 1/(1 + e^-rise)

with the darkest and the mean brightness l₀ and l̄ of the picture: between a level that is the same
everywhere, r = 0, and one that is 0 in the darkest place, r = 1, whatever the pedestal is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gibbsdiff.noise.parameter import Parameter

LEAST = 0.02  # of g² by counts: brightness is measured under noise, and may be below the darkest


@dataclass(frozen=True)
class LevelCurve(ABC):
    """A curve of n parameters, with what is known of them beforehand and what they are off by.

    `mean` and `sd` are of the Gaussian prior; `quiet_sd` is at least what quiet places leave open,
    as brightness alone does not set the level; `score_error` has the sd by the denoiser's score
    beyond its own, a constant and a part that goes with s/(1-s), s the mean of Ê/N: measured on
    held-out photographs.
    """

    parameters: tuple[Parameter, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    quiet_sd: tuple[float, ...]
    score_error: tuple[tuple[float, float], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(p.name for p in self.parameters)

    def on(self, light: Tensor) -> LevelCurve:
        """The same on a picture whose brightness has these quantiles (n,)."""
        del light
        return self

    @abstractmethod
    def log_level(self, values: Tensor, light: Tensor) -> Tensor:
        """log g up to a constant: (B, n), (1 or B, pixels) -> (B, pixels)."""

    @abstractmethod
    def slopes(self, values: Tensor, light: Tensor) -> Tensor:
        """∂ log g/∂values: (B, n), (1 or B, pixels) -> (1 or B, n, pixels)."""


@dataclass(frozen=True)
class ByBrightness(LevelCurve):
    """Σ_j values_j (l - ½)^j."""

    parameters: tuple[Parameter, ...] = (Parameter("a", -3.0, 3.0), Parameter("b", -5.0, 5.0))
    # As wide as what networks are trained on; the box is twice that at most.
    mean: tuple[float, ...] = (0.0, 0.0)
    sd: tuple[float, ...] = (0.8, 1.4)
    quiet_sd: tuple[float, ...] = (0.25, 0.8)
    score_error: tuple[tuple[float, float], ...] = ((0.08, 0.25), (0.2, 0.9))

    def log_level(self, values: Tensor, light: Tensor) -> Tensor:
        """A polynomial without a constant."""
        return (values[..., None] * self.slopes(values, light)).sum(1)

    def slopes(self, values: Tensor, light: Tensor) -> Tensor:
        """(l - ½)^j."""
        return torch.stack([(light - 0.5) ** j for j in range(1, values.shape[-1] + 1)], 1)


@dataclass(frozen=True)
class ByCounts(LevelCurve):
    """½ log((1-r) + r (l-l₀)/(l̄-l₀))."""

    parameters: tuple[Parameter, ...] = (Parameter("rise", -5.0, 5.0),)
    mean: tuple[float, ...] = (0.0,)
    sd: tuple[float, ...] = (2.0,)
    quiet_sd: tuple[float, ...] = (0.1,)
    score_error: tuple[tuple[float, float], ...] = ((0.1, 0.3),)
    darkest: float = 0.0
    middle: float = 0.5

    def on(self, light: Tensor) -> ByCounts:
        """With l₀ and l̄ of the picture."""
        darkest, middle = float(light.min()), float(light.mean())
        return replace(self, darkest=darkest, middle=max(middle, darkest + 1e-6))

    def log_level(self, values: Tensor, light: Tensor) -> Tensor:
        """Never below half the logarithm of `LEAST`."""
        return 0.5 * self._variance(values, light).clamp(min=LEAST).log()

    def slopes(self, values: Tensor, light: Tensor) -> Tensor:
        """½ r (1-r) (t-1)/g²."""
        r, v = torch.sigmoid(values), self._variance(values, light)
        by_rise = 0.5 * r * (1 - r) * (self._shown(light) - 1) / v.clamp(min=LEAST)
        return torch.where(v > LEAST, by_rise, 0.0)[:, None]

    def line(self, rise: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Gain and c of noise whose mean variance is this."""
        r = torch.sigmoid(rise)
        gain = r * variance / (self.middle - self.darkest)
        return gain, (1 - r) * variance - gain * self.darkest

    def _shown(self, light: Tensor) -> Tensor:
        return (light - self.darkest) / (self.middle - self.darkest)

    def _variance(self, values: Tensor, light: Tensor) -> Tensor:
        r = torch.sigmoid(values)
        return (1 - r) + r * self._shown(light)


BY_BRIGHTNESS, BY_COUNTS = ByBrightness(), ByCounts()
