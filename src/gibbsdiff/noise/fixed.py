"""Noise some of whose parameters are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, Wavevectors
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.base import LogDensity, NoiseModel
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.noise.level import LevelMap, Light
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams


@overload
def with_fixed(noise: StationaryNoise, known: Mapping[str, float]) -> StationaryNoise: ...
@overload
def with_fixed(noise: NoiseModel, known: Mapping[str, float]) -> NoiseModel: ...
def with_fixed(noise: NoiseModel, known: Mapping[str, float]) -> NoiseModel:
    """The same noise with some parameters held at known values; the others keep their prior.

    >>> from gibbsdiff import PowerLawNoise
    >>> with_fixed(PowerLawNoise(), {"phi": 0.0}).names
    ('sigma',)
    """
    if not known:
        return noise
    if isinstance(noise, StationaryNoise):
        return _FixedStationary(noise, known)
    return _FixedOther(noise, known)


def all_values(noise: NoiseModel, known: Mapping[str, float]) -> Tensor:
    """All parameters (d,): the known values, checked, and the middle of the prior for others."""
    for name in known:
        if name not in noise.names:
            raise InputError(f"{noise} has no parameter {name!r}")
    middle = (0.5 * (noise.low + noise.high)).tolist()
    values = [known.get(n, m) for n, m in zip(noise.names, middle, strict=True)]
    return noise.check(values)[0]


class _Known:
    """Which parameters of a family are free, and the values of the others."""

    def __init__(self, family: NoiseModel, known: Mapping[str, float]) -> None:
        self.family, self.known = family, dict(known)
        self.values = all_values(family, known)
        self.free = [i for i, name in enumerate(family.names) if name not in known]
        if not self.free:
            raise InputError(f"{family}: all parameters are fixed, none is left to infer")

    @property
    def parameters(self) -> list[Parameter]:
        return [self.family.parameters[i] for i in self.free]

    @property
    def prior(self) -> LogDensity | None:
        whole = self.family.prior
        if isinstance(whole, GaussianPrior):
            return whole.given(self.free, self.values)
        return None if whole is None else lambda phi: whole(self.whole(phi))

    def whole(self, phi: Tensor) -> Tensor:
        """φ with the known values in their places: (..., d) -> (..., all)."""
        full = self.values.to(phi).expand(*phi.shape[:-1], -1).clone()
        full[..., self.free] = phi
        return full

    def redraw(self, phi: Tensor, statistic: Any, rng: Streams) -> Tensor:
        """The free ones of what the family redraws, where each is drawn given all others."""
        return self.family.redraw_amplitude(self.whole(phi), statistic, rng)[..., self.free]

    def __str__(self) -> str:
        free = ", ".join(p.name for p in self.parameters)
        fixed = ", ".join(f"{name} = {value:g}" for name, value in self.known.items())
        return f"{type(self.family).__name__}({free}; {fixed})"

    def digest(self) -> str | None:
        family = self.family.digest()
        return family and digest_of(family, sorted(self.known.items()))


class _FixedStationary(StationaryNoise):
    """`with_fixed` of stationary noise."""

    def __init__(self, family: StationaryNoise, known: Mapping[str, float]) -> None:
        self.family, self._known = family, _Known(family, known)
        self.isotropic, self.edges = family.isotropic, family.edges
        self.spectra = family.spectra
        self.level_names, self.level_curve = family.level_names, family.level_curve
        self.amplitude = "" if family.amplitude in known else family.amplitude
        super().__init__(self._known.parameters, self._known.prior)

    def __str__(self) -> str:
        return str(self._known)

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """The family's."""
        return self.family.log_power(k, self._known.whole(phi))

    def level_map(self, phi: Tensor) -> LevelMap | None:
        """The family's."""
        return self.family.level_map(self._known.whole(phi))

    def lit(self, light: Light | None) -> StationaryNoise:
        """The family's, with the same known values."""
        return _FixedStationary(self.family.lit(light), self._known.known)

    def statistic(self, noise: Any, observed: Tensor | None = None, *, exact: bool = False) -> Any:
        """The family's."""
        return self.family.statistic(noise, observed, exact=exact)

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """The family's."""
        return self.family.log_likelihood(self._known.whole(phi), statistic)

    @property
    def shape_names(self) -> tuple[str, ...]:
        """All of the family's, known or not."""
        return self.family.shape_names

    def shape_parameters(self, phi: Tensor) -> Tensor:
        """All of the family's, known or not."""
        return self.family.shape_parameters(self._known.whole(phi))

    def redraw_amplitude(self, phi: Tensor, statistic: Any, rng: Streams) -> Tensor:
        """The family's, unless its amplitude is known."""
        if self.family.amplitude in self._known.known:
            return super().redraw_amplitude(phi, statistic, rng)
        return self._known.redraw(phi, statistic, rng)

    def digest(self) -> str | None:
        """Of the family and the known values."""
        return self._known.digest()


class _FixedOther(NoiseModel):
    """`with_fixed` of noise without a spectrum."""

    def __init__(self, family: NoiseModel, known: Mapping[str, float]) -> None:
        self.family, self._known = family, _Known(family, known)
        super().__init__(self._known.parameters, self._known.prior)

    def __str__(self) -> str:
        return str(self._known)

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> NoiseCovariance:
        """The family's."""
        return self.family.covariance(shape, self._known.whole(phi), dtype)

    def statistic(self, noise: Any, observed: Tensor | None = None) -> Any:
        """The family's."""
        return self.family.statistic(noise, observed)

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """The family's."""
        return self.family.log_likelihood(self._known.whole(phi), statistic)

    def digest(self) -> str | None:
        """Of the family and the known values."""
        return self._known.digest()
