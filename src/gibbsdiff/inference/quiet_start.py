"""φ of a family by the quiet places of a picture: where a search starts, without a network call."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, radial_bins
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams

#: Of log power: how much more noise a camera's picture has on average than in flat places, where
#: noise reduction and JPEG take it away; mean and sd over cameras.
RAISED = (0.45, 0.2)
OCTAVE = 0.35  # sd of the change of log N from octave to octave at large scales
RISE = (0.8, 1 / 24)  # the same in chroma, which rises down to this |k|
FLAT_BELOW = 1 / 6
GONE = 1.5  # in log power, from |k| = 0.15 to 0.5 and above
UNEVEN = 0.14  # κ of chroma at 0.2 < |k| < 0.4: noise through a filter has up to 0.12, cameras more
STEPS = 60
CANDIDATES = 64


def processed(quiet: Quiet) -> bool:
    """Whether a camera has processed this noise: it is gone at small scales in luma and chroma,
    which no sensor does, but demosaicing and noise reduction do. A JPEG subsamples chroma alone.
    And it is uneven: noise reduction is not alike in all places, as a filter is.
    """
    if len(quiet.power) < 3:
        return False
    large, small = (quiet.k > 0.1) & (quiet.k < 0.2), quiet.k > 0.45
    if not bool(large.any() and small.any()):
        return False
    log_power = torch.log(quiet.power.clamp(min=1e-12))
    fall = log_power[:, large].mean(1) - log_power[:, small].mean(1)
    middle = (quiet.k > 0.2) & (quiet.k < 0.4)
    even = bool(middle.any()) and float(quiet.uneven[1:, middle].mean()) < UNEVEN
    return float(fall[0]) > GONE and float(fall[1:].mean()) > GONE and not even


def start_of(
    noise: StationaryNoise, quiet: Quiet, raised: tuple[float, float] | None = None
) -> Tensor:
    r"""φ (1, d) of the largest

        log p(P | N_φ e^-r) + log p(φ) - ½ (r - m)²/s²

    the Whittle likelihood of the quiet places' powers, the family's prior, and what flat places
    have less than the picture, r.

    Arguments:
        raised: m and s of r; None: flat places have as much noise as others.
    """
    if not noise.isotropic:
        raise InputError(f"{noise}: quiet places tell spectra that depend on |k| alone")
    statistic = quiet.statistic(noise.spectra)
    k, counts, P = statistic.k, statistic.modes, statistic.P
    mean, sd = raised or (0.0, 0.0)
    width, d = noise.high - noise.low, len(noise.names)
    curve = [noise.names.index(name) for name in noise.level_names if name in noise.names]

    def cost(u: Tensor) -> Tensor:
        """-log posterior at φ in the unit box (B, d) and r."""
        phi = noise.low + u[:, :d] * width
        log_n = noise.log_spectra(k, phi) - (mean + sd * u[:, d, None, None])
        fits = 0.5 * (counts * log_n + P * torch.exp(-log_n)).sum((-2, -1))
        total: Tensor = fits - noise.log_prior(phi) + 0.5 * u[:, d] ** 2
        total = total - log_flat(noise, quiet.shape, phi)
        if len(curve) == len(quiet.curve):
            off = (phi[:, curve] - quiet.curve) / quiet.level_sd
            total = total + 0.5 * off.square().sum(-1)
        return total

    def value_and_gradient(at: Any) -> tuple[float, Any]:
        u = torch.from_numpy(at)[None].requires_grad_()
        with torch.enable_grad():
            value = cost(u).sum()
            (gradient,) = torch.autograd.grad(value, u)
        return float(value.detach()), gradient[0].numpy()

    low = [1e-4] * d + [-4.0]
    high = [1 - 1e-4] * d + [4.0 if sd > 0 else 0.0]
    if sd == 0:
        low[-1] = 0.0
    best = None
    for start in _starts(noise, quiet, cost):
        found = minimize(
            value_and_gradient,
            start.numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": STEPS},
        )
        if best is None or found.fun < best.fun:
            best = found
    assert best is not None
    u = torch.from_numpy(np.asarray(best.x[:d]))
    return (noise.low + u * width)[None]


def log_flat(noise: StationaryNoise, shape: Shape, phi: Tensor) -> Tensor:
    """log p (B,), up to a constant, of N's changes over the octaves below |k| = 1/6: -½ Σ r²."""
    return -0.5 * octave_changes(noise, shape, phi).square().sum(-1)


def octave_changes(noise: StationaryNoise, shape: Shape, phi: Tensor) -> Tensor:
    """r (B, n): how much log N changes over each octave below |k| = 1/6, in units of an sd. Hardly
    any picture tells there, and what a steep shape says of small scales would be believed.

    None for noise of one or two parameters, which small scales determine.
    """
    if len(noise.shape_names) < 2:
        return torch.zeros(len(phi), 0, dtype=phi.dtype)
    octaves = math.floor(math.log2(FLAT_BELOW * max(shape)))
    at = FLAT_BELOW * 2.0 ** -torch.arange(max(octaves, 0) + 1, dtype=torch.float64)
    k = radial_bins(shape).k.with_frequencies(at, torch.zeros_like(at))
    log_n = noise.log_spectra(k, phi)[..., -len(at) :]
    sd = torch.full_like(log_n[0, :, 1:], OCTAVE)
    sd[1:, at[1:] > 0.99 * RISE[1]] = RISE[0]
    return (log_n.diff(dim=-1) / sd).flatten(1)


def _starts(noise: StationaryNoise, quiet: Quiet, cost: Any) -> list[Tensor]:
    """The two best of draws from the prior."""
    width = noise.high - noise.low
    phi = noise.draw_prior(Streams(0, [(i,) for i in range(CANDIDATES)]))
    u = ((phi - noise.low) / width).clamp(1e-3, 1 - 1e-3)
    u = torch.cat([u, torch.zeros_like(u[:, :1])], 1)
    with torch.no_grad():
        order = cost(u).nan_to_num(torch.inf).argsort()
    return [u[i] for i in order[:2]]
