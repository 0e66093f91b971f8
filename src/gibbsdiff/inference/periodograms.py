"""Periodograms of the patches of a picture, and their mean powers in bands of |k|."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from gibbsdiff.fourier import half_plane, to_opponent
from gibbsdiff.inference.quiet_law import independent_modes, window

MOST = 500  # patches of one size that are looked at
HIDDEN = 0.01  # the part of a patch that may be missing or saturated
LEAST = (1 / 255) ** 2 / 12 * 1e-2  # power below which nothing is told apart


@dataclass(frozen=True)
class Patches:
    """Periodograms (C, P, M) of patches of side n, their brightness (P,) and corner (P, 2)."""

    n: int
    powers: Tensor
    light: Tensor
    at: Tensor


def unclipped(y: Tensor) -> Tensor:
    """(H, W): no channel is at 0 or 1; everywhere, if the picture goes beyond these."""
    if float(y.min()) < 0 or float(y.max()) > 1:
        return torch.ones(y.shape[-2:], dtype=torch.bool)
    return ((y > 0) & (y < 1)).all(1)[0]


def patches(y: Tensor, usable: Tensor, n: int) -> Patches:
    """Those of side n that are usable, at most `MOST`."""

    def cut(image: Tensor) -> Tensor:
        return image.unfold(-2, n, n // 2).unfold(-2, n, n // 2).flatten(-4, -3)

    w = window(n)
    hidden = (cut((~usable).double()) * w.square()).mean((-2, -1))
    index = (hidden <= HIDDEN).nonzero()[:, 0]
    if len(index) == 0:
        none = y.new_zeros(0)
        return Patches(n, y.new_zeros(y.shape[1], 0, n * (n // 2 + 1)), none, index[:, None])
    if len(index) > MOST:
        index = index[torch.linspace(0, len(index) - 1, MOST).round().long()]
    cells = cut(to_opponent(y)[0])[:, index]
    light = (cut(y.mean(1)[0])[index] * w.square()).mean((-2, -1))
    P = torch.fft.rfft2(_level(cells) * w, norm="ortho").abs().square().flatten(-2)
    across = (y.shape[-1] - n) // (n // 2) + 1
    at = torch.stack([index // across, index % across], 1) * (n // 2)
    return Patches(n, P, light, at)


def _level(cells: Tensor) -> Tensor:
    """Cells (..., n, n) less their planes: shading is no noise, and would leak."""
    n = cells.shape[-1]
    w = window(n).square().flatten()
    t = torch.linspace(-1, 1, n, dtype=torch.float64)
    ones = torch.ones(n, n, dtype=torch.float64)
    basis = torch.stack([ones, ones * t, ones * t[:, None]]).flatten(1)
    basis = basis / (basis.square() * w).sum(1, keepdim=True).sqrt()
    flat = cells.flatten(-2)
    return (flat - (flat * w) @ basis.T @ basis).reshape(cells.shape)


def band_powers(
    found: Patches, bands: tuple[tuple[float, ...], ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean power of every patch in every band and channel relative to a first guess of the
    spectrum's shape, (bands · C, P), so that all modes count alike; the shape (bands · C, M); and
    how many modes are independent, (bands · C,).
    """
    modes = half_plane((found.n, found.n))
    e, shapes, nu = [], [], []
    for edges in bands:
        inside = (modes.k >= edges[0]) & (modes.k < edges[-1])
        w = modes.weight * inside
        full = on_full_plane(inside.double(), found.n)
        for P in found.powers:
            raw = P @ w / w.sum()
            quiet = raw.argsort()[: max(8, len(raw) // 4)]
            guess = P[quiet].mean(0)
            smooth = torch.ones_like(guess)
            for low, high in pairwise(edges):
                here = (modes.k >= low) & (modes.k < high)
                mean = (guess * modes.weight)[here].sum() / modes.weight[here].sum()
                smooth[here] = mean.clamp(min=LEAST)
            smooth = smooth / (smooth * w).sum() * w.sum()
            e.append(((P / smooth) @ w / w.sum()).clamp(min=LEAST))
            shapes.append(smooth)
            nu.append(independent_modes(full))
    return torch.stack(e), torch.stack(shapes), torch.tensor(nu, dtype=torch.float64)


def on_full_plane(half: Tensor, n: int) -> Tensor:
    """A weight on the half-plane, (n · (n//2+1),), of a function of |k|, on the full plane."""
    columns = half.reshape(n, -1)
    k = torch.fft.fftfreq(n, dtype=torch.float64)
    at = (k.abs() * n).round().long()
    return columns[:, at]


def inside_of(calm: Tensor, small: Patches, large: Patches) -> Tensor:
    """The mean (C, P) over the small patches inside of each large one."""
    off = small.at[None] - large.at[:, None]
    within = ((off >= 0) & (off <= large.n - small.n)).all(-1).double()
    mean: Tensor = (calm @ within.T) / within.sum(1).clamp(min=1)
    return mean
