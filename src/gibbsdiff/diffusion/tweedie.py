r"""The error of a denoiser by its own derivative: Tweedie's second formula, eq. (13).

For the posterior mean D, Cov[x | y] = ∂D/∂y N, so that Ê(k) = N(k) ∂D̂(k)/∂ŷ(k). A network that is
nearly D gives a good Ê by its derivative, without having been trained for it; heads that predict Ê
from the image are off by some 10 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from gibbsdiff.fourier import (
    REFERENCE,
    Shape,
    between_references,
    fft,
    from_opponent,
    half_plane,
    to_opponent,
)
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.streams import Streams

FEW = 4.0  # modes that a prediction counts for beside those that a probe measures in a band
BANDS = 20  # of log|k| in which a probe is averaged
MOST = 4.0  # factor by which a probe may correct a prediction
STEP = 0.01  # of a probe as strong as the noise: rounding and curvature both stay below 10⁻³ in Ê/N


def along(mean_of: Callable[[Tensor], Tensor], mean: Tensor, z: Tensor, probe: Tensor) -> Tensor:
    """∂D/∂z p by the difference of one more call to D(z), the `mean`:

        ∂D/∂z p = (D(z + δp) - D(z))/δ

    Two calls in all; forward differentiation costs three. What D's curvature adds is odd in p, and
    of zero mean over probes of random phases.
    """
    return (mean_of(z + STEP * probe) - mean) / STEP


def derivative(
    mean_of: Callable[[Tensor], Tensor],
    mean: Tensor,
    z: Tensor,
    noise: SpectralCovariance,
    seed: int = 0,
) -> Tensor:
    """∂D̂(k)/∂ẑ(k) in every mode, (B, C, H, W//2+1), of D with the `mean` at z.

    One random probe u is an unbiased estimate of the diagonal: ū · N^(-½) ∂D/∂z N^½ u, with
    |u| = 1 and random phases. With phases instead of white noise the part that is diagonal has no
    scatter. N^½ makes the matrix symmetric: modes with little noise would otherwise add their
    scatter to all others. The same probe at every call makes a score that uses it smooth in φ. With
    a level map, eq. (15), it is g⁻¹ ∂D/∂z g that has this diagonal.
    """
    u, root = phases(z, seed), noise.power.sqrt()
    g = 1.0 if noise.level_map is None else noise.level_map.g.to(z)
    probe = g * from_opponent(torch.fft.irfft2(u * root, s=noise.shape, norm="ortho"))
    moved = along(mean_of, mean, z, probe.expand_as(z))
    return (u.conj() * fft(to_opponent(moved / g))).real / root


def windowed_error(
    mean_of: Callable[[Tensor], Tensor],
    mean: Tensor,
    s: Tensor,
    y: Tensor,
    N: Tensor,
    window: Tensor | None,
    seed: int = 0,
    g: Tensor | None = None,
    h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""Ê/N of what a window v keeps of the whitened error, (B, C, H, W//2+1), eq. (14), and the
    trace of ∂D/∂y over the channels in every pixel, times v², (B, 1, H, W), eq. (15):

        Ê/N = ū · F( v F*[N^(-½) F( ∂D/∂y F*[N^½ F(v F*u)] )] ) / mean v²

    averaged in bands of log|k|. What a window makes of a prediction s is known without a probe, so
    that the probe has to find only by how much the error is another one.

    Arguments:
        mean_of: D of y, or of what is near to it.
        mean: D(y).
        s: A prediction of Ê/N without a window, as if the error were stationary.
        y: (B, C, H, W); spectra are those of its opponent colours.
        N: The noise's power, (B, 1 or C, H, W//2+1).
        window: v (B, 1, H, W); None is 1.
        g: The level map, (B, 1, H, W): the error is then that of x/g; None is 1.
        h: How much each mode counts in the trace, (B, 1 or C, H, W//2+1); None is 1.
    """
    shape, root = (y.shape[-2], y.shape[-1]), N.sqrt()
    u = phases(y, seed)
    v = None if window is None else window.to(y)

    def through_window(field: Tensor) -> Tensor:
        """From modes to modes, multiplied by v in between."""
        if v is None:
            return field
        return fft(v * torch.fft.irfft2(field, s=shape, norm="ortho"))

    tried = through_window(u.expand(len(y), -1, -1, -1))
    level = torch.ones_like(y[:, :1]) if g is None else g.to(y)
    probe = level * from_opponent(torch.fft.irfft2(root * tried, s=shape, norm="ortho"))
    moved = to_opponent(along(mean_of, mean, y, probe) / level)
    gone = fft(moved) / root - s * tried
    size = 1.0 if v is None else v.square().mean((-2, -1), keepdim=True)
    off = (u.conj() * through_window(gone)).real / size
    # By a probe as well, only what s does not say: N^(-½) u would make much of s N^½ u.
    counts = torch.ones_like(N) if h is None else h
    both = (counts * u / root, root * gone)
    white, left = (torch.fft.irfft2(q, s=shape, norm="ortho") for q in both)
    trace = (white * (left if v is None else v * left)).sum(1, keepdim=True)
    expected = half_plane(shape).mean((counts * s).flatten(2)).sum((1, 2)).view(-1, 1, 1, 1)
    trace = trace + (expected if v is None else expected * v.square())
    return through(s, window) + in_bands(off, shape), trace


def through(s: Tensor, window: Tensor | None) -> Tensor:
    """What a window leaves of a stationary spectrum s: its convolution with |v̂|²/Σ|v̂|²."""
    if window is None:
        return s
    shape = (window.shape[-2], window.shape[-1])
    kernel = torch.fft.irfft2(torch.fft.rfft2(window.to(s)).abs().square(), s=shape)
    kernel = kernel / kernel[..., :1, :1]
    return torch.fft.rfft2(torch.fft.irfft2(s, s=shape) * kernel).real


def in_bands(values: Tensor, shape: Shape) -> Tensor:
    """Means over bands of log|k|, diluted by `FEW` modes of zero, in every mode."""
    index, modes = _bands(shape)
    weight = half_plane(shape).weight.to(values)
    sums = values.new_zeros(*values.shape[:2], len(modes))
    sums.index_add_(2, index.to(values.device), values.flatten(2) * weight)
    return (sums / (modes.to(values) + FEW))[..., index].reshape(values.shape)


@lru_cache(maxsize=8)
def _bands(shape: Shape) -> tuple[Tensor, Tensor]:
    """The band of every mode, and how many modes each has."""
    modes = half_plane(shape)
    edges = torch.logspace(math.log10(REFERENCE[0]), math.log10(0.7), BANDS, dtype=torch.float64)
    index = torch.bucketize(modes.k, edges)
    return index, torch.zeros(BANDS + 1, dtype=torch.float64).index_add(0, index, modes.weight)


def phases(z: Tensor, seed: int) -> Tensor:
    """Random phases of a real field in the channels of z, (1, C, H, W//2+1)."""
    # A key of its own: a probe equal to the noise in z would not be independent of it.
    stream = Streams(seed, [(13, 13, 13)])
    white = fft(stream.normal(*z.shape[1:], dtype=z.dtype).to(z.device))
    return white / white.abs()


def own_factor(share: Tensor, J: Tensor, noise: SpectralCovariance) -> Tensor:
    """log c of one image around the reference frequencies, (B, C, 8): by what factor Ê = N J is
    more than a prediction of which Ê/N is the `share`.

    A band of few modes has the factor of a probe diluted by `FEW` modes of the prediction itself.
    Made on the CPU, in double precision.
    """
    hats = between_references(noise.shape) * half_plane(noise.shape).weight
    predicted, found = (part.flatten(2).cpu().double() @ hats.T for part in (share, J))
    prior = FEW * predicted / hats.sum(1).clamp(min=1e-9) + 1e-12
    return torch.log(((found + prior) / (predicted + prior)).clamp(1 / MOST, MOST))
