r"""How the level of the noise goes with the brightness l: curves of log g, up to a constant.

`ByBrightness` is that of photographs, log g = a (l-½) + b (l-½)². `ByCounts` is that of counted
light, whose variance is a line,

    g² ∝ gain · l + c ∝ (1-r) + r t,     t = (l - l₀)/(l̄ - l₀),     r = 1/(1 + e^-rise)

with the darkest and the mean brightness l₀ and l̄ of the picture: between a level that is the same
everywhere, r = 0, and one that is 0 in the darkest place, r = 1, whatever the pedestal is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gibbsdiff.noise.parameter import Parameter

LEAST = 0.02  # of g² by counts: brightness is measured under noise, and may be below the darkest


@dataclass(frozen=True)
class Move:
    """From a picture that noise was found on to another of the same detector: a brightness l of the
    new one is stretch · l + shift on the old one's scale. `before` and `after` (n,) are quantiles
    of both pictures' brightness, each on its own scale; None if they are not known.
    """

    stretch: float = 1.0
    shift: float = 0.0
    before: Tensor | None = None
    after: Tensor | None = None


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

    @abstractmethod
    def carried(self, values: Tensor, move: Move, after: LevelCurve) -> tuple[Tensor, Tensor]:
        """The values (B, n) of the same curve on another picture, `after` being the form there, and
        by how much log g at a place is more than these say, (B,).
        """

    def log_mean_level(self, values: Tensor, light: Tensor) -> Tensor:
        """½ log of the mean square of g over quantiles (n,): (B, n) -> (B,)."""
        at = self.log_level(values, light[None])
        return 0.5 * (torch.logsumexp(2 * at, -1) - math.log(at.shape[-1]))


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

    def carried(self, values: Tensor, move: Move, after: LevelCurve) -> tuple[Tensor, Tensor]:
        """With l - ½ = s t + δ: a (l-½) + b (l-½)² = (a + 2 b δ) s t + b s² t² + a δ + b δ²."""
        a, b = values.unbind(-1)
        s, off = move.stretch, move.stretch / 2 + move.shift - 0.5
        return torch.stack([(a + 2 * b * off) * s, b * s**2], -1), a * off + b * off**2


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

    def carried(self, values: Tensor, move: Move, after: LevelCurve) -> tuple[Tensor, Tensor]:
        """The same line: 1-r and 1 are its values at the darkest and the mean brightness."""
        assert isinstance(after, ByCounts)
        ends = torch.tensor([after.darkest, after.middle], dtype=values.dtype)
        low, middle = self._variance(values, move.stretch * ends + move.shift).unbind(-1)
        middle = middle.clamp(min=LEAST)
        r = (1 - low / middle).clamp(1e-4, 1 - 1e-4)
        return torch.logit(r)[..., None], 0.5 * middle.log()

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


@dataclass(frozen=True)
class AsGiven(LevelCurve):
    """log g is the map itself, up to a constant: nothing is left to find."""

    parameters: tuple[Parameter, ...] = ()
    mean: tuple[float, ...] = ()
    sd: tuple[float, ...] = ()
    quiet_sd: tuple[float, ...] = ()
    score_error: tuple[tuple[float, float], ...] = ()

    def log_level(self, values: Tensor, light: Tensor) -> Tensor:
        """The map, which is a logarithm already."""
        return light.expand(len(values), -1)

    def slopes(self, values: Tensor, light: Tensor) -> Tensor:
        """None."""
        return light.new_zeros(len(light), 0, light.shape[-1])

    def carried(self, values: Tensor, move: Move, after: LevelCurve) -> tuple[Tensor, Tensor]:
        """Nothing changes: maps are stated in each picture's own units."""
        return values, values.new_zeros(len(values))


BY_BRIGHTNESS, BY_COUNTS, AS_GIVEN = ByBrightness(), ByCounts(), AsGiven()
