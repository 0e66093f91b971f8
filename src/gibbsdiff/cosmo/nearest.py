r"""The nearest of many periodic maps, over all shifts and the 8 symmetries of a square.

For one symmetry, ‖x - t(· - s)‖² = ‖x‖² + ‖t‖² - 2 (x ⋆ t)(s), and the cross-correlation x ⋆ t is
known for all shifts s at once: its transform is x̂ t̂*.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.data.images import turned
from gibbsdiff.data.maps import halve

SYMMETRIES = 8
BATCH = 64  # maps worked on together


class Match(NamedTuple):
    """turned(maps[which].roll(shift), symmetry) is nearest; `distance` is the rms difference."""

    distance: float
    which: int
    shift: tuple[int, int]
    symmetry: int


class Library:
    """Maps (M, 1, H, H) to look in."""

    def __init__(self, maps: Tensor) -> None:
        self.maps = maps
        self.transforms = torch.fft.rfft2(maps[:, 0]).conj()
        self.norms = maps.double().square().sum((1, 2, 3)).to(maps)

    @classmethod
    def of_all_phases(cls, finest: Tensor, halved: int) -> Library:
        """Every map that halving makes of these, under shifts by less than one of its pixels."""
        step = range(2**halved)
        return cls(
            torch.cat([halve(finest.roll((i, j), (-2, -1)), halved) for i in step for j in step])
        )

    def nearest(self, x: Tensor) -> Match:
        """The nearest to x (1, H, H)."""
        best: tuple[float, int, int, int] | None = None
        for symmetry in range(SYMMETRIES):
            here = torch.fft.rfft2(unturned(x, symmetry)[0])
            for first in range(0, len(self.maps), BATCH):
                part = slice(first, first + BATCH)
                alike = torch.fft.irfft2(here * self.transforms[part], s=x.shape[-2:])
                most, at = alike.flatten(1).max(1)
                gap = self.norms[part] - 2 * most
                i = int(gap.argmin())
                found = (float(gap[i]), first + i, int(at[i]), symmetry)
                best = found if best is None else min(best, found)
        assert best is not None
        _, which, place, symmetry = best
        shift = divmod(place, x.shape[-1])
        there = turned(self.maps[which].roll(shift, (-2, -1)), symmetry)
        # The sum above has lost the digits of a small distance.
        return Match(rms(x - there), which, shift, symmetry)


def unturned(image: Tensor, symmetry: int) -> Tensor:
    """The inverse of `turned`: (C, H, W)."""
    image = image.transpose(1, 2) if symmetry & 4 else image
    flips = [axis for axis in (1, 2) if symmetry & axis]
    return image.flip(flips) if flips else image


def rms(difference: Tensor) -> float:
    """√ of the mean square."""
    return float(difference.double().square().mean().sqrt())
