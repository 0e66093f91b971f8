"""Signals whose denoiser is known exactly, eq. (10): the ground truth of every test.

They have the interface of a network's denoiser: D, its error covariance, and, beyond
it, exact draws of x | y, φ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gibbsdiff.diffusion.conjugate_gradients import solve
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.signal import Signal, wiener
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    Shape,
    filtered,
    from_opponent,
    half_plane,
    power,
    to_opponent,
)
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.covariance import (
    Covariance,
    NoiseCovariance,
    PixelCovariance,
    SpectralCovariance,
)
from gibbsdiff.streams import Streams


class GaussianDenoiser(Denoiser):
    """x ~ N(m, S_x). D is the Wiener filter, and E = V = S_x N/(S_x + N) does not depend on z.

    For noise that is diagonal in pixels D = m + S_x (S_x + Σ)⁻¹ (z - m), by conjugate gradients.
    """

    error_model = exact = differentiable = True

    def __init__(self, signal: Signal) -> None:
        self.signal = signal

    def digest(self) -> str | None:
        """Of m and S_x, where the signal is one of the package's."""
        return digest_of(type(self).__name__, self.signal)

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """E[x | z] and Cov[x | z], exactly."""
        m, S_x = self.signal.mean, _spectrum(self.signal, z)
        if isinstance(noise, PixelCovariance):
            mean = m + _regress(S_x, noise, z - m)
            return Estimate(mean, PixelPosterior(S_x, noise))
        w = wiener(S_x, _power(noise))
        mean = m + _in_opponent(z - m, w.skip)
        return Estimate(mean, SpectralCovariance(w.V, _shape(z)))

    def draw(self, z: Tensor, noise: NoiseCovariance, rng: Streams) -> Tensor:
        """x ~ p(x | z), exactly."""
        mean, error = self(z, noise)
        assert error is not None
        return mean + error.draw(rng, z.shape[1])

    def prior(self, shape: Shape, rng: Streams, channels: int = 1) -> Tensor:
        """x ~ p(x): (B, C, H, W), float64."""
        S_x = self.signal.power(shape).expand(len(rng), -1, -1, -1)
        return self.signal.mean + SpectralCovariance(S_x, shape).draw(rng, channels)

    def log_evidence(self, y: Tensor, noise: SpectralCovariance) -> Tensor:
        """log p(y | φ) of y ~ N(m, S_x + N_φ), eq. (10): (B,)."""
        return _log_normal(y - self.signal.mean, _spectrum(self.signal, y) + noise.power)


@dataclass(frozen=True)
class PixelPosterior(Covariance):
    """Cov[x | z] = S_x - S_x (S_x + Σ)⁻¹ S_x for pixel noise, drawn by perturbation."""

    S_x: Tensor
    noise: PixelCovariance

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """x₀ - S_x (S_x + Σ)⁻¹ (x₀ + ε₀), where x₀ ~ N(0, S_x), ε₀ ~ N(0, Σ)."""
        height, width = self.noise.variance.shape[-2:]
        S_x = self.S_x.expand(len(rng), -1, -1, -1)
        x0 = SpectralCovariance(S_x, (height, width)).draw(rng, channels)
        return x0 - _regress(self.S_x, self.noise, x0 + self.noise.draw(rng, channels))


