"""Sides that are no multiple of a network's coarsest pixel: padding before it, cropping after."""

from typing import Literal

from torch import Tensor
from torch.nn.functional import pad

Padding = Literal["zeros", "circular"]
"""What lies beyond the border of an image: nothing known, or the image again."""


def pad_to_multiple(x: Tensor, multiple: int, padding: Padding) -> tuple[Tensor, int, int]:
    """Extend both sides of x (B, C, H, W) to multiples; with it, the row and column of its start.

    Images are reflected at their border, periodic ones are wrapped. Half of the padding goes on
    each side, so that the seam of a wrapped image stays far from the pixels that are kept.
    """
    height, width = x.shape[-2:]
    if min(height, width) < multiple:
        raise ValueError(f"image of {height}×{width} is smaller than {multiple} pixels")
    rows, columns = -height % multiple, -width % multiple
    if rows == columns == 0:
        return x, 0, 0
    top, left = rows // 2, columns // 2
    mode = "circular" if padding == "circular" else "reflect"
    return pad(x, (left, columns - left, top, rows - top), mode=mode), top, left


def crop(x: Tensor, like: Tensor, top: int, left: int) -> Tensor:
    """Undo `pad_to_multiple`: the rows and columns of x that belong to `like`."""
    height, width = like.shape[-2:]
    return x[..., top : top + height, left : left + width]
