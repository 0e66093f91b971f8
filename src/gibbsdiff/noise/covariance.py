"""Covariances of a batch of images: what can be drawn, scaled, and summed up by its spectrum."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    Shape,
    filtered,
    from_opponent,
    half_plane,
    turned,
    turned_spectrum,
)
from gibbsdiff.noise.level import LevelMap
from gibbsdiff.streams import Streams


class Covariance(ABC):
    """Something with Gaussian draws: the noise, or a denoiser's error E_t of eq. (7).

    A spectrum and a pixel variance are optional: the marginal method needs the first, a map of
    standard deviations the second.
    """

    @abstractmethod
    def draw(self, rng: Streams, channels: int) -> Tensor:
        """N(0, Σ): (B, C, H, W), row b from stream b."""

    def spectrum(self) -> Tensor | None:
        """The mean power of each mode in opponent colours, (B, C or 1, H, W//2+1), if known."""
        return None

    def pixel_variance(self) -> Tensor | None:
        """The variance of each pixel in opponent colours, (B, C or 1, H, W), if known."""
        return None

    def through(self, gain: Tensor) -> Covariance | None:
        """That of gain ∗ x in opponent colours, for a real gain in every mode, if known."""
        return None

    def turned(self, which: Tensor, *, back: bool = False) -> Self | None:
        """T Σ Tᵀ, or T⁻¹ Σ Tᵀ⁻¹, if known: that of pictures turned by the symmetry `which` (B,) of
        each, `fourier.turned`.
        """
        return None

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same on another device, its numbers in another floating-point type."""
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Covariance | LevelMap):
                object.__setattr__(moved, name, value.to(device, dtype))
            elif isinstance(value, Tensor):
                kind = dtype if value.is_floating_point() else None
                object.__setattr__(moved, name, value.to(device=device, dtype=kind))
        return moved


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

    def held(self, z: Tensor) -> NoiseCovariance:
        """The same, with what a network takes from its input z beside it held constant, eq. (15):
        for differences of calls around z.
        """
        return self


@dataclass(frozen=True)
class SpectralCovariance(NoiseCovariance):
    """Fᵀ diag(N) F, or g Fᵀ diag(N) F g with a `level_map` g, eq. (15).

    `power` N(k) is (B, 1, H, W//2+1), equal in all channels, or (B, C, H, W//2+1), one spectrum
    per opponent channel. `descriptor` (B, 1 or C, 8) is eq. (5); `shape_parameters` (B, K), with
    their names, are φ without its amplitude, for networks that take φ itself.
    """

    power: Tensor
    shape: Shape
    descriptor: Tensor | None = None
    shape_parameters: Tensor | None = None
    shape_names: tuple[str, ...] = ()
    level_map: LevelMap | None = None

    @property
    def level(self) -> Tensor:
        """√(mean of N over all modes and channels)."""
        return self._mean_power().mean((1, 2)).sqrt()

    def spectrum(self) -> Tensor:
        """N(k): with a level map, that of ε/g."""
        return self.power

    def pixel_variance(self) -> Tensor:
        """g² times the mean of N over all modes, in every pixel."""
        mean = self._mean_power().to(self.power)
        flat = mean[..., None].expand(-1, -1, *self.shape)
        return flat if self.level_map is None else flat * self.level_map.g.square()

    def through(self, gain: Tensor) -> SpectralCovariance:
        """gain² N, of noise that has one level everywhere."""
        if self.level_map is not None:
            raise InputError("noise with a level map has no spectrum behind a filter")
        return SpectralCovariance(self.power * gain.square(), self.shape)

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """White noise through the filter √N, times g."""
        white = rng.normal(channels, *self.shape, dtype=self.power.dtype).to(self.power.device)
        drawn = from_opponent(filtered(white, self.power.sqrt()))
        return drawn if self.level_map is None else drawn * self.level_map.g

    def scaled(self, u: Tensor) -> SpectralCovariance:
        """N u², and log u added to the descriptor."""
        column = u.to(self.power).view(-1, 1, 1, 1)
        descriptor = self.descriptor
        if descriptor is not None:
            descriptor = descriptor + torch.log(u).to(descriptor)[:, None, None]
        return replace(self, power=self.power * column**2, descriptor=descriptor)

    def rows(self, index: Tensor) -> SpectralCovariance:
        """Some images of the batch."""
        descriptor, phi, level = self.descriptor, self.shape_parameters, self.level_map
        return replace(
            self,
            power=self.power[index],
            descriptor=None if descriptor is None else descriptor[index],
            shape_parameters=None if phi is None else phi[index],
            level_map=None if level is None else level.rows(index),
        )

    def held(self, z: Tensor) -> SpectralCovariance:
        """The level map as z shows it."""
        level = self.level_map
        return self if level is None else replace(self, level_map=level.held(z))

    def turned(self, which: Tensor, *, back: bool = False) -> SpectralCovariance:
        """N and g turned; the descriptor is a mean over directions, and the same. φ itself says
        nothing of a turned spectrum that depends on direction, and goes.
        """
        level = self.level_map
        return replace(
            self,
            power=turned_spectrum(self.power, which, self.shape[1]),
            shape_parameters=None,
            shape_names=(),
            level_map=None if level is None else level.turned(which, back=back),
        )

    def _mean_power(self) -> Tensor:
        """(B, C or 1, 1), float64."""
        return half_plane(self.shape).mean(self.power.flatten(2).double())


@dataclass(frozen=True)
class PixelCovariance(NoiseCovariance):
    """diag(variance) in pixel space: (B, 1, H, W), equal in all channels."""

    variance: Tensor

    @property
    def level(self) -> Tensor:
        """Root mean variance."""
        return self.variance.double().mean((1, 2, 3)).sqrt()

    def pixel_variance(self) -> Tensor:
        """The variance of each pixel: an orthonormal basis of colours leaves it as it is."""
        return self.variance

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """White noise times the standard deviation of each pixel."""
        height, width = self.variance.shape[-2:]
        white = rng.normal(channels, height, width, dtype=self.variance.dtype)
        return white.to(self.variance.device) * self.variance.sqrt()

    def scaled(self, u: Tensor) -> PixelCovariance:
        """Variance times u²."""
        return PixelCovariance(self.variance * u.to(self.variance).view(-1, 1, 1, 1) ** 2)

    def rows(self, index: Tensor) -> PixelCovariance:
        """Some images of the batch."""
        return PixelCovariance(self.variance[index])

    def turned(self, which: Tensor, *, back: bool = False) -> PixelCovariance:
        """The variance of each pixel, turned."""
        return PixelCovariance(turned(self.variance, which, back=back))
