"""Crops made more like the pictures that cameras take: enlarged, darkened."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

SMALLEST = 16  # pixels of a piece that is enlarged
SMOOTH = 0.7  # part of the enlargements that are bicubic; the rest is bilinear


def enlarged(
    x: Tensor, rows: Tensor, count: int, rng: torch.Generator, part: float, by: tuple[float, float]
) -> Tensor:
    """A `part` of the images replaced by pieces of themselves, enlarged by a factor log-uniform on
    `by`: a camera's pixels are finer than what its lens resolves.

    x are the rows `rows` of a batch of `count`: what happens to a row does not depend on which rows
    are asked for.
    """
    u, out, side = torch.rand(count, 4, generator=rng)[rows], x.clone(), x.shape[-1]
    for i, (whether, size, below, right) in enumerate(u.tolist()):
        if whether < part:
            piece = max(SMALLEST, round(side / (by[0] * (by[1] / by[0]) ** size)))
            top, left = int(below * (side - piece)), int(right * (side - piece))
            cut = x[i : i + 1, :, top : top + piece, left : left + piece]
            mode = "bicubic" if whether < SMOOTH * part else "bilinear"
            large = interpolate(cut, size=(side, side), mode=mode, align_corners=False)
            out[i] = large[0].clamp(0, 1)
    return out


def darkened(x: Tensor, rows: Tensor, count: int, rng: torch.Generator, part: float) -> Tensor:
    """A `part` of the images made dark, a x^γ with a on [0.15, 1] and γ on [1, 2.5]: the sky at
    night, cells that shine. Rows as in `enlarged`.
    """
    u, out = torch.rand(count, 3, generator=rng)[rows], x.clone()
    for i, (whether, scale, bend) in enumerate(u.tolist()):
        if whether < part:
            out[i] = (0.15 + 0.85 * scale) * x[i] ** (1 + 1.5 * bend)
    return out
