"""What a network's estimate is off by: the error model of eq. (7), and its corrections."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration
from gibbsdiff.fourier import (
    Shape,
    between_references,
    filtered,
    from_opponent,
    turned,
    turned_spectrum,
)
from gibbsdiff.networks.unet import Heads
from gibbsdiff.noise.covariance import Covariance
from gibbsdiff.streams import Streams


@dataclass(frozen=True)
class NetworkError(Covariance):
    """E_t = G ∗ diag(eᵛ) ∗ G in opponent colours, G² = c B² V, eq. (7)."""

    G: Tensor
    log_variance: Tensor

    def spectrum(self) -> Tensor:
        """Ê(k) = c B² V mean(eᵛ) of eq. (11): (B, C, H, W//2+1)."""
        return self.G.square() * self.log_variance.exp().mean((-2, -1), keepdim=True)

    def pixel_variance(self) -> Tensor:
        """(B, C, H, W): eᵛ smoothed by the square of G in pixel space."""
        shape = (self.log_variance.shape[-2], self.log_variance.shape[-1])
        kernel = torch.fft.irfft2(self.G, s=shape).square()
        spread = torch.fft.rfft2(kernel) * torch.fft.rfft2(self.log_variance.exp())
        return torch.fft.irfft2(spread, s=shape)

    def through(self, gain: Tensor) -> NetworkError:
        """G times the gain."""
        return replace(self, G=self.G * gain)

    def draw(self, rng: Streams, channels: int) -> Tensor:
        """G ∗ (e^{v/2} · white)."""
        v = self.log_variance
        white = rng.normal(channels, *v.shape[-2:], dtype=v.dtype).to(v.device)
        return from_opponent(filtered(white * torch.exp(0.5 * v), self.G))

    def turned(self, which: Tensor, *, back: bool = False) -> NetworkError:
        """G and v turned."""
        G = turned_spectrum(self.G, which, self.log_variance.shape[-1])
        return NetworkError(G, turned(self.log_variance, which, back=back))

    def times(self, log_c: Tensor) -> NetworkError:
        """The error with its power multiplied by c, given at the reference frequencies of every
        image and channel: (B, C, 8).
        """
        shape = (self.log_variance.shape[-2], self.log_variance.shape[-1])
        factor = torch.exp(0.5 * in_every_mode(log_c.to(self.G), shape))
        return replace(self, G=self.G * factor)


def by_heads(heads: Heads, V: Tensor, c: Tensor | None) -> NetworkError:
    """G² = c B² V with B² and v by the network's heads; no c is c = 1."""
    shape = (heads.log_variance.shape[-2], heads.log_variance.shape[-1])
    G2 = V * torch.exp(in_every_mode(heads.log_bands, shape))
    if c is not None:
        G2 = G2 * c
    return NetworkError(G2.sqrt(), heads.log_variance)


def calibration_for_one(calibration: Calibration | None, log_c: Tensor) -> Calibration:
    """A calibration with the factor that one image has of its own, (C, 8), at all N/S_x."""
    own = log_c[..., None]
    if calibration is None:
        knots = log_c.numel()
        calibration = Calibration(own.new_zeros(1, 1, len(LOG_RATIO)), own.new_zeros(knots, knots))
    return replace(calibration, log_c=calibration.log_c.to(own) + own)


def in_every_mode(knots: Tensor, shape: Shape) -> Tensor:
    """Log-linear between the reference frequencies: (B, C, 8) -> (B, C, H, W//2+1)."""
    return (knots @ between_references(shape).to(knots)).unflatten(-1, (shape[0], -1))
