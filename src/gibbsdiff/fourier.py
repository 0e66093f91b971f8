r"""Modes of an H×W periodic grid: all that the package needs of Fourier space.

Transforms are orthonormal and live on the half-plane of ``rfft2``; k is in cycles
per pixel. A mode's weight w is the number of modes of the full plane it stands for,
so that Σ w = H·W and Σ_k w |x̂|² = Σ x² (Parseval).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

Shape = tuple[int, int]

#: |k| at which the noise is described to a network, eq. (5), cycles per pixel.
REFERENCE = (1 / 192, 1 / 96, 1 / 48, 1 / 24, 1 / 12, 1 / 6, 1 / 3, 0.6)

#: Orthonormal opponent colours, rows (1,1,1)/√3, (1,0,-1)/√2, (1,-2,1)/√6.
OPPONENT = torch.tensor(
    [
        [1 / math.sqrt(3)] * 3,
        [1 / math.sqrt(2), 0.0, -1 / math.sqrt(2)],
        [1 / math.sqrt(6), -2 / math.sqrt(6), 1 / math.sqrt(6)],
    ],
    dtype=torch.float64,
)


@dataclass(frozen=True)
class Wavevectors:
    """M modes or groups of modes: kx, ky and weight are (M,), float64.

    A weight of zero marks a frequency at which a spectrum is evaluated, but that is no mode of
    the grid.
    """

    kx: Tensor
    ky: Tensor
    weight: Tensor
    shape: Shape

    @cached_property
    def k(self) -> Tensor:
        """|k|, cycles per pixel."""
        return torch.hypot(self.kx, self.ky)

    @cached_property
    def log_k(self) -> Tensor:
        """log|k|, with |k| := 1 at k = 0."""
        return torch.log(torch.where(self.k > 0, self.k, 1.0))

    @cached_property
    def fraction(self) -> Tensor:
        """Share of the grid's H·W modes: weight/Σ weight."""
        return self.weight / self.weight.sum()

    @cached_property
    def without_zero(self) -> Wavevectors:
        """The same with k = 0 moved to |k| = 0.5/max(H, W), where log|k| is finite."""
        zero = (self.kx == 0) & (self.ky == 0)
        kx = torch.where(zero, 0.5 / max(self.shape), self.kx)
        return Wavevectors(kx, self.ky, self.weight, self.shape)

    def mean(self, values: Tensor) -> Tensor:
        """Average of (..., M) over all H·W modes of the grid."""
        return (values * self.fraction.to(values.device)).sum(-1, keepdim=True)

    def with_frequencies(self, kx: Tensor, ky: Tensor) -> Wavevectors:
        """These modes followed by further frequencies of weight zero."""
        return Wavevectors(
            torch.cat([self.kx, kx]),
            torch.cat([self.ky, ky]),
            torch.cat([self.weight, torch.zeros_like(kx)]),
            self.shape,
        )


@dataclass(frozen=True)
class Grouping:
    """A partition of the half-plane: `index` (H·(W//2+1),) names each mode's group."""

    k: Wavevectors
    index: Tensor

    def sum(self, values: Tensor) -> Tensor:
        """Σ w · values over each group: (..., H, W//2+1) -> (..., groups)."""
        weighted = values.flatten(-2).double() * half_plane(self.k.shape).weight
        out = weighted.new_zeros(*weighted.shape[:-1], len(self.k.weight))
        return out.index_add(-1, self.index, weighted)


@lru_cache(maxsize=32)
def half_plane(shape: Shape) -> Wavevectors:
    """All modes of rfft2, flattened: M = H·(W//2+1)."""
    height, width = shape
    ky = torch.fft.fftfreq(height, dtype=torch.float64)
    kx = torch.fft.rfftfreq(width, dtype=torch.float64)
    weight = torch.full_like(kx, 2.0)
    weight[0] = 1.0
    if width % 2 == 0:
        weight[-1] = 1.0
    grid_y, grid_x = torch.meshgrid(ky, kx, indexing="ij")
    return Wavevectors(grid_x.flatten(), grid_y.flatten(), weight.repeat(height), shape)


@lru_cache(maxsize=32)
def radial_bins(shape: Shape, edges: tuple[float, ...] = (), most: int = 512) -> Grouping:
    """At most `most` bins, equal in |k|^⅔; k = 0 alone; no bin straddles an edge.

    A bin's frequency is the mean of log|k| over its modes, so a smooth log-spectrum errs at
    second order in the bin's width in log|k|. As the number of modes grows like |k|², widths
    that fall like |k|^-⅔ lose the least information: at 256² a quarter of what bins equal in
    log|k| lose (variance of log|k| within bins 2.2e-6 against 8.2e-6).
    """
    modes = half_plane(shape)
    k = modes.k
    count = max(1, most - 1 - len(edges))
    place = (k / k.max().clamp(min=1e-12)) ** (2 / 3) * count
    bins = torch.where(k > 0, place.floor().clamp(max=count - 1).long() + 1, 0)
    keys = bins * (len(edges) + 1) + band_of(k, edges) * (k > 0)
    return _grouped(modes, torch.unique(keys, return_inverse=True)[1])


@lru_cache(maxsize=32)
def exact_groups(shape: Shape) -> Grouping:
    """One group per distinct |k|, by the integer key (n_y W)² + (n_x H)²: no rounding."""
    height, width = shape
    modes = half_plane(shape)
    ny = torch.round(modes.ky * height).long() * width
    nx = torch.round(modes.kx * width).long() * height
    _, index = torch.unique(ny**2 + nx**2, return_inverse=True)
    return _grouped(modes, index)