class MixtureDenoiser(Denoiser):
    """x ~ Σ_j π_j N(μ_j, S_j): D = Σ_j ρ_j D_j with responsibilities ρ_j ∝ π_j p(z | j).

    Each component is a mean image μ_j (C, H, W), or a number, and a spectrum S_j
    (C, H, W//2+1); all have the same shape.
    """

    error_model = exact = differentiable = True

    def __init__(
        self, weights: Sequence[float], means: Sequence[Tensor], spectra: Sequence[Tensor]
    ) -> None:
        if not len(weights) == len(means) == len(spectra) > 0:
            raise ValueError("a mixture needs as many weights as means and spectra")
        if min(weights) <= 0:
            raise ValueError(f"mixture weights must be positive, not {list(weights)}")
        self.log_weights = torch.tensor(weights, dtype=torch.float64).log()
        self.log_weights -= self.log_weights.logsumexp(0)
        self.means = [torch.as_tensor(m, dtype=torch.float64) for m in means]
        self.spectra = [s.double()[None] for s in spectra]

    def digest(self) -> str | None:
        """Of weights, means and spectra."""
        return digest_of(type(self).__name__, self.log_weights, self.means, self.spectra)

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """E[x | z] and Cov[x | z] = Σ ρ_j V_j + Σ ρ_j (D_j - D)(D_j - D)ᵀ."""
        rho, centres, variances = self._components(z, noise)
        mean = torch.einsum("bj,jbchw->bchw", rho, centres)
        V = torch.einsum("bj,jbchw->bchw", rho, variances)
        spread = (centres - mean) * rho.T.sqrt()[:, :, None, None, None]
        return Estimate(mean, MixtureError(SpectralCovariance(V, _shape(z)), spread))

    def draw(self, z: Tensor, noise: NoiseCovariance, rng: Streams) -> Tensor:
        """x ~ p(x | z), exactly: a component, then its Gaussian."""
        rho, centres, variances = self._components(z, noise)
        past = (rng.uniform()[:, None] > rho.cumsum(-1)).sum(-1)
        pick = past.clamp(max=rho.shape[1] - 1)
        rows = torch.arange(len(z))
        error = SpectralCovariance(variances[pick, rows], _shape(z))
        return centres[pick, rows] + error.draw(rng, z.shape[1])

    def prior(self, shape: Shape, rng: Streams, channels: int = 1) -> Tensor:
        """x ~ p(x): (B, C, H, W)."""
        past = (rng.uniform()[:, None] > self.log_weights.exp().cumsum(-1)).sum(-1)
        pick = past.clamp(max=len(self.means) - 1).tolist()
        S = torch.cat([self.spectra[j] for j in pick])
        centre = torch.stack([self.means[j].expand(channels, *shape) for j in pick])
        return centre + SpectralCovariance(S, shape).draw(rng, channels)

    def _components(self, z: Tensor, noise: NoiseCovariance) -> tuple[Tensor, Tensor, Tensor]:
        N = _power(noise)
        logits, centres, variances = [], [], []
        for log_weight, m, spectrum in zip(
            self.log_weights.to(z.device), self.means, self.spectra, strict=True
        ):
            mean, S = m.to(z), spectrum.to(z)
            w = wiener(S, N)
            logits.append(log_weight + _log_normal(z - mean, S + N))
            centres.append(mean + _in_opponent(z - mean, w.skip))
            variances.append(w.V.expand(len(z), z.shape[1], *w.V.shape[-2:]))
        rho = torch.stack(logits, -1).softmax(-1).to(z)
        return rho, torch.stack(centres), torch.stack(variances)


@dataclass(frozen=True)
class MixtureError(Covariance):
    """A stationary part plus a few directions: `spread` (J, B, C, H, W) holds √ρ_j (D_j - D)."""

    within: SpectralCovariance
    spread: Tensor

    def spectrum(self) -> Tensor:
        """V + Σ_j |spread_j|² in every mode."""
        return self.within.spectrum() + sum(power(s) for s in self._opponent())

    def pixel_variance(self) -> Tensor:
        """That of V, and Σ_j spread_j² in opponent colours."""
        return self.within.pixel_variance() + sum(s.square() for s in self._opponent())

    def through(self, gain: Tensor) -> MixtureError:
        """Both parts through the filter."""
        spread = torch.stack([from_opponent(filtered(s, gain)) for s in self._opponent()])
        return MixtureError(self.within.through(gain), spread)

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """The Gaussian with the mixture's covariance."""
        along = torch.einsum(
            "bj,jbchw->bchw", rng.normal(len(self.spread)).to(self.spread), self.spread
        )
        return self.within.draw(rng, channels) + along

    def _opponent(self) -> list[Tensor]:
        return [to_opponent(s) for s in self.spread]


def _shape(z: Tensor) -> Shape:
    return (z.shape[-2], z.shape[-1])


def _spectrum(signal: Signal, z: Tensor) -> Tensor:
    return signal.power(_shape(z)).to(z)


def _power(noise: NoiseCovariance) -> Tensor:
    if not isinstance(noise, SpectralCovariance):
        raise InputError(f"this denoiser needs stationary noise, not {type(noise).__name__}")
    if noise.level_map is not None:
        raise InputError("this denoiser is exact for noise of one level in all places")
    return noise.power


def _in_opponent(x: Tensor, gain: Tensor) -> Tensor:
    return from_opponent(filtered(to_opponent(x), gain))


def _regress(S_x: Tensor, noise: PixelCovariance, residual: Tensor) -> Tensor:
    """S_x (S_x + Σ)⁻¹ residual."""

    def apply(x: Tensor) -> Tensor:
        return _in_opponent(x, S_x) + noise.variance * x

    mean_variance = noise.variance.mean((-2, -1), keepdim=True)

    def precondition(x: Tensor) -> Tensor:
        return _in_opponent(x, 1 / (S_x + mean_variance))

    return _in_opponent(solve(apply, residual, precondition), S_x)


def _log_normal(x: Tensor, spectrum: Tensor) -> Tensor:
    """log N(x; 0, Fᵀ diag(spectrum) F), spectra per opponent channel: (B,)."""
    P = power(to_opponent(x)).double()
    terms = torch.log(2 * math.pi * spectrum.double()) + P / spectrum.double()
    weight = half_plane(_shape(x)).weight.reshape(x.shape[-2], -1).to(x.device)
    return -0.5 * (terms * weight).sum((1, 2, 3))
