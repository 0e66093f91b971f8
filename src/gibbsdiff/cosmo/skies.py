"""The CMB as a patch of sky shows it: flat and periodic, cut out of a larger sky, or curved."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.noise.cmb import ARCMIN, CMBNoise
from gibbsdiff.streams import Streams

#: flat: a periodic patch, as the likelihood has it. cut: a part of a flat sky three times as wide.
#: curved: a plate carrée around the equator of a sphere.
Sky = Literal["flat", "cut", "curved"]
SKIES: tuple[Sky, ...] = get_args(Sky)

LARGER = 3
FULL = 360 * 60  # arcminutes around the equator


def draw_cmb(noise: CMBNoise, shape: Shape, phi: Tensor, rng: Streams, sky: Sky = "flat") -> Tensor:
    """CMB at φ (B, d) on a patch of the sky of one kind: (B, 1, H, W), float32. All kinds have the
    same C_ℓ in the same unit, √V_fid of the patch.
    """
    if sky == "flat":
        return noise.draw(shape, phi, rng, dtype=torch.float32)
    if sky == "curved":
        return curved_patch(noise, shape, phi, rng).float()
    larger = (LARGER * shape[0], LARGER * shape[1])
    if noise.white:
        raise InputError("sky cut: the CMB alone is drawn, without white noise")
    whole = noise.draw(larger, phi, rng, dtype=torch.float32)[..., : shape[0], : shape[1]]
    return whole * math.sqrt(noise.fiducial_variance(larger) / noise.fiducial_variance(shape))


def curved_patch(
    noise: CMBNoise, shape: Shape, phi: Tensor, rng: Streams, aliased: bool = False
) -> Tensor:
    r"""σ T/√V_fid at the pixels of a plate carrée around the equator, (B, 1, H, W):

        T(θ, ϕ) = Σ_ℓm a_ℓm Y_ℓm(θ, ϕ),   E|a_ℓm|² = C_ℓ b_ℓ²,   2 ≤ ℓ ≤ the emulator's last.

    Pixels are Δ apart in latitude and in longitude: away from the equator they are narrower. Values
    are those at pixel centres, without interpolation. A grid of pixels Δ holds waves up to π/Δ
    along each axis, and what is finer would be taken for coarser; so a_ℓm with m or √(ℓ² - m²),
    the wave numbers along and across the equator, above π/Δ are left out, as in a flat periodic
    patch. `aliased` keeps them.
    """
    if noise.white:
        raise InputError("sky curved: the CMB alone is drawn, without white noise")
    around = FULL / noise.pixel
    height, width = shape
    if abs(around - round(around)) > 1e-6 or width > around or 2 * height > around:
        raise InputError(
            f"sky curved: {height}×{width} pixels of {noise.pixel:g} arcmin do not tile a sphere"
        )
    lmax, nyquist = int(noise.emulator.ell[-1]), math.pi / (noise.pixel * ARCMIN)
    if not aliased:
        lmax = min(lmax, math.floor(math.sqrt(2) * nyquist))
    ell, m = _multipoles(lmax)
    kept = ell >= 2
    if not aliased:
        kept &= (m <= nyquist) & (ell**2 - m**2 <= nyquist**2)
    # E|a|² = C: real and imaginary part have half of it each, and for m = 0 there is no such part.
    half = torch.from_numpy(np.where(m == 0, 1.0, math.sqrt(0.5)) * kept)
    normal = rng.normal(2, len(ell))
    normal[:, 1, : lmax + 1] = 0
    alm = torch.complex(normal[:, 0], normal[:, 1]) * half
    sd = _sd_of_multipoles(noise, shape, phi, lmax)[:, torch.from_numpy(ell)]
    maps = [_synthesis(row, shape, noise.pixel * ARCMIN, lmax) for row in (alm * sd).numpy()]
    return torch.from_numpy(np.stack(maps))[:, None]


def _sd_of_multipoles(noise: CMBNoise, shape: Shape, phi: Tensor, lmax: int) -> Tensor:
    """σ √(C_ℓ b_ℓ²/V_fid) for ℓ = 0..lmax: (B, lmax + 1)."""
    ell = torch.arange(lmax + 1, dtype=torch.float64)
    log_c = noise.emulator.log_spectrum(phi[:, 1:], ell) - ell * (ell + 1) * noise.beam_width**2
    return phi[:, :1] * torch.exp(0.5 * log_c) / math.sqrt(noise.fiducial_variance(shape))


def _multipoles(lmax: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """ℓ and m of each a_ℓm, m = 0..lmax one after the other."""
    m = np.repeat(np.arange(lmax + 1), np.arange(lmax + 1, 0, -1))
    first = np.cumsum(np.r_[0, np.arange(lmax + 1, 1, -1)])
    return np.arange(len(m)) - first[m] + m, m


def _synthesis(
    alm: NDArray[np.complex128], shape: Shape, pixel: float, lmax: int
) -> NDArray[np.float64]:
    """Σ a_ℓm Y_ℓm on H rings of latitude, of which W pixels are kept."""
    try:
        import ducc0
    except ImportError:
        raise InputError("ducc0 is not installed: pip install 'gibbsdiff[sky]'") from None
    height, width = shape
    around = round(2 * math.pi / pixel)
    latitude = (np.arange(height) - (height - 1) / 2) * pixel
    rings = ducc0.sht.synthesis(
        alm=alm[None],
        theta=math.pi / 2 - latitude,
        lmax=lmax,
        spin=0,
        nphi=np.full(height, around, dtype=np.uint64),
        phi0=np.full(height, -(width - 1) / 2 * pixel),
        ringstart=np.arange(height, dtype=np.uint64) * around,
        nthreads=1,
    )
    return rings.reshape(height, around)[:, :width].copy()
