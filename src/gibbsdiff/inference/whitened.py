r"""What is left of a picture without its signal, whitened as the noise model says it should be.

At the φ of a posterior y - D has the power N - Ê, eq. (11), so that

    z = F* (1 - s)^(-½) F[ m F* N^(-½) F( v (y-D)/g ) ],        s = Ê/N

is white and of unit variance wherever the model of the noise holds: all checks look at z. v is the
window of the observation, and m weights places by how sure the denoiser is, eq. (14), since what
is wrong with a network sits where it is unsure. Modes with s ≥ 0.7 are left out: there y - D holds
next to nothing of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.diffusion.denoiser import Denoiser, NoiseError
from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.diffusion.tweedie import along, in_bands, phases, through
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import (
    REFERENCE,
    Shape,
    fft,
    filtered,
    from_opponent,
    half_plane,
    to_opponent,
)
from gibbsdiff.inference.observation import ObservationModel, stationary
from gibbsdiff.inference.weights import independent_share, smoothed
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.streams import Key, Streams

MOST = 0.7  # of Ê/N in a mode that tells of the noise
SURENESS = 4.0  # exponent of 1 - e/N̄ in m
SMOOTHING = 3.0  # pixels (sd) over which e is smoothed
BLUR = 3.0  # pixels (sd) over which D is smoothed to be a brightness
OUT, ALONE = 6.0, 2.0  # sd, and spreads of its neighbours, that an impulse is away from them
UNKNOWN = 0.3  # sd of ρ, eq. (12), of a network that nobody has measured


class Whitened(NamedTuple):
    """z (B, C, H, W) of pictures with one φ, in opponent channels, and what is expected of it.

    `expected` is its variance in every pixel and `modes` its power in every mode, both by one
    probe: to be averaged over many. `window` is m v; `share` Ê/N and `kept` are those of modes,
    (B, C, H, W//2+1); `counted` (B,) of the modes are independent; `light` (B, 1, H, W) is the
    brightness. `sticking_out` is of y itself. `scatter` is Cov ρ of eq. (12), None for a denoiser
    that makes no error.
    """

    z: Tensor
    expected: Tensor
    modes: Tensor
    window: Tensor
    share: Tensor
    kept: Tensor
    counted: Tensor
    light: Tensor
    sticking_out: Tensor
    scatter: Tensor | None = None


class Call(NamedTuple):
    """What one call says of one picture: D, the heads' Ê/N and e(p), and ∂D/∂y g b with b of power
    N, over g; None without a probe. g, b and N are those that it was made with.
    """

    mean: Tensor
    s: Tensor
    e: Tensor
    N: Tensor
    g: Tensor
    b: Tensor
    moved: Tensor | None


@torch.no_grad()
def whitened(
    observation: ObservationModel,
    denoiser: Denoiser,
    y: Tensor,
    phi: Tensor,
    *,
    seed: int = 0,
    keys: Sequence[Key] | None = None,
) -> Whitened:
    """z of y (B, C, H, W) at φ (1, d), by one call, with its derivative unless it is exact."""
    own = [(i,) for i in range(len(y))] if keys is None else list(keys)
    noise = stationary(observation.noise)
    known = denoiser.noise_error(camera=noise.is_camera)
    parts = []
    for b, one in enumerate(y.split(1)):
        rows = torch.tensor([b])
        call = _call(observation, denoiser, one, phi, rows, own[b], seed)
        v = observation.whole_window(rows)
        parts.append(
            _one(known, one, call, v if v is not None else torch.ones_like(call.e[:1, :1]))
        )
    joined = Whitened(*(torch.cat(column) for column in zip(*(p[:-1] for p in parts), strict=True)))
    return joined._replace(scatter=None if denoiser.exact else _scatter(known, y.shape[1]))


def _call(
    observation: ObservationModel,
    denoiser: Denoiser,
    y: Tensor,
    phi: Tensor,
    rows: Tensor,
    key: Key,
    seed: int,
) -> Call:
    covariance = observation.covariance(phi, y.dtype, rows)
    assert isinstance(covariance, SpectralCovariance)
    N = observation.take_power(covariance.power).expand(-1, y.shape[1], -1, -1).double()
    level = covariance.level_map
    g = torch.ones_like(y[:, :1]) if level is None else level.g.to(y).expand_as(y[:, :1])

    def show(at: Tensor) -> Tensor:
        return observation.show(at, covariance, Streams(seed, [(*key, 1)]))

    shown, differs = show(y), denoiser.differentiable and not denoiser.exact
    denoiser = denoiser.with_precision("float32") if differs else denoiser
    mean, error = denoiser(shown, covariance)
    parts = [] if error is None else [error.spectrum(), error.pixel_variance()]
    taken = [
        observation.take_power(p.expand(-1, shown.shape[1], -1, -1)) for p in parts if p is not None
    ]
    if len(taken) < 2:
        raise InputError("the check needs a denoiser whose error has a spectrum and a map")
    mean, (E, e) = observation.take(mean), taken
    shape = (y.shape[-2], y.shape[-1])
    u = phases(y, seed).to(torch.complex128)
    b = torch.fft.irfft2(u * N.sqrt(), s=shape, norm="ortho")
    moved = None
    if differs:
        held = covariance.held(shown)
        there = along(
            lambda at: observation.take(denoiser(show(at), held).mean),
            mean,
            y,
            (g * from_opponent(b)).to(y),
        )
        moved = to_opponent((there / g).double())
    return Call(mean, E.double() / N, e.double(), N, g.double(), b, moved)


def _one(known: NoiseError | None, y: Tensor, call: Call, v: Tensor) -> Whitened:
    shape, root, half = (y.shape[-2], y.shape[-1]), call.N.rsqrt(), half_plane(y.shape[-2:])
    m = _sureness(call, shape)
    window = m * v

    def left_of(field: Tensor) -> Tensor:
        return m * filtered(v * field, root)

    residual = to_opponent((y - call.mean).double() / call.g)
    mean = (v * residual).sum((-2, -1), keepdim=True) / v.sum((-2, -1), keepdim=True)
    share = call.s if bool((window == 1).all()) else through(call.s, window)
    in_modes = share
    if call.moved is not None:
        error, tried = left_of(call.moved), left_of(call.b)
        size = window.square().mean((-2, -1), keepdim=True)
        # What the probe finds beyond the heads, averaged over bands and in every single mode.
        off = (fft(tried).conj() * fft(error - left_of(filtered(call.b, call.s)))).real / size
        share, in_modes = share + in_bands(off, shape), share + off
        share = share - _bias(known, share, shape)
    kept = (share < MOST) & (half.k.reshape(shape[0], -1) > 0)
    gain = kept * (1 - share.clamp(0, MOST)).rsqrt()
    expected = window.square() * half.mean(kept.double().flatten(2))[..., None]
    if call.moved is not None:
        noise = window.square() * half.mean(gain.square().flatten(2))[..., None]
        expected = noise - filtered(error, gain) * filtered(tried, gain)
    return Whitened(
        filtered(left_of(residual - mean), gain),
        expected,
        (1 - in_modes) * gain.square(),
        window,
        share,
        kept,
        independent_share(window),
        smoothed(call.mean.mean(1, keepdim=True).double(), BLUR),
        sticking_out(y.double() / call.g, call.N),
    )


def _sureness(call: Call, shape: Shape) -> Tensor:
    """m (1, 1, H, W): (1 - e/N̄)^a, its largest value 1; 1 for a denoiser that is exact."""
    if call.moved is None:
        return torch.ones_like(call.e[:, :1])
    variance = half_plane(shape).mean(call.N.flatten(2)).mean(1)[..., None, None]
    sure = 1 - smoothed(call.e.mean(1, keepdim=True), SMOOTHING) / variance
    sure = sure.clamp(0.02, 1)
    return (sure / sure.amax()).pow(SURENESS)


def _bias(known: NoiseError | None, share: Tensor, shape: Shape) -> Tensor:
    """What N̂/N is off by on average, eq. (12), as in the score."""
    if known is None:
        return torch.zeros_like(share)
    rho = known.bias.reshape(-1, len(REFERENCE))[: share.shape[1]].double()
    return in_every_mode(rho, shape) * overlap(share, torch.ones_like(share))


def sticking_out(y: Tensor, N: Tensor) -> Tensor:
    """How far pixels of y (B, C, H, W) stand out of their eight neighbours, (B, 1, H, W), in the
    mean of the channels: 1 is `OUT` sd of the noise and `ALONE` times what the neighbours differ
    by among each other. A denoiser for Gaussian noise takes a pixel far enough out for a thing.
    """
    shape, channels = (y.shape[-2], y.shape[-1]), y.shape[1]
    light = y.mean(1, keepdim=True)
    around = unfold(pad(light, (1, 1, 1, 1), mode="reflect"), 3)
    around = torch.cat([around[:, :4], around[:, 5:]], 1).unflatten(-1, shape)
    out = (light - around.median(1, keepdim=True).values).abs()
    spread = around.amax(1, keepdim=True) - around.amin(1, keepdim=True)
    k = half_plane(shape)
    ring = (1 + 2 * torch.cos(2 * math.pi * k.kx)) * (1 + 2 * torch.cos(2 * math.pi * k.ky)) - 1
    fine = (1 - ring / 8).square() * N[:, :1].flatten(2) / channels
    # Where the noise is believed too weak, it must not be taken for impulses.
    own = 1.4826 * out.flatten(1).median(1).values.view(-1, 1, 1, 1)
    sd = torch.maximum(k.mean(fine).sqrt()[..., None], own)
    return torch.minimum(out / (OUT * sd), out / (ALONE * spread.clamp(min=1e-12)))


def _scatter(known: NoiseError | None, channels: int) -> Tensor:
    """Cov ρ (8 C, 8 C) in the channels of y; a grey picture is its luminance alone."""
    size = channels * len(REFERENCE)
    if known is None:
        return UNKNOWN**2 * torch.eye(size, dtype=torch.float64)
    return known.scatter[:size, :size].double()
