"""A periodic map at mixed scales: its power in rings of |k|, and its local power in bands."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, fft, half_plane, radial_bins

RINGS = 64  # at most
POOL = 4  # pixels of a side over which local power is averaged
#: Centres of the bands, cycles per pixel: half an octave apart.
BANDS = tuple(0.5 * 2 ** (-j / 2) for j in range(9))
WIDTH, BLUR = 0.3, 0.35  # of a band, in octaves; of the window on its power, in its own |k|
FAINT = 1e-4  # local power, relative to the mean, below which all is the same


class Band(NamedTuple):
    """A band-pass on a grid `coarser` times as coarse, and the window on its power."""

    coarser: int
    gain: Tensor
    window: Tensor


def log_spectrum(y: Tensor) -> Tensor:
    """log of the mean power in rings of |k|, without k = 0: (B, 1, H, W) -> (B, rings)."""
    rings = radial_bins((y.shape[-2], y.shape[-1]), most=RINGS)
    P = rings.sum(fft(y.double())[:, 0].abs().square()) / rings.k.weight
    return torch.log(P[:, 1:].clamp(min=1e-30)).float()


def local_power(y: Tensor, centre: Tensor) -> Tensor:
    """log of the local power of y in bands, every ring of y divided by exp(centre): a window of
    each band's own size, then means over 4×4 pixels; (B, 1, H, W) -> (B, bands, H/4, W/4).

    Flips, transposes and shifts by 4 pixels of y do to it what they do to y.
    """
    shape = (y.shape[-2], y.shape[-1])
    rings = radial_bins(shape, most=RINGS)
    whiten = torch.cat([centre.new_zeros(1), torch.exp(-0.5 * centre)])[rings.index]
    white = fft(y)[:, 0] * whiten.reshape(shape[0], -1)
    out = []
    for band in _bands(shape):
        size = (shape[0] // band.coarser, shape[1] // band.coarser)
        small = torch.cat([white[:, : size[0] // 2], white[:, -(size[0] // 2) :]], 1)
        passed = torch.fft.irfft2(small[..., : size[1] // 2 + 1] * band.gain, s=size, norm="ortho")
        P = avg_pool2d(passed.square()[:, None], POOL // band.coarser)[:, 0]
        smooth = torch.fft.irfft2(torch.fft.rfft2(P) * band.window, s=P.shape[-2:])
        out.append(torch.log(smooth.clamp(min=0) + FAINT))
    return torch.stack(out, 1)


@lru_cache(maxsize=8)
def _bands(shape: Shape) -> tuple[Band, ...]:
    if shape[0] % (2 * POOL) or shape[1] % (2 * POOL):
        raise InputError(f"maps of {shape[0]}×{shape[1]}: sides must be multiples of {2 * POOL}")
    return tuple(_band(shape, centre) for centre in BANDS)


def _band(shape: Shape, centre: float) -> Band:
    """Gaussian in log|k|; unit white noise has unit mean power in it.

    A coarser grid has its pixels at the centres of squares of fine ones, so that flips of the
    one are flips of the other; its highest modes, which have no partner, are left out.
    """
    coarser = min(POOL, 2 ** max(0, math.floor(math.log2(0.25 / centre))))
    size = (shape[0] // coarser, shape[1] // coarser)
    modes = half_plane(size)
    k = modes.k.clamp(min=1e-12) / coarser
    gain = torch.exp(-0.5 * (torch.log2(k / centre) / WIDTH).square())
    if coarser > 1:
        gain = gain * ((modes.kx.abs() < 0.5) & (modes.ky.abs() < 0.5))
    gain = gain / modes.mean(gain.square()).sqrt()
    shift = math.pi * (modes.kx + modes.ky) * (coarser - 1) / coarser
    complex_gain = torch.polar(gain, shift).to(torch.complex64).reshape(size[0], -1)
    rough = (shape[0] // POOL, shape[1] // POOL)
    window = torch.exp(-0.5 * (half_plane(rough).k / POOL / (BLUR * centre)).square())
    return Band(coarser, complex_gain, window.float().reshape(rough[0], -1))
