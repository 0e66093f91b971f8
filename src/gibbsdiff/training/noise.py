"""The noise that a network is trained on: power laws, smooth spectra, cameras', the CMB, white."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    REFERENCE,
    Shape,
    between_references,
    filtered,
    from_opponent,
    half_plane,
)
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.families import WhiteNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training import camera


@dataclass(frozen=True)
class NoiseLaw:
    """What training noise is drawn from.

    The level is log-uniform on `level`, or uniform on `tail` with probability `tail_part`.
    The spectrum is |k|^φ, φ uniform on `phi`, or, with probability `random_part`, log-linear
    between knots at the reference frequencies: a line of slope uniform on ±`random_slope` plus
    a random walk with steps of `random_step`. A part `wide_part` of the batches has its noise
    cut from a grid twice as large, so that it is not periodic. `spectrum`, the log-power at the
    knots up to a constant, takes the place of all that: one noise alone, to specialise on.

    For a part `camera_part` of the images it goes through the filters that a camera has for each
    opponent channel, with luma's noise going with green chroma's in a part `together_part` of
    these, and for a part `gain_part` its level changes over the picture:
    `gibbsdiff.training.camera`. A part `jpeg_part` of the noisy images was stored as JPEG:
    `gibbsdiff.training.stored`.

    The family "cmb" has the spectra of the CMB instead, (H0, ω_b) uniform on the emulator's box
    and σ, rather than the level, from `level` and `tail`. The family "white" is white noise alone,
    periodic.
    """

    level: tuple[float, float] = (0.01, 0.6)
    tail: tuple[float, float] = (0.2, 1.0)
    tail_part: float = 0.1
    phi: tuple[float, float] = (-1.0, 1.0)
    random_part: float = 0.25
    random_slope: float = 1.3
    random_step: float = 0.45
    wide_part: float = 0.5
    spectrum: tuple[float, ...] = ()
    family: Literal["power-law", "cmb", "white"] = "power-law"
    camera_part: float = 0.0
    together_part: float = 0.0
    gain_part: float = 0.0
    jpeg_part: float = 0.0


def add_noise(
    x: Tensor, rng: torch.Generator, law: NoiseLaw | None = None
) -> tuple[Tensor, SpectralCovariance]:
    """z = x + ε for a batch x (B, C, H, W), and the covariance of ε that the network is given.

    ε cut from a larger periodic grid has, up to leakage, the same density N(k) at the same k: the
    covariance has the N(k) of the larger grid. The level is the same everywhere: level maps take
    the picture to draw, and are the objective's.
    """
    law = law or NoiseLaw()
    count, channels, height, width = x.shape
    shape = (height, width)
    if law.family != "power-law":
        drawn = _draw_family(count, shape, rng, law)
        standard = torch.randn(count, channels, *shape, generator=rng)
        return x + filtered(standard, drawn.power.sqrt()), drawn
    wide = float(torch.rand((), generator=rng)) < law.wide_part
    grid = (2 * height, 2 * width) if wide else shape

    spectra = _draw_spectra(count, channels, rng, law)
    log_shape = spectra.log_shape(grid)
    weight = half_plane(grid).weight.float()
    log_mean = torch.log((torch.exp(log_shape) * weight).sum(-1).mean(1) / weight.sum())
    offset = (2 * torch.log(_draw_levels(count, rng, law)) - log_mean)[:, None, None]

    white = torch.randn(count, channels, *grid, generator=rng)
    own = spectra.own(torch.exp(log_shape + offset))
    noise = filtered(white, _on_grid(own.sqrt(), grid))
    if spectra.filters is not None:
        noise = from_opponent(spectra.filters.together(noise))
    if wide:
        # The mode k = 0 of a cut field holds what is slower than the cut, not N(0).
        log_shape = spectra.log_shape(shape, without_zero=True)
    power = _on_grid(torch.exp(log_shape + offset), shape)
    descriptor = 0.5 * (spectra.at_reference() + offset)
    return x + noise[:, :, :height, :width], SpectralCovariance(power, shape, descriptor)


def family_of(law: NoiseLaw) -> StationaryNoise:
    """The CMB, or white noise, with all σ of a law in its prior."""
    ends = (*law.level, *law.tail) if law.tail_part else law.level
    return _family(law.family, min(ends), max(ends))


@lru_cache(maxsize=4)
def _family(name: str, low: float, high: float) -> StationaryNoise:
    return CMBNoise(sigma=(low, high)) if name == "cmb" else WhiteNoise(sigma=(low, high))


def _draw_family(
    count: int, shape: Shape, rng: torch.Generator, law: NoiseLaw
) -> SpectralCovariance:
    noise = family_of(law)
    sigma = _draw_levels(count, rng, law).double()[:, None]
    u = torch.rand(count, len(noise.names) - 1, generator=rng, dtype=torch.float64)
    phi = torch.cat([sigma, noise.low[1:] + u * (noise.high - noise.low)[1:]], 1)
    return noise.covariance(shape, phi, torch.float32)


def _draw_levels(count: int, rng: torch.Generator, law: NoiseLaw) -> Tensor:
    u, v, w = torch.rand(3, count, generator=rng)
    low, high = math.log(law.level[0]), math.log(law.level[1])
    in_tail = law.tail[0] + v * (law.tail[1] - law.tail[0])
    return torch.where(w < law.tail_part, in_tail, torch.exp(low + u * (high - low)))


class _Spectra(NamedTuple):
    """φ (B, 1), log-spectra at the knots (B, 8), which of the two each image takes (B, 1), and what
    cameras make of it, if there are any.
    """

    slope: Tensor
    knots: Tensor
    is_random: Tensor
    filters: camera.Filters | None = None

    def log_shape(self, shape: Shape, without_zero: bool = False) -> Tensor:
        """log of the unnormalised spectra on the half-plane, (B, 1 or C, M)."""
        log_k, between = _tables(shape, without_zero)
        before = torch.where(self.is_random, self.knots @ between, self.slope * log_k)
        return self._filtered(before, half_plane(shape).k.float())

    def at_reference(self) -> Tensor:
        """The same at the reference frequencies, (B, 1 or C, 8)."""
        before = torch.where(self.is_random, self.knots, self.slope * _log_reference())
        return self._filtered(before, torch.tensor(REFERENCE))

    def own(self, power: Tensor) -> Tensor:
        """N (B, 1 or C, M) without what a channel has of another's noise."""
        return power if self.filters is None else self.filters.own(power)

    def _filtered(self, before: Tensor, k: Tensor) -> Tensor:
        if self.filters is None:
            return before[:, None]
        return before[:, None] + self.filters.log_power(k)


