"""What every noise model has: named parameters, a prior box, draws and a likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.streams import Streams

LogDensity = Callable[[Tensor], Tensor]
Range = tuple[float, float]


class NoiseModel(ABC):
    """Gaussian noise N(0, Σ_φ) with parameters φ in a box.

    The prior is uniform on the box; `prior`, an unnormalised log-density (..., d) -> (...),
    changes it inside. `digest`, a text of your choice, names functions of your own, such as the
    prior: change it whenever you change them.
    """

    stationary: bool = False
    """Whether it has a spectrum, which the marginal method and pictures that are not periodic
    need."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        if not parameters:
            raise InputError(f"{type(self).__name__}: needs at least one parameter")
        names = [p.name for p in parameters]
        if len(set(names)) < len(names):
            raise InputError(f"{type(self).__name__}: parameter names repeat: {', '.join(names)}")
        self.parameters = tuple(parameters)
        self.prior = prior
        self._given_digest = digest

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of φ's last axis."""
        return tuple(p.name for p in self.parameters)

    @cached_property
    def low(self) -> Tensor:
        """(d,) lower corner of the prior box."""
        return torch.tensor([p.low for p in self.parameters], dtype=torch.float64)

    @cached_property
    def high(self) -> Tensor:
        """(d,) upper corner of the prior box."""
        return torch.tensor([p.high for p in self.parameters], dtype=torch.float64)

    def check(self, phi: Any) -> Tensor:
        """φ as (B, d), float64, inside the prior box; otherwise one line naming the parameter."""
        value = torch.atleast_2d(torch.as_tensor(phi, dtype=torch.float64))
        if value.ndim != 2 or value.shape[-1] != len(self.parameters):
            raise InputError(
                f"{self}: needs {len(self.parameters)} parameters, "
                f"not an array of shape {tuple(value.shape)}"
            )
        for p, column in zip(self.parameters, value.T, strict=True):
            outside = ~((column >= p.low) & (column <= p.high))
            if bool(outside.any()):
                raise InputError(
                    f"{p.name} = {float(column[outside][0]):g} "
                    f"is outside its prior range [{p.low:g}, {p.high:g}]"
                )
        return value

    def log_prior(self, phi: Tensor) -> Tensor:
        """log p(φ), up to a constant; -inf outside the box."""
        inside = ((phi >= self.low) & (phi <= self.high)).all(-1)
        value = torch.zeros_like(phi[..., 0]) if self.prior is None else self.prior(phi)
        return torch.where(inside, value, -torch.inf)

    @property
    def has_gaussian_prior(self) -> bool:
        """Whether its prior has a curvature, which a search of the whole posterior needs."""
        return isinstance(self.prior, GaussianPrior)

    def prior_curvature(self) -> Tensor:
        """Λ = -∂² log p(φ), (d, d), of a Gaussian prior; zero for a uniform one."""
        if isinstance(self.prior, GaussianPrior):
            return self.prior.precision
        if self.prior is not None:
            raise InputError(f"{self}: the curvature of a prior of your own is not known")
        return torch.zeros(len(self.parameters), len(self.parameters), dtype=torch.float64)

    def draw_prior(self, rng: Streams, candidates: int = 4096) -> Tensor:
        """(B, d) from the prior: exact if it is uniform or Gaussian, else the best of many uniform
        candidates by the Gumbel-max rule (importance resampling).
        """
        if isinstance(self.prior, GaussianPrior):
            return self.prior.draw(rng, self.low, self.high)
        if self.prior is None:
            u = rng.uniform(len(self.parameters))
            return self.low + u * (self.high - self.low)
        u = rng.uniform(candidates, len(self.parameters))
        phi = self.low + u * (self.high - self.low)
        gumbel = -torch.log(-torch.log(rng.uniform(candidates).clamp(1e-300, 1 - 1e-16)))
        best = (self.prior(phi) + gumbel).argmax(-1)
        return phi[torch.arange(len(phi)), best]

    @abstractmethod
    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> NoiseCovariance:
        """Σ_φ for φ (B, d) on an H×W grid."""

    @abstractmethod
    def statistic(self, noise: Any, observed: Tensor | None = None) -> Any:
        """What the likelihood needs of ε (B, C, H, W), computed once.

        `observed` (H, W), bool, says which pixels count, where a family can leave some out.
        """

    @abstractmethod
    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """log p(ε | φ), (B,), differentiable in φ (B, d)."""

    def draw(
        self,
        shape: Shape,
        phi: Any,
        rng: Streams | None = None,
        channels: int = 1,
        dtype: torch.dtype = torch.float64,
        *,
        seed: int = 0,
    ) -> Tensor:
        """ε ~ N(0, Σ_φ): (B, C, H, W), row b from φ[b] and stream b.

        One φ serves all streams. Without `rng` there is one stream for each φ, under the seed.
        """
        value = self.check(phi)
        rng = Streams.batch(seed, len(value)) if rng is None else rng
        if len(value) == 1:
            value = value.expand(len(rng), -1)
        return self.covariance(shape, value, dtype).draw(rng, channels)

    def log_posterior(self, statistic: Any) -> LogDensity:
        """φ -> log p(φ | ε) up to a constant: what HMC samples."""
        return lambda phi: self.log_likelihood(phi, statistic) + self.log_prior(phi)

    def redraw_amplitude(self, phi: Tensor, statistic: Any, rng: Streams) -> Tensor:
        """φ with its amplitude drawn exactly from p(amplitude | shape, ε), where a family can."""
        raise InputError(f"{self} has no exact draw of its amplitude")

    def digest(self) -> str | None:
        """A name that is the same for the same noise and prior; None if functions of the user's
        own have not been named. Only noise with a digest can resume a checkpoint.
        """
        made_of = self._made_of()
        own, gaussian = self.prior, isinstance(self.prior, GaussianPrior)
        if self._given_digest is None and (made_of is None or not (own is None or gaussian)):
            return None
        parts: list[Any] = [self.parameters, made_of, self._given_digest]
        if isinstance(own, GaussianPrior):
            parts += [own.mean, own.precision]
        return digest_of(type(self).__name__, *parts)

    def _made_of(self) -> tuple[Any, ...] | None:
        """What results depend on beside the parameters; None if there is no name for it."""
        return None