@lru_cache(maxsize=32)
def every_mode(shape: Shape) -> Grouping:
    """No grouping at all: for spectra that depend on direction."""
    modes = half_plane(shape)
    return Grouping(modes, torch.arange(len(modes.weight)))


def _grouped(modes: Wavevectors, index: Tensor) -> Grouping:
    groups = int(index.max()) + 1
    zeros = torch.zeros(groups, dtype=torch.float64)
    weight = zeros.index_add(0, index, modes.weight)
    mean_log = zeros.index_add(0, index, modes.weight * modes.log_k) / weight
    radius = zeros.index_add(0, index, modes.weight * modes.k)
    k = torch.where(radius > 0, torch.exp(mean_log), 0.0)
    return Grouping(Wavevectors(k, torch.zeros_like(k), weight, modes.shape), index)


def band_of(k: Tensor, edges: tuple[float, ...]) -> Tensor:
    """Index of the band [edges[j-1], edges[j]) that holds |k|; a |k| on an edge is above it.

    The nudge keeps a frequency that equals an edge on one side of it after rounding.
    """
    return torch.bucketize(k * (1 + 1e-9), torch.tensor(edges, dtype=torch.float64), right=True)


@lru_cache(maxsize=8)
def between_references(shape: Shape) -> Tensor:
    """(8, M) weights that interpolate linearly in log|k| between the reference frequencies.

    Beyond the ends, and at k = 0, the nearest reference holds.
    """
    knots = torch.log(torch.tensor(REFERENCE, dtype=torch.float64))
    log_k = torch.log(half_plane(shape).k.clamp(min=REFERENCE[0])).clamp(knots[0], knots[-1])
    upper = torch.searchsorted(knots, log_k).clamp(1, len(knots) - 1)
    part = (log_k - knots[upper - 1]) / (knots[upper] - knots[upper - 1])
    weights = torch.zeros(len(knots), len(log_k), dtype=torch.float64)
    weights.scatter_(0, (upper - 1)[None], (1 - part)[None])
    return weights.scatter_(0, upper[None], part[None])


def fft(x: Tensor) -> Tensor:
    """x̂, orthonormal: (..., H, W) -> (..., H, W//2+1)."""
    return torch.fft.rfft2(x, norm="ortho")


def power(x: Tensor) -> Tensor:
    """|x̂|² in every mode."""
    return fft(x).abs().square()


def filtered(x: Tensor, gain: Tensor) -> Tensor:
    """gain ∗ x: multiply every mode by a real gain, broadcast over channels."""
    shape = (x.shape[-2], x.shape[-1])
    return torch.fft.irfft2(torch.fft.rfft2(x) * gain, s=shape)


def even(values: Tensor, width: int) -> Tensor:
    """Make (..., H, W//2+1) fit a real field: v(k) = v(-k) in columns kx = 0 and W/2.

    Both members of such a pair are stored; elsewhere the partner is implied.
    """
    out = values.clone()
    columns = [0, -1] if width % 2 == 0 else [0]
    for column in columns:
        mirrored = values[..., column].flip(-1).roll(1, -1)
        out[..., column] = (values[..., column] + mirrored) / 2
    return out


def turned(x: Tensor, which: Tensor, *, back: bool = False) -> Tensor:
    """T x, or T⁻¹ x, of pictures (B, C, H, W), with T the symmetry `which` (B,) of each: 1 mirrors
    columns, 2 rows, 4, for H = W alone, exchanges both, and a sum of them does one after another.
    """
    for bit in (4, 2, 1) if back else (1, 2, 4):
        those = (which & bit > 0).to(x.device).view(-1, 1, 1, 1)
        if bool(those.any()):
            other = x.mT if bit == 4 else x.flip(-bit)
            x = torch.where(those, other, x)
    return x


def turned_spectrum(values: Tensor, which: Tensor, width: int) -> Tensor:
    """v(T⁻¹ k) of even spectra (B, C, H, W//2+1) of pictures of this width; see `turned`.

    Mirrored rows and columns are one, as v(k) = v(-k); so T and T⁻¹ are the same here.
    """
    bits = which.to(values.device).view(-1, 1, 1, 1)
    crossed = ((bits & 1) > 0) != ((bits & 2) > 0)
    if bool(crossed.any()):
        values = torch.where(crossed, _mirrored(values), values)
    exchanged = (bits & 4) > 0
    if bool(exchanged.any()):
        implied = _mirrored(values)[..., 1 : (width + 1) // 2].flip(-1)
        whole = torch.cat([values, implied], -1)
        values = torch.where(exchanged, whole.mT[..., : values.shape[-1]], values)
    return values


def _mirrored(values: Tensor) -> Tensor:
    """v(kx, -ky)."""
    return values.flip(-2).roll(1, -2)


def to_opponent(x: Tensor) -> Tensor:
    """RGB -> opponent colours (B, 3, H, W); any other number of channels is left alone."""
    if x.shape[1] != 3:
        return x
    return torch.einsum("ij,bjhw->bihw", OPPONENT.to(x), x)


def from_opponent(x: Tensor) -> Tensor:
    """The inverse of `to_opponent`: the basis is orthonormal, so its transpose."""
    if x.shape[1] != 3:
        return x
    return torch.einsum("ji,bjhw->bihw", OPPONENT.to(x), x)
