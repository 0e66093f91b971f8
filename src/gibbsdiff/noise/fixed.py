"""Noise some of whose parameters are known."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from gibbsdiff.checks import InputError
from gibbsdiff.fourier import Wavevectors
from gibbsdiff.noise.base import StationaryNoise


class PartlyKnownNoise(StationaryNoise):
    """A family with some parameters held at known values; the others keep their prior.

    >>> from gibbsdiff import PowerLawNoise
    >>> PartlyKnownNoise(PowerLawNoise(), {"phi": 0.0}).names
    ('sigma',)
    """

    def __init__(self, family: StationaryNoise, known: Mapping[str, float]) -> None:
        self.family = family
        self.isotropic, self.edges = family.isotropic, family.edges
        self.amplitude = "" if family.amplitude in known else family.amplitude
        self._values = completed(family, known)
        self._free = [i for i, name in enumerate(family.names) if name not in known]
        whole = family.prior
        prior = None if whole is None else lambda phi: whole(self.whole(phi))
        super().__init__([family.parameters[i] for i in self._free], prior)

    def whole(self, phi: Tensor) -> Tensor:
        """φ with the known values in their places: (..., d) -> (..., all)."""
        full = self._values.to(phi).expand(*phi.shape[:-1], -1).clone()
        full[..., self._free] = phi
        return full

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """The family's."""
        return self.family.log_power(k, self.whole(phi))

    def shape_parameters(self, phi: Tensor) -> Tensor:
        """All of the family's, known or not."""
        return self.family.shape_parameters(self.whole(phi))


def completed(family: StationaryNoise, known: Mapping[str, float]) -> Tensor:
    """All parameters (d,): the known values, checked, and the middle of the prior for others."""
    for name in known:
        if name not in family.names:
            raise InputError(f"{family} has no parameter {name!r}")
    middle = (0.5 * (family.low + family.high)).tolist()
    values = [known.get(n, m) for n, m in zip(family.names, middle, strict=True)]
    return family.check(values)[0]
