"""Power spectra of posterior samples against that of the truth, in bands of many modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from gibbsdiff.fourier import Grouping, Shape, exact_groups, radial_bins
from gibbsdiff.plots import radial_power

#: A band has LEAST modes or more, and its upper end is RATIO times its lower end or more.
LEAST, RATIO = 200, 1.15

#: What is called agreement: NEAR of the truth's power, or WITHIN sd of the samples' power.
NEAR, WITHIN = 0.05, 2.0


@lru_cache(maxsize=4)
def bands(shape: Shape, least: int = LEAST, ratio: float = RATIO) -> Grouping:
    """Rings of |k|; the zero mode is a group of its own, the first."""
    groups = exact_groups(shape).k
    edges: list[float] = []
    count, low = 0.0, float(groups.k[1])
    for k, weight in zip(groups.k[1:].tolist(), groups.weight[1:].tolist(), strict=True):
        if count >= least and k >= ratio * low:
            edges.append(k)
            count, low = 0.0, k
        count += weight
    if count < least and edges:
        edges.pop()
    return radial_bins(shape, tuple(edges), most=0)


@dataclass(frozen=True)
class BandSpectra:
    """In each band, over the truth's power: the mean of the samples' power and its sd."""

    ratio: list[float]
    sd: list[float]

    @property
    def near(self) -> float:
        """The share of bands whose mean is within 5 % of the truth."""
        return _share([abs(r - 1) <= NEAR for r in self.ratio])

    @property
    def within(self) -> float:
        """The share of bands where the truth is within 2 posterior sd."""
        return _share([abs(r - 1) <= WITHIN * s for r, s in zip(self.ratio, self.sd, strict=True)])

    @property
    def either(self) -> float:
        """The share of bands where one or the other holds."""
        return _share(
            [abs(r - 1) <= max(NEAR, WITHIN * s) for r, s in zip(self.ratio, self.sd, strict=True)]
        )


def compare(samples: Tensor, truth: Tensor) -> BandSpectra:
    """Spectra of samples (n, 1, H, W), n ≥ 2, against that of the truth (1, H, W)."""
    bins = bands((truth.shape[-2], truth.shape[-1]))
    true = radial_power(truth.double(), bins)[1:]
    P = torch.stack([radial_power(x.double(), bins)[1:] for x in samples]) / true
    return BandSpectra(P.mean(0).tolist(), P.std(0).tolist())


def _share(held: list[bool]) -> float:
    return sum(held) / len(held)
