"""Families of stationary noise: white, power law, bands, a user's own spectrum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors, band_of
from gibbsdiff.noise.base import LogDensity, Range
from gibbsdiff.noise.conjugate import truncated_inverse_gamma
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.stationary import StationaryNoise, Statistic
from gibbsdiff.streams import Streams


class PowerLawNoise(StationaryNoise):
    """N = σ² |k|^φ / mean(|k|^φ), with |k|^φ := 1 at k = 0: pink at φ = -1, blue at φ = 1."""

    def __init__(
        self,
        sigma: Range = (0.01, 1.0),
        phi: Range = (-1.0, 1.0),
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        positive("sigma", sigma)
        parameters = (Parameter("sigma", *sigma, r"\sigma"), Parameter("phi", *phi, r"\varphi"))
        super().__init__(parameters, prior, digest)

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """2 log σ + φ log|k| - log mean(|k|^φ)."""
        sigma, slope = phi[..., :1], phi[..., 1:]
        log_shape = slope * k.log_k
        return 2 * torch.log(sigma) + log_shape - torch.log(k.mean(torch.exp(log_shape)))

    def redraw_amplitude(self, phi: Tensor, statistic: Statistic, rng: Streams) -> Tensor:
        """σ from p(σ | φ, ε), exactly."""
        return redraw_sigma(self, phi, statistic, rng)

    def _made_of(self) -> tuple[Any, ...]:
        return ()


class WhiteNoise(StationaryNoise):
    """N = σ² in every mode."""

    def __init__(
        self,
        sigma: Range = (0.01, 1.0),
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        positive("sigma", sigma)
        super().__init__((Parameter("sigma", *sigma, r"\sigma"),), prior, digest)

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """2 log σ."""
        return 2 * torch.log(phi[..., :1]) + torch.zeros_like(k.weight)

    def redraw_amplitude(self, phi: Tensor, statistic: Statistic, rng: Streams) -> Tensor:
        """σ from p(σ | ε), exactly."""
        return redraw_sigma(self, phi, statistic, rng)

    def _made_of(self) -> tuple[Any, ...]:
        return ()


class BandedNoise(StationaryNoise):
    """N = exp(2 a_j) in the radial band j: the non-parametric choice, no σ.

    Bands are [edges[j-1], edges[j]) in |k|; the first holds k = 0 and the last the corners.
    The a_j are log-amplitudes, uniform by default.
    """

    def __init__(
        self,
        edges: tuple[float, ...] = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 5, 1 / 3.2, 1 / 2.2),
        log_amplitude: Range = (-7.0, 2.5),
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        if list(edges) != sorted(set(edges)) or any(not 0 < e < 0.75 for e in edges):
            raise InputError(f"band edges must increase within (0, 0.75) cycles/pixel, not {edges}")
        self.edges = tuple(float(e) for e in edges)
        parameters = [
            Parameter(f"a{j}", *log_amplitude, f"a_{{{j}}}") for j in range(len(edges) + 1)
        ]
        super().__init__(parameters, prior, digest)

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """2 a_j in band j."""
        return 2 * phi[..., band_of(k.k, self.edges)]

    def louder(self, phi: Tensor, by: Tensor) -> Tensor:
        """All a_j, which are logarithms."""
        return phi + by[..., None]

    def redraw_amplitude(self, phi: Tensor, statistic: Statistic, rng: Streams) -> Tensor:
        """All a_j at once, exactly: they are independent given ε.

        A flat prior in a is flat in log v for v = exp(2a), so v ~ InvGamma(C n/2, P/2).
        """
        _uniform_only(self)
        band = band_of(statistic.k.k, self.edges)
        counted = statistic.modes.expand_as(statistic.P)[:, 0]
        modes = torch.zeros_like(phi).index_add_(1, band, counted)
        P = torch.zeros_like(phi).index_add_(1, band, statistic.P[:, 0])
        u = rng.uniform(phi.shape[-1])
        v = truncated_inverse_gamma(
            statistic.channels * modes / 2,
            P / 2,
            torch.exp(2 * self.low),
            torch.exp(2 * self.high),
            u,
        )
        # A band without modes learns nothing from ε: its prior, flat in a.
        flat = self.low + u * (self.high - self.low)
        return torch.where(modes > 0, 0.5 * torch.log(v), flat)

    def _made_of(self) -> tuple[Any, ...]:
        return (self.edges,)


class SpectralNoise(StationaryNoise):
    """A user's own spectrum: log_power(kx, ky, **parameters), absolute, any direction dependence.

    >>> def one_over_f(kx, ky, sigma, knee):
    ...     k = (kx**2 + ky**2).sqrt()
    ...     return 2 * sigma.log() + (1 + (knee / k) ** 2).log()
    >>> noise = SpectralNoise(one_over_f, {"sigma": (0.01, 1), "knee": (0.01, 0.5)})

    kx, ky and the parameters broadcast against each other; k = 0 is evaluated at
    |k| = 0.5/max(H, W). Say isotropic=True if only |k| matters: it is much faster. A `digest`, a
    text that you change whenever you change the function, lets checkpoints recognise it.
    """

    def __init__(
        self,
        log_power: Callable[..., Tensor],
        parameters: Mapping[str, Range],
        isotropic: bool = False,
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        self.isotropic = isotropic
        self._log_power = log_power
        ranges = [Parameter(name, *box) for name, box in parameters.items()]
        super().__init__(ranges, prior, digest)

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """The user's function, at wave vectors without zero."""
        at = k.without_zero
        values = {name: phi[..., i, None] for i, name in enumerate(self.names)}
        out = self._log_power(at.kx, at.ky, **values)
        return out.expand(*phi.shape[:-1], len(k.weight))


def redraw_sigma(noise: StationaryNoise, phi: Tensor, statistic: Statistic, rng: Streams) -> Tensor:
    """σ given the shape S = N/σ²: with v = σ² and σ uniform, v ~ InvGamma((C n - 1)/2, Q/2),
    Q = Σ P/S, truncated to the prior range.
    """
    _uniform_only(noise)
    at_one = torch.cat([torch.ones_like(phi[:, :1]), phi[:, 1:]], 1)
    Q = (statistic.P * torch.exp(-noise.log_spectra(statistic.k, at_one))).sum((-2, -1))
    n = statistic.channels * statistic.modes.expand_as(statistic.P).sum((-2, -1))
    low, high = noise.low[0] ** 2, noise.high[0] ** 2
    v = truncated_inverse_gamma((n - 1) / 2, Q / 2, low, high, rng.uniform())
    return torch.cat([v.sqrt()[:, None], phi[:, 1:]], 1)


def _uniform_only(noise: StationaryNoise) -> None:
    if noise.prior is not None:
        raise InputError(f"{noise}: exact amplitude draws need the uniform prior")


def positive(name: str, box: Range) -> None:
    """Refuse a prior range that reaches zero."""
    if box[0] <= 0:
        raise InputError(f"parameter {name}: the prior range must be positive, not from {box[0]:g}")
