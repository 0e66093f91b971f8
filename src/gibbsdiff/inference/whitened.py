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
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad, unfold

from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.diffusion.denoiser import Denoiser, NoiseError
from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.diffusion.tweedie import in_bands, phases, through
from gibbsdiff.fourier import REFERENCE, fft, filtered, from_opponent, half_plane, to_opponent
from gibbsdiff.inference.observation import ObservationModel
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

    `expected` is its variance in every pixel, by one probe: to be averaged over many. `window` is
    m v; `share` Ê/N and `kept` are those of modes, (B, C, H, W//2+1); `counted` (B,) of the modes
    are independent; `light` (B, 1, H, W) is the brightness. `axis` is the
    power that is expected in single modes, by the probe: to be averaged. `sticking_out` is of y
    itself. `scatter` is Cov ρ of eq. (12), None
    for a denoiser that makes no error.
    """

    z: Tensor
    expected: Tensor
    window: Tensor
    share: Tensor
    kept: Tensor
    counted: Tensor
    light: Tensor
    axis: Tensor
    sticking_out: Tensor
    scatter: Tensor | None


@torch.no_grad()
def whitened(
    observation: ObservationModel,
    denoiser: Denoiser,
    y: Tensor,
    phi: Tensor,
    *,
    seed: int = 0,
    keys: Sequence[Key] | None = None,
    sureness: float = SURENESS,
) -> Whitened:
    """z of y (B, C, H, W) at φ (1, d), by one call, with its derivative unless it is exact."""
    own = [(i,) for i in range(len(y))] if keys is None else list(keys)
    parts = []
    for b in range(len(y)):
        rows = torch.tensor([b])
        parts.append(_one(observation, denoiser, y[b : b + 1], phi, rows, own[b], seed, sureness))
    columns = list(zip(*parts, strict=True))
    return Whitened(*(torch.cat(column) for column in columns[:-1]), scatter=columns[-1][0])


def _one(
    observation: ObservationModel,
    denoiser: Denoiser,
    y: Tensor,
    phi: Tensor,
    rows: Tensor,
    key: Key,
    seed: int,
    sureness: float,
) -> tuple[Any, ...]:
    covariance = observation.covariance(phi, y.dtype, rows)
    assert isinstance(covariance, SpectralCovariance)
    N = observation.take_power(covariance.power).expand(-1, y.shape[1], -1, -1).double()
    level = covariance.level_map
    g = torch.ones_like(y[:, :1]) if level is None else level.g.to(y).expand_as(y[:, :1])
    v = observation.whole_window(rows) if observation.window is not None else None
    v = torch.ones_like(y[:, :1], dtype=torch.float64) if v is None else v

    def moments(at: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        rng = Streams(seed, [(*key, 1)])
        shown = observation.show(at, covariance, rng)
        mean, error = denoiser(shown, covariance)
        assert error is not None
        E, e = error.spectrum(), error.pixel_variance()
        assert E is not None
        assert e is not None
        E, e = (p.expand(-1, shown.shape[1], *p.shape[2:]) for p in (E, e))
        taken = observation.take_power(E), observation.take_power(e)
        return observation.take(mean), taken

    probed = denoiser.differentiable and not denoiser.exact
    shape = (y.shape[-2], y.shape[-1])
    u = phases(y, seed).to(torch.complex128)
    b0 = torch.fft.irfft2(u, s=shape, norm="ortho")
    if probed:
        probe = g * from_opponent(filtered(b0, N.sqrt())).to(y)
        found: Any = torch.func.jvp(moments, (y,), (probe.contiguous(),), has_aux=True)
        mean, moved, (E, e) = found
        moved = to_opponent((moved / g).double())
    else:
        mean, (E, e) = moments(y)
        moved = torch.zeros_like(b0)
    E, e = E.double(), e.double()
    variance = half_plane(shape).mean(N.flatten(2)).mean(1)[..., None, None]
    sure = 1 - smoothed(e.mean(1, keepdim=True), SMOOTHING).to(e) / variance
    sure = sure.clamp(0.02, 1)
    sure = sure / sure.amax()
    m = sure.pow(sureness) if probed else torch.ones_like(sure)
    window = m * v
    root, size = N.rsqrt(), window.square().mean((-2, -1), keepdim=True)
    residual = to_opponent((y - mean).double() / g.double())
    residual = residual - (v * residual).sum((-2, -1), keepdim=True) / v.sum((-2, -1), keepdim=True)
    left = m * filtered(v * residual, root)
    s = E / N
    share = through(s, window) if float(window.min()) < 1 else s
    own = share
    zero = half_plane(shape).k.reshape(shape[0], -1) == 0
    if probed:
        error, tried = m * filtered(v * moved, root), m * filtered(v * filtered(b0, N.sqrt()), root)
        guess = m * filtered(v * filtered(b0, s * N.sqrt()), root)
        off = (fft(tried).conj() * fft(error - guess)).real / size
        own = share + off  # in every mode, with the probe's whole scatter
        share = share + in_bands(off, shape)
    known = denoiser.noise_error()
    if known is not None and probed:
        rho = known.bias.reshape(-1, len(REFERENCE))[: y.shape[1]].double()
        share = share - in_every_mode(rho, shape) * overlap(share, torch.ones_like(share))
    kept = (share < MOST) & ~zero
    gain = kept * (1 - share.clamp(0, MOST)).rsqrt()
    z = filtered(left, gain)
    everywhere = half_plane(shape).mean(gain.square().flatten(2))[..., None]
    inside = half_plane(shape).mean(kept.double().flatten(2))[..., None]
    if probed:
        expected = window.square() * everywhere - filtered(error, gain) * filtered(tried, gain)
    else:
        expected = window.square() * inside
    axis = (1 - own) * gain.square()
    light = smoothed(mean.mean(1, keepdim=True).double(), BLUR)
    return (
        z,
        expected.expand_as(z),
        window,
        share,
        kept,
        independent_share(window),
        light,
        axis,
        sticking_out(y.double() / g.double(), N),
        _scatter(denoiser, y.shape[1], known),
    )


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


def _scatter(denoiser: Denoiser, channels: int, known: NoiseError | None) -> Tensor | None:
    """Cov ρ (8 C, 8 C) in the channels of y; a grey picture is its luminance alone."""
    size = channels * len(REFERENCE)
    if denoiser.exact:
        return None
    if known is None:
        return UNKNOWN**2 * torch.eye(size, dtype=torch.float64)
    return known.scatter[:size, :size].double()
