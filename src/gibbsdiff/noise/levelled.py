"""Any stationary noise with a level that goes with the brightness of the picture, eq. (15)."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, Wavevectors
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.level import LevelMap, Light
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, LevelCurve, Move
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.noise.stationary import StationaryNoise, Statistic


@dataclass(frozen=True)
class LevelledStatistic:
    """ε (B, C, H, W) itself, as no sum over modes is sufficient for g; how ε/g is `seen`, and what
    log g of every pixel counts (1 or B, 1, H, W).
    """

    eps: Tensor
    light: Light
    seen: Callable[[Tensor], Statistic]
    counts: Tensor


class LevelledNoise(StationaryNoise):
    """ε = g ⊙ noise of another family, g a curve of the brightness l, of mean square 1.

    By default log g = a (l-½) + b (l-½)². l is the picture's, a `Light` that `lit` brings in:
    without it g is 1. The curve's are the last parameters, with a Gaussian prior.
    """

    def __init__(
        self,
        family: StationaryNoise,
        light: Light | None = None,
        curve: LevelCurve = BY_BRIGHTNESS,
    ) -> None:
        if family.level_curve is not None:
            raise InputError(f"{family}: its level goes with the brightness already")
        self.family, self.light = family, light
        self.isotropic, self.edges, self.spectra = family.isotropic, family.edges, family.spectra
        self.amplitude = family.amplitude
        self.level_curve, self.level_names = curve, curve.names
        super().__init__([*family.parameters, *curve.parameters], _joined(family, curve))

    def __str__(self) -> str:
        return f"{type(self.family).__name__}({', '.join(self.names)})"

    def lit(self, light: Light | None) -> LevelledNoise:
        """The same noise on a picture of this brightness."""
        made = copy(self)
        made.light = light
        return made

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """The family's."""
        return self.family.log_power(k, self._of_spectrum(phi))

    def level_map(self, phi: Tensor) -> LevelMap | None:
        """g at φ (B, d) on the picture that it is lit by."""
        if self.light is None:
            return None
        return LevelMap.by_light(self._of_level(phi), self.light, self._curve)

    def louder(self, phi: Tensor, by: Tensor) -> Tensor:
        """The family's."""
        spectrum = self.family.louder(self._of_spectrum(phi), by)
        return torch.cat([spectrum, self._of_level(phi)], -1)

    def carried(self, phi: Tensor, move: Move) -> Tensor:
        """The same sd at the same brightness: σ is that of g of mean square 1 on each picture."""
        if move.before is None or move.after is None:
            raise InputError(f"{self}: needs the brightness of both pictures")
        old, new = self._curve.on(move.before), self._curve.on(move.after)
        curve = self._of_level(phi)
        there, by = old.carried(curve, move, new)
        by = by - old.log_mean_level(curve, move.before) - math.log(move.stretch)
        by = by + new.log_mean_level(there, move.after)
        return torch.cat([self.family.louder(self._of_spectrum(phi), by), there], -1)

    def statistic(self, noise: Any, observed: Tensor | None = None, *, exact: bool = False) -> Any:
        """ε itself, on a picture that it is lit by."""
        if self.light is None:
            return super().statistic(noise, observed, exact=exact)
        self.needs_all(observed)
        eps = as_images(noise, "noise", smallest=1).double()
        seen = partial(self.statistic_of, exact=exact)
        return LevelledStatistic(eps, self.light, seen, torch.ones_like(eps[:1, :1]))

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """Eq. (8) of ε/g, less Σ log g over channels and pixels."""
        if isinstance(statistic, Statistic):
            return super().log_likelihood(phi, statistic)
        level = LevelMap.by_light(self._of_level(phi), statistic.light, self._curve)
        eps = statistic.eps
        whole = super().log_likelihood(phi, statistic.seen(eps / level.g))
        return whole - eps.shape[1] * (statistic.counts * level.g.log()).sum((1, 2, 3))

    def highest_level(self, shape: Shape) -> float:
        """The family's: g has the mean square 1."""
        return self.family.highest_level(shape)

    def digest(self) -> str | None:
        """Of the family and the curve."""
        own = self.family.digest()
        own_curve = self.level_curve == BY_BRIGHTNESS
        more = () if own_curve else (type(self.level_curve).__name__, *self.level_names)
        return own and digest_of("levelled", own, *more)

    def _of_spectrum(self, phi: Tensor) -> Tensor:
        return phi[..., : len(self.family.parameters)]

    def _of_level(self, phi: Tensor) -> Tensor:
        return phi[..., len(self.family.parameters) :]

    @property
    def _curve(self) -> LevelCurve:
        assert self.level_curve is not None
        return self.level_curve


def _joined(family: StationaryNoise, form: LevelCurve) -> Any:
    """The family's prior and that of the curve."""
    d, own, n = len(family.parameters), family.prior, len(form.names)
    both = (torch.tensor(part, dtype=torch.float64) for part in (form.mean, form.sd))
    curve = GaussianPrior.independent(*both)
    if own is None or isinstance(own, GaussianPrior):
        mean, precision = torch.zeros(d + n).double(), torch.zeros(d + n, d + n).double()
        mean[d:], precision[d:, d:] = curve.mean, curve.precision
        if own is not None:
            mean[:d], precision[:d, :d] = own.mean, own.precision
        return GaussianPrior(mean, precision)
    return lambda phi: own(phi[..., :d]) + curve(phi[..., d:])