def _draw_spectra(count: int, channels: int, rng: torch.Generator, law: NoiseLaw) -> _Spectra:
    before = _draw_before(count, rng, law)
    if not law.camera_part:
        return before
    if channels != camera.CHANNELS:
        raise InputError("[noise] camera_part: cameras have three channels")
    filters = camera.draw_filters(count, rng, law.camera_part, law.together_part)
    slope, knots = (torch.where(filters.white, 0.0, part) for part in before[:2])
    return _Spectra(slope, knots, before.is_random, filters)


def _draw_before(count: int, rng: torch.Generator, law: NoiseLaw) -> _Spectra:
    """Without a camera's filters."""
    if law.spectrum:
        knots = torch.tensor(law.spectrum).expand(count, -1)
        return _Spectra(torch.zeros(count, 1), knots, torch.ones(count, 1, dtype=torch.bool))
    u, v, w = torch.rand(3, count, 1, generator=rng)
    slope = law.phi[0] + u * (law.phi[1] - law.phi[0])
    line = law.random_slope * (2 * v - 1) * _log_reference()
    walk = law.random_step * torch.randn(count, len(REFERENCE), generator=rng)
    return _Spectra(slope, line + walk.cumsum(1), w < law.random_part)


def _log_reference() -> Tensor:
    return torch.log(torch.tensor(REFERENCE))


@lru_cache(maxsize=16)
def _tables(shape: Shape, without_zero: bool) -> tuple[Tensor, Tensor]:
    """log|k|, at k = 0 either 0, as in the power law, or that of |k| = 0.5/max(H, W); and the
    weights between the references.
    """
    modes = half_plane(shape)
    k = modes.without_zero.k if without_zero else torch.where(modes.k > 0, modes.k, 1.0)
    return torch.log(k).float(), between_references(shape).float()


def _on_grid(values: Tensor, shape: Shape) -> Tensor:
    return values.unflatten(-1, (shape[0], -1))
