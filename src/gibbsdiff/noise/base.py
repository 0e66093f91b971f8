"""What every noise model has: named parameters, a prior box, draws and a likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    REFERENCE,
    Grouping,
    Shape,
    Wavevectors,
    even,
    every_mode,
    exact_groups,
    half_plane,
    power,
    radial_bins,
)
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams

LogDensity = Callable[[Tensor], Tensor]
Range = tuple[float, float]


@dataclass(frozen=True)
class Parameter:
    """A named parameter and its prior range."""

    name: str
    low: float
    high: float
    latex: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"parameter {self.name}: the prior range needs low < high, "
                f"both finite, not [{self.low:g}, {self.high:g}]"
            )


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

    def draw_prior(self, rng: Streams, candidates: int = 4096) -> Tensor:
        """(B, d) from the prior: exact if uniform, else the best of many uniform candidates
        by the Gumbel-max rule (importance resampling).
        """
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
        if self._given_digest is None and (made_of is None or self.prior is not None):
            return None
        parts = (self.parameters, made_of, self._given_digest)
        return digest_of(type(self).__name__, *parts)

    def _made_of(self) -> tuple[Any, ...] | None:
        """What tells this model from others with the same parameters; None if it cannot be said."""
        return None


@dataclass(frozen=True)
class Statistic:
    """Sufficient statistic of ε: P (B, M), the weighted power in each group of modes.

    `share` (1 or B, M), if given, is the part of a group's modes that counts; P is of that part.
    """

    k: Wavevectors
    P: Tensor
    channels: int
    share: Tensor | None = None

    @property
    def modes(self) -> Tensor:
        """How many modes of the plane each group stands for: (M,) or (B, M)."""
        return self.k.weight if self.share is None else self.k.weight * self.share

    def rows(self, index: Tensor) -> Statistic:
        """The statistic of some images of the batch."""
        share = self.share
        if share is not None and len(share) > 1:
            share = share[index]
        return Statistic(self.k, self.P[index], self.channels, share)


class StationaryNoise(NoiseModel):
    """Stationary noise N(0, Fᵀ diag(N_φ) F), iid over channels, eq. (8).

    A family writes one method, `log_power`. `isotropic` families depend on |k| alone;
    `edges` are the |k| at which their spectrum may jump; `amplitude` names the parameter, if
    there is one, that does nothing but scale N.
    """

    stationary = True
    isotropic: bool = True
    amplitude: str = "sigma"
    edges: tuple[float, ...] = ()

    @abstractmethod
    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """log N(k), absolute: φ (..., d) -> (..., M). White noise of std σ has N = σ²."""

    def grouping(self, shape: Shape, exact: bool = False) -> Grouping:
        """How modes are grouped in the likelihood: radial bins unless exact or anisotropic."""
        if not self.isotropic:
            return every_mode(shape)
        return exact_groups(shape) if exact else radial_bins(shape, self.edges)

    def power(self, shape: Shape, phi: Tensor) -> Tensor:
        """N(k) on the half-plane: (B, 1, H, W//2+1)."""
        log_n = self.log_power(half_plane(shape), phi).reshape(len(phi), 1, shape[0], -1)
        return torch.exp(log_n if self.isotropic else even(log_n, shape[1]))

    def descriptor(self, shape: Shape, phi: Tensor) -> Tensor:
        """½ log N at the reference frequencies, eq. (5): (B, 8).

        A spectrum that depends on direction is described by its mean over angles.
        """
        angles = 1 if self.isotropic else 16
        theta = torch.arange(angles, dtype=torch.float64) * math.pi / angles
        radius = torch.tensor(REFERENCE, dtype=torch.float64)
        kx = (radius[:, None] * torch.cos(theta)).flatten()
        ky = (radius[:, None] * torch.sin(theta)).flatten()
        log_n = self.log_power(self.grouping(shape).k.with_frequencies(kx, ky), phi)
        return 0.5 * log_n[..., -len(kx) :].unflatten(-1, (len(radius), angles)).mean(-1)

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> SpectralCovariance:
        """Fᵀ diag(N_φ) F, with what networks take: the descriptor, or the shape's parameters."""
        descriptor = self.descriptor(shape, phi).to(dtype)
        power, of_shape = self.power(shape, phi).to(dtype), self.shape_parameters(phi).to(dtype)
        return SpectralCovariance(power, shape, descriptor, of_shape, self.shape_names)

    @property
    def shape_names(self) -> tuple[str, ...]:
        """Names of the parameters but for the amplitude."""
        return tuple(name for name in self.names if name != self.amplitude)

    def shape_parameters(self, phi: Tensor) -> Tensor:
        """φ without its amplitude: (B, d) -> (B, K)."""
        return phi[..., [i for i, name in enumerate(self.names) if name != self.amplitude]]

    def statistic(
        self, noise: Any, observed: Tensor | None = None, *, exact: bool = False
    ) -> Statistic:
        """P = Σ w Σ_channels |ε̂|² in each group of modes, of pictures without missing pixels.

        `exact` groups modes of the very same |k| instead of binning |k|.
        """
        if observed is not None and not bool(observed.all()):
            raise InputError(
                f"{self}: the likelihood of pictures with missing pixels needs a window"
            )
        eps = as_images(noise, "noise", smallest=1).double()
        shape = (eps.shape[-2], eps.shape[-1])
        grouping = self.grouping(shape, exact)
        return Statistic(grouping.k, grouping.sum(power(eps).sum(1)), eps.shape[1])

    def log_likelihood(self, phi: Tensor, statistic: Statistic) -> Tensor:
        """Eq. (8): -½ Σ_k w [C log(2π N) + P/N]."""
        k = statistic.k
        log_n = self.log_power(k, phi)
        if not self.isotropic:
            height, width = k.shape
            log_n = even(log_n.unflatten(-1, (height, -1)), width).flatten(-2)
        # Not `log_n @ modes`: BLAS rounds by batch size, and a chain must not know its batch.
        modes = statistic.channels * statistic.modes
        terms = modes * log_n + statistic.P * torch.exp(-log_n)
        return -0.5 * (math.log(2 * math.pi) * modes.sum(-1) + terms.sum(-1))
