r"""What a JPEG's quantisation leaves of noise in flat blocks.

A coefficient c ~ N(0, s²) of the 8×8 cosine transform becomes q · round(c/q). In a flat block its
variance is then

    V(s, q) = q² Σ_j (2j-1) · 2 Φ(-(j-½) q/s),     j = 1, 2, …

next to nothing where s is below a third of q. In a textured block c is spread over many q: the
noise stays, and the rounding adds q²/12. So one picture has less noise in flat places than
elsewhere, by a factor that the tables in the file tell.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIDE = 8
TERMS = 400


class Floor(NamedTuple):
    """By coefficient (8, 8), vertical first: |k|, its noise power before, after in flat blocks, and
    after in textured ones, all on [0, 1]².
    """

    k: Tensor
    before: Tensor
    flat: Tensor
    textured: Tensor

    @property
    def survives(self) -> Tensor:
        """The share of the noise's power that is left in a flat block."""
        return self.flat / self.before

    @property
    def raised(self) -> Tensor:
        """log of textured over flat."""
        return (self.textured / self.flat.clamp(min=1e-12)).log()


def frequencies() -> Tensor:
    """|k| (8, 8) of the cosine transform's coefficients, cycles per pixel: u/16."""
    u = torch.arange(SIDE, dtype=torch.float64) / (2 * SIDE)
    return torch.hypot(u[:, None], u[None, :])


def quantised_variance(s: Tensor, q: Tensor) -> Tensor:
    """V(s, q) above."""
    j = torch.arange(1, TERMS + 1, dtype=torch.float64)
    ratio = (q / s)[..., None]
    tail = 2 * torch.special.ndtr(-(j - 0.5) * ratio)
    series = q**2 * ((2 * j - 1) * tail).sum(-1)
    # Where steps are much finer than the noise: Sheppard's correction.
    return torch.where(q < 0.2 * s, s**2 + q**2 / 12, series)


def jpeg_floor(table: Tensor, power: Tensor) -> Floor:
    """What one channel's quantisation `table` (8, 8), in 8-bit levels, leaves of noise of `power`
    N (8, 8) at `frequencies()`, on [0, 1].

    Channels are those of the file (Y, Cb, Cr); a subsampled channel is looked at on its own grid.
    """
    q = table.double() / 255
    s2 = power.double()
    flat = quantised_variance(s2.sqrt(), q)
    return Floor(frequencies(), s2, flat, s2 + q**2 / 12)
