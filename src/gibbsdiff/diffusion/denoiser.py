"""The denoiser's interface, and the one that a network makes: eqs. (3), (4) and (7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration, between
from gibbsdiff.diffusion.signal import Signal, Wiener, wiener
from gibbsdiff.diffusion.tweedie import derivative, own_factor
from gibbsdiff.fourier import (
    Shape,
    between_references,
    filtered,
    from_opponent,
    half_plane,
    power,
    to_opponent,
)
from gibbsdiff.networks.tiled import Tiled
from gibbsdiff.networks.unet import Heads, UNet
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams


class Estimate(NamedTuple):
    """D(z, N) ≈ E[x | z] and the covariance E_t of x - D given z."""

    mean: Tensor
    error: Covariance


class Denoiser(Protocol):
    """What solvers and samplers see of a denoiser: one call, two moments of x | z, eq. (3)."""

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """E[x | x + N(0, Σ) = z] for a batch z (B, C, H, W), with its error covariance."""


@dataclass(frozen=True)
class NetworkError(Covariance):
    """E_t = G ∗ diag(eᵛ) ∗ G in opponent colours, G² = c B² V, eq. (7)."""

    G: Tensor
    log_variance: Tensor

    @property
    def power(self) -> Tensor:
        """Ê(k) = c B² V mean(eᵛ), the spectrum of eq. (11): (B, C, H, W//2+1)."""
        return self.G.square() * self.log_variance.exp().mean((-2, -1), keepdim=True)

    @property
    def variance(self) -> Tensor:
        """(B, C, H, W) pixel variance in opponent colours: eᵛ smoothed by |G|² in pixel space."""
        shape = (self.log_variance.shape[-2], self.log_variance.shape[-1])
        kernel = torch.fft.irfft2(self.G, s=shape).square()
        spread = torch.fft.rfft2(kernel) * torch.fft.rfft2(self.log_variance.exp())
        return torch.fft.irfft2(spread, s=shape)

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """G ∗ (e^{v/2} · white)."""
        white = rng.normal(channels, *self.log_variance.shape[-2:], dtype=self.log_variance.dtype)
        return from_opponent(filtered(white * torch.exp(0.5 * self.log_variance), self.G))


class Losses(NamedTuple):
    """Per image: the error relative to the Wiener filter's, eq. (6), in pixels and in units of
    the noise, and the negative log-likelihoods of the residual's pixels (v) and of its
    spectrum (B), eq. (7).
    """

    relative: Tensor
    whitened: Tensor
    pixel: Tensor
    spectral: Tensor


class SpectralDenoiser(nn.Module):
    """The Wiener estimate plus a network's correction of unit variance in every mode, eq. (4):

    D = m + skip ∗ (z-m) + √V ∗ F_θ(3·skip ∗ (z-m), T^(-½) ∗ (z-m); descriptor)

    With a `tile`, F_θ sees large images in pieces of at most tile² pixels; filters stay global.
    With a `probe`, the seed of one, the error has the power that ∂D/∂z tells, eq. (13).
    """

    def __init__(
        self,
        network: UNet,
        signal: Signal,
        calibration: Calibration | None = None,
        *,
        tile: int | None = None,
        probe: int | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.signal = signal
        self.calibration = calibration
        self.tile = tile
        self.probe = probe

    def tiled(self, tile: int = 1024) -> SpectralDenoiser:
        """The same denoiser, by the same weights, in memory that large images need: `Tiled`."""
        return SpectralDenoiser(self.network, self.signal, self.calibration, tile=tile)

    def probed(self, seed: int = 0) -> SpectralDenoiser:
        """The same denoiser, whose error power is read off ∂D/∂z: a call costs about three."""
        return SpectralDenoiser(
            self.network, self.signal, self.calibration, tile=self.tile, probe=seed
        )

    def adapted(self, z: Tensor, noise: SpectralCovariance) -> SpectralDenoiser:
        """The same denoiser with c of eq. (7) for one image z (1, C, H, W), by ∂D/∂z, at every
        level of the noise.
        """
        with torch.no_grad():
            _, _, own = self._probed(z, noise, self.probe or 0)
        old, own = self.calibration, own[0, :, :, None]
        if old is None:
            knots = own.shape[0] * own.shape[1]
            old = Calibration(own.new_zeros(1, 1, len(LOG_RATIO)), own.new_zeros(knots, knots))
        table = replace(old, log_c=old.log_c.to(own) + own)
        return SpectralDenoiser(self.network, self.signal, table, tile=self.tile)

    def forward(self, z: Tensor, noise: SpectralCovariance) -> Estimate:
        """D and its error model."""
        if self.probe is None:
            return Estimate(*self._modelled(z, noise))
        mean, error, own = self._probed(z, noise, self.probe)
        log_c = _in_every_mode(own.to(z), noise.shape)
        return Estimate(mean, replace(error, G=error.G * torch.exp(0.5 * log_c)))

    def _probed(
        self, z: Tensor, noise: SpectralCovariance, seed: int
    ) -> tuple[Tensor, NetworkError, Tensor]:
        """The mean, the heads' error, and log c by the derivative: (B, C, 8)."""

        def split(at: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            mean, error = self._modelled(at, noise)
            return mean, (error.G, error.log_variance)

        mean, J, parts = derivative(split, z, noise, seed)
        error = NetworkError(*parts)
        return mean, error, own_factor(error.power / noise.power, J, noise)

    def _modelled(self, z: Tensor, noise: SpectralCovariance) -> tuple[Tensor, NetworkError]:
        """D, and the error by heads and table."""
        mean, heads, w = self._evaluate(z, noise)
        G2 = w.V * torch.exp(_in_every_mode(heads.log_bands, noise.shape))
        if self.calibration is not None:
            known = (noise.power, self._signal(z), noise.shape)
            G2 = G2 * self.calibration.factor(*known)
            if self.calibration.gain is not None:
                gain = between(self.calibration.gain, *known)
                mean = mean + from_opponent(filtered(to_opponent(z - mean), gain))
        return mean, NetworkError(G2.sqrt(), heads.log_variance)

    def losses(self, x: Tensor, z: Tensor, noise: SpectralCovariance) -> Losses:
        """Eq. (6) twice, and the two likelihoods on the detached residual of the correction."""
        mean, heads, w = self._evaluate(z, noise)
        modes = half_plane(noise.shape)
        scale = modes.mean(w.V.flatten(2)).mean((1, 2))
        relative = (mean - x).square().mean((1, 2, 3)) / scale
        error = to_opponent(x - mean)
        in_noise = filtered(error, noise.power.rsqrt()).square().mean((1, 2, 3))
        whitened = in_noise / modes.mean((w.V / noise.power).flatten(2)).mean((1, 2))
        residual = filtered(error.detach(), w.V.rsqrt())
        v = heads.log_variance
        pixel = 0.5 * (v + residual.square() * torch.exp(-v)).mean((1, 2, 3))
        level = v.detach().exp().mean((-2, -1), keepdim=True).log()
        log_e = _in_every_mode(heads.log_bands, noise.shape) + level
        terms = 0.5 * (log_e + power(residual) * torch.exp(-log_e))
        spectral = modes.mean(terms.flatten(2).double()).mean((1, 2))
        return Losses(relative, whitened, pixel, spectral)

    def _signal(self, z: Tensor) -> Tensor:
        return self.signal.power((z.shape[-2], z.shape[-1])).to(z)

    def _evaluate(self, z: Tensor, noise: SpectralCovariance) -> tuple[Tensor, Heads, Wiener]:
        if noise.descriptor is None:
            raise ValueError("a network needs the noise's descriptor, eq. (5)")
        m = self.signal.mean
        w = wiener(self._signal(z), noise.power)
        opponent = torch.fft.rfft2(to_opponent(z - m))
        linear = torch.fft.irfft2(opponent * w.skip, s=noise.shape)
        planes = torch.cat([3 * linear, torch.fft.irfft2(opponent * w.whiten, s=noise.shape)], 1)
        del opponent  # room for the network, which counts from ten megapixels on
        network = self.network if self.tile is None else Tiled(self.network, self.tile)
        heads = network(planes, noise.descriptor)
        del planes
        mean = m + from_opponent(linear + filtered(heads.correction, w.V.sqrt()))
        return mean, heads, w


def _in_every_mode(knots: Tensor, shape: Shape) -> Tensor:
    """Log-linear between the reference frequencies: (B, C, 8) -> (B, C, H, W//2+1)."""
    return (knots @ between_references(shape).to(knots)).unflatten(-1, (shape[0], -1))
