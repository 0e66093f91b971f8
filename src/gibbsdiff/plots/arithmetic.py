"""Numbers behind the figures: levels of contours, block means, radial averages."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gibbsdiff.fourier import Grouping, power, radial_bins

#: Pictures are shown with at most this many pixels a side.
SIDE = 640
#: Bins of |k| in a spectrum; more of them are noisier, fewer hide structure.
BINS = 64


def mass_levels(
    density: Tensor, masses: Sequence[float], weight: Tensor | None = None
) -> list[float]:
    """Levels ℓ with Σ weight over {density ≥ ℓ} = mass · Σ weight, one for each mass.

    On a regular grid a cell's weight is its density, the default. For draws, give the density
    at each draw and equal weights: the level then encloses that share of the draws.
    """
    ordered, order = density.flatten().double().sort(descending=True)
    mass = ordered if weight is None else weight.flatten().double()[order]
    total = mass.cumsum(0) / mass.sum()
    return [float(ordered[min(int((total < m).sum()), len(ordered) - 1)]) for m in masses]


def block_size(height: int, width: int, most: int = SIDE) -> int:
    """The smallest block b for which ⌈H/b⌉ and ⌈W/b⌉ do not exceed `most`."""
    return -(-max(height, width) // most)


def block_mean(image: Tensor, most: int = SIDE) -> Tensor:
    """Means over b × b blocks of (C, H, W), at most `most` a side; edge blocks may be smaller."""
    block = block_size(image.shape[-2], image.shape[-1], most)
    if block == 1:
        return image
    planes = [avg_pool2d(plane[None, None].float(), block, ceil_mode=True)[0, 0] for plane in image]
    return torch.stack(planes)


def spectrum_bins(height: int, width: int) -> Grouping:
    """The bins of |k| that spectra are averaged in."""
    return radial_bins((height, width), most=BINS)


def radial_average(values: Tensor, bins: Grouping) -> Tensor:
    """Σ w · values / Σ w in every bin of |k|: (H, W//2+1) -> (bins,)."""
    return bins.sum(values[None])[0] / bins.k.weight


def radial_power(x: Tensor, bins: Grouping) -> Tensor:
    """Mean of |x̂|² over the modes of a bin and over channels: σ² for white noise."""
    # A channel at a time: a large picture's transform is twice as large as itself.
    return torch.stack([radial_average(power(plane), bins) for plane in x]).mean(0)
