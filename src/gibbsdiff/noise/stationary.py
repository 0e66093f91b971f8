"""Noise whose law is the same everywhere in the picture: a power spectrum N_φ(k), eq. (8)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
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
    to_opponent,
)
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.level import LevelMap, Light
from gibbsdiff.noise.level_curves import LevelCurve, Move


@dataclass(frozen=True)
class Statistic:
    """Sufficient statistic of ε: P (B, R, M), the weighted power in each group of modes, summed
    over the `channels` that have one spectrum in common; R is the number of spectra.

    `share` (1 or B, 1 or R, M), if given, is the part of a group's modes that counts; P is of that
    part.
    """

    k: Wavevectors
    P: Tensor
    channels: int
    share: Tensor | None = None

    @property
    def modes(self) -> Tensor:
        """How many modes of the plane each group stands for: (M,) or (B, 1 or R, M)."""
        return self.k.weight if self.share is None else self.k.weight * self.share

    def rows(self, index: Tensor) -> Statistic:
        """The statistic of some images of the batch."""
        share = self.share
        if share is not None and len(share) > 1:
            share = share[index]
        return Statistic(self.k, self.P[index], self.channels, share)


class StationaryNoise(NoiseModel):
    """Stationary noise N(0, Fᵀ diag(N_φ) F), independent in each opponent channel, eq. (8).

    A family writes one method, `log_power`. `isotropic` families depend on |k| alone;
    `edges` are the |k| at which their spectrum may jump; `amplitude` names the parameter, if
    there is one, that does nothing but scale N. `spectra` is how many it has: one for all channels,
    or one for each opponent channel. Noise of unequal strength in R, G and B would be correlated
    between opponent channels: no family here says that.
    """

    stationary = True
    isotropic: bool = True
    amplitude: str = "sigma"
    edges: tuple[float, ...] = ()
    spectra: int = 1
    level_names: tuple[str, ...] = ()
    """Names of the parameters of its level map, eq. (15)."""
    level_curve: LevelCurve | None = None
    """What they are parameters of."""

    @abstractmethod
    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """log N(k), absolute: φ (..., d) -> (..., M), or (..., C, M) where there are several
        spectra. White noise of std σ has N = σ².
        """

    @property
    def is_camera(self) -> bool:
        """Whether it is like that of cameras: spectra by channel, or a level by brightness."""
        return self.spectra > 1 or self.level_curve is not None

    def log_spectra(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """log N(k) with the axis of its spectra: φ (..., d) -> (..., R, M)."""
        log_n = self.log_power(k, phi)
        return log_n if self.spectra > 1 else log_n.unsqueeze(-2)

    def grouping(self, shape: Shape, exact: bool = False) -> Grouping:
        """How modes are grouped in the likelihood: radial bins unless exact or anisotropic."""
        if not self.isotropic:
            return every_mode(shape)
        return exact_groups(shape) if exact else radial_bins(shape, self.edges)

    def power(self, shape: Shape, phi: Tensor) -> Tensor:
        """N(k) on the half-plane: (B, R, H, W//2+1)."""
        log_n = self.log_spectra(half_plane(shape), phi).unflatten(-1, (shape[0], -1))
        return torch.exp(log_n if self.isotropic else even(log_n, shape[1]))

    def descriptor(self, shape: Shape, phi: Tensor) -> Tensor:
        """½ log N at the reference frequencies, eq. (5): (B, R, 8).

        A spectrum that depends on direction is described by its mean over angles.
        """
        angles = 1 if self.isotropic else 16
        theta = torch.arange(angles, dtype=torch.float64) * math.pi / angles
        radius = torch.tensor(REFERENCE, dtype=torch.float64)
        kx = (radius[:, None] * torch.cos(theta)).flatten()
        ky = (radius[:, None] * torch.sin(theta)).flatten()
        log_n = self.log_spectra(self.grouping(shape).k.with_frequencies(kx, ky), phi)
        return 0.5 * log_n[..., -len(kx) :].unflatten(-1, (len(radius), angles)).mean(-1)

    def highest_level(self, shape: Shape) -> float:
        """The largest level, √(mean of N), at the corners of the prior box."""
        ends = torch.stack([self.low, self.high], -1)
        phi = torch.cartesian_prod(*ends).reshape(-1, len(ends))
        return float(self.covariance(shape, phi).level.max())

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> SpectralCovariance:
        """Fᵀ diag(N_φ) F, with what networks take: the descriptor, or the shape's parameters."""
        descriptor = self.descriptor(shape, phi).to(dtype)
        power, of_shape = self.power(shape, phi).to(dtype), self.shape_parameters(phi).to(dtype)
        level = self.level_map(phi)
        return SpectralCovariance(
            power,
            shape,
            descriptor,
            of_shape,
            self.shape_names,
            None if level is None else level.to(dtype=dtype),
        )

    def level_map(self, phi: Tensor) -> LevelMap | None:
        """g of eq. (15) at φ (B, d); None: the level is the same everywhere."""
        return None

    def louder(self, phi: Tensor, by: Tensor) -> Tensor:
        """φ (B, d) of noise that is e^by times as strong, by (B,)."""
        if self.amplitude not in self.names:
            raise InputError(f"{self}: how φ goes with the level of the noise is not known")
        own = torch.tensor([name == self.amplitude for name in self.names])
        return torch.where(own, phi * torch.exp(by)[..., None], phi)

    def carried(self, phi: Tensor, move: Move) -> Tensor:
        """φ (B, d) of the same noise on another picture."""
        return self.louder(phi, torch.full_like(phi[..., 0], -math.log(move.stretch)))

    def lit(self, light: Light | None) -> StationaryNoise:
        """The same noise on a picture of this brightness, for families whose level goes with it."""
        return self

    @property
    def shape_names(self) -> tuple[str, ...]:
        """Names of the spectrum's parameters but for the amplitude."""
        others = (self.amplitude, *self.level_names)
        return tuple(name for name in self.names if name not in others)

    def shape_parameters(self, phi: Tensor) -> Tensor:
        """φ without its amplitude: (B, d) -> (B, K)."""
        own = self.shape_names
        return phi[..., [i for i, name in enumerate(self.names) if name in own]]

    def statistic(self, noise: Any, observed: Tensor | None = None, *, exact: bool = False) -> Any:
        """P = Σ w |ε̂|² in each group of modes, of pictures without missing pixels: over all
        channels, or in each opponent channel of noise that has several spectra.

        `exact` groups modes of the very same |k| instead of binning |k|.
        """
        self.needs_all(observed)
        return self.statistic_of(as_images(noise, "noise", smallest=1).double(), exact=exact)

    def statistic_of(self, eps: Tensor, *, exact: bool = False) -> Statistic:
        """`statistic` of ε (B, C, H, W) that needs no check, differentiable in it."""
        shape = (eps.shape[-2], eps.shape[-1])
        grouping = self.grouping(shape, exact)
        P, channels = self.by_spectrum(power(eps if self.spectra == 1 else to_opponent(eps)))
        return Statistic(grouping.k, grouping.sum(P), channels)

    def needs_all(self, observed: Tensor | None) -> None:
        """Refuse missing pixels: modes are those of a whole grid."""
        if observed is not None and not bool(observed.all()):
            raise InputError(
                f"{self}: the likelihood of pictures with missing pixels needs a window"
            )

    def by_spectrum(self, P: Tensor) -> tuple[Tensor, int]:
        """Powers (B, C, …) in opponent channels, summed over those that have one spectrum in
        common, (B, R, …), and how many these are.
        """
        if self.spectra == 1:
            return P.sum(1, keepdim=True), P.shape[1]
        if P.shape[1] != self.spectra:
            raise InputError(f"{self}: for {self.spectra} channels, not {P.shape[1]}")
        return P, 1

    def log_likelihood(self, phi: Tensor, statistic: Statistic) -> Tensor:
        """Eq. (8): -½ Σ_k w [C log(2π N) + P/N], over all spectra."""
        k = statistic.k
        log_n = self.log_spectra(k, phi)
        if not self.isotropic:
            height, width = k.shape
            log_n = even(log_n.unflatten(-1, (height, -1)), width).flatten(-2)
        # Not `log_n @ modes`: BLAS rounds by batch size, and no chain may depend on the others.
        modes = statistic.channels * statistic.modes
        terms = modes * log_n + statistic.P * torch.exp(-log_n)
        count = modes.expand_as(terms).sum((-2, -1))
        return -0.5 * (math.log(2 * math.pi) * count + terms.sum((-2, -1)))
