"""Covariances of a batch of images: what can be drawn from, scaled and put in line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape, filtered, from_opponent, half_plane
from gibbsdiff.streams import Streams


class Covariance(ABC):
    """Something with Gaussian draws: the noise, or a denoiser's error E_t of eq. (7)."""

    @abstractmethod
    def draw(self, rng: Streams, channels: int) -> Tensor:
        """N(0, Σ): (B, C, H, W), row b from stream b."""


class NoiseCovariance(Covariance):
    """Σ_φ of every image of a batch, at the level of its observation or below."""

    @property
    @abstractmethod
    def level(self) -> Tensor:
        """(B,) pixel standard deviation, √(mean of the eigenvalues)."""

    @abstractmethod
    def scaled(self, u: Tensor) -> NoiseCovariance:
        """u² Σ, with u (B,): the noise at the relative level u."""

    @abstractmethod
    def rows(self, index: Tensor) -> NoiseCovariance:
        """The covariances of some images of the batch."""


@dataclass(frozen=True)
class SpectralCovariance(NoiseCovariance):
    """Fᵀ diag(N) F. `power` N(k) is (B, 1, H, W//2+1), equal in all channels, or
    (B, C, H, W//2+1), one spectrum per opponent channel. `descriptor` is eq. (5);
    `shape_parameters` (B, K) is φ without its amplitude, for networks that are told φ itself.
    """

    power: Tensor
    shape: Shape
    descriptor: Tensor | None = None
    shape_parameters: Tensor | None = None

    @property
    def level(self) -> Tensor:
        """√(mean of N over all modes and channels)."""
        modes = half_plane(self.shape)
        mean = modes.mean(self.power.flatten(2).double())
        return mean.mean((1, 2)).sqrt()

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """White noise through the filter √N."""
        white = rng.normal(channels, *self.shape, dtype=self.power.dtype)
        return from_opponent(filtered(white, self.power.sqrt()))

    def scaled(self, u: Tensor) -> SpectralCovariance:
        """N u², and log u added to the descriptor."""
        column = u.to(self.power).view(-1, 1, 1, 1)
        told = self.descriptor
        if told is not None:
            told = told + torch.log(u).to(told)[:, None]
        return replace(self, power=self.power * column**2, descriptor=told)

    def rows(self, index: Tensor) -> SpectralCovariance:
        """Some images of the batch."""
        told, phi = self.descriptor, self.shape_parameters
        return SpectralCovariance(
            self.power[index],
            self.shape,
            None if told is None else told[index],
            None if phi is None else phi[index],
        )

    def to(self, device: torch.device | str) -> SpectralCovariance:
        """The same on a device."""
        told, phi = self.descriptor, self.shape_parameters
        return SpectralCovariance(
            self.power.to(device),
            self.shape,
            None if told is None else told.to(device),
            None if phi is None else phi.to(device),
        )


@dataclass(frozen=True)
class PixelCovariance(NoiseCovariance):
    """diag(variance) in pixel space: (B, 1, H, W), equal in all channels."""

    variance: Tensor

    @property
    def level(self) -> Tensor:
        """Root mean variance."""
        return self.variance.double().mean((1, 2, 3)).sqrt()

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """White noise times the standard deviation of each pixel."""
        height, width = self.variance.shape[-2:]
        white = rng.normal(channels, height, width, dtype=self.variance.dtype)
        return white * self.variance.sqrt()

    def scaled(self, u: Tensor) -> PixelCovariance:
        """Variance times u²."""
        return PixelCovariance(self.variance * u.to(self.variance).view(-1, 1, 1, 1) ** 2)

    def rows(self, index: Tensor) -> PixelCovariance:
        """Some images of the batch."""
        return PixelCovariance(self.variance[index])


@dataclass(frozen=True)
class ZeroCovariance(Covariance):
    """Σ = 0: the error of a denoiser that has no model of it."""

    shape: Shape
    dtype: torch.dtype = torch.float64

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """Zeros; no stream is used."""
        return torch.zeros(len(rng), channels, *self.shape, dtype=self.dtype)
