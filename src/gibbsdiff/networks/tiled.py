"""A U-Net on images too large for it: tile by tile, each with a margin of its neighbours."""

from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.networks.padding import crop, pad_to_multiple
from gibbsdiff.networks.unet import Heads, Trunk, UNet

#: Pixels around a tile that the network takes with it, see `Tiled`.
HALO = 128


class Span(NamedTuple):
    """One tile along one axis: the pixels start … stop - 1, and the margin around them."""

    start: int
    stop: int
    pixels: Tensor
    """Indices of the tile and its halo, in the image's order."""
    before: int
    """How many of them lie before the tile."""

    @property
    def size(self) -> int:
        """Pixels of the tile itself."""
        return self.stop - self.start

    def place(self) -> slice:
        """Where the tile lies in the image."""
        return slice(self.start, self.stop)

    def inner(self, stride: int = 1) -> slice:
        """Where the tile lies in itself and its halo, on a map `stride` times coarser."""
        return slice(self.before // stride, (self.before + self.size) // stride)


@dataclass(frozen=True)
class Tiled:
    """F_θ of eq. (4), by the same weights, in memory that does not grow with the image.

    Tiles of at most tile² pixels start at multiples of the network's coarsest pixel, so that
    each has its pixels on the same grid as in the whole image, with `halo` real pixels around.
    At the image's own border there is what the network finds there: zeros, or, if it is
    circular, the other side. Pooled features are means over the tiles without their halos.

    The default network's field of view is 192 pixels on each side, but what lies far away hardly
    matters. With the weights `natural`, in tiles of 160², on a photograph of 400×560 under four
    noises (white, σ = 0.1; pink, σ from 0.2 to 1), the largest errors at a halo of 96, 112, 128,
    160 pixels are

        D                          4e-4  1e-4  2e-5  4e-7
        Ê, relative                5e-4  1e-4  1e-5  6e-7
        pixel variance, relative   3e-2  7e-3  7e-4  6e-5

    so that 112 does not keep D within 1e-4, and 128, the default, does with a margin.
    """

    network: UNet
    tile: int = 1024
    halo: int = HALO

    def __post_init__(self) -> None:
        if self.tile < self.network.multiple:
            raise InputError(
                f"tile: needs at least {self.network.multiple} pixels, not {self.tile}"
            )

    def __call__(self, inputs: Tensor, descriptor: Tensor) -> Heads:
        """Evaluate the three heads: as `UNet.forward`."""
        correction, log_variance, pooled = self.trunk(inputs, descriptor)
        return Heads(correction, log_variance, self.network.bands(pooled, descriptor))

    def trunk(self, inputs: Tensor, descriptor: Tensor) -> Trunk:
        """Evaluate the local heads and the pooled features: as `UNet.trunk`."""
        multiple = self.network.multiple
        padded, top, left = pad_to_multiple(inputs, multiple, self.network.padding)
        height, width = padded.shape[-2:]
        shape = (len(inputs), self.network.channels, height, width)
        correction, log_variance = inputs.new_empty(shape), inputs.new_empty(shape)
        pooled = []
        # One image at a time: the memory of a call is that of one tile.
        for i in range(len(inputs)):
            means = []
            for rows, columns in product(self._spans(height), self._spans(width)):
                piece = padded[i : i + 1].index_select(-2, rows.pixels.to(padded.device))
                piece = piece.index_select(-1, columns.pixels.to(padded.device))
                maps = self.network.maps(piece, descriptor[i : i + 1])
                here = (slice(None), rows.place(), columns.place())
                correction[i][here] = _inner(maps.correction, rows, columns)
                log_variance[i][here] = _inner(maps.log_variance, rows, columns)
                features = (
                    _inner(maps.bottom, rows, columns, multiple).mean((-2, -1)),
                    _inner(maps.top, rows, columns, 2).mean((-2, -1)),
                )
                means.append(torch.cat(features) * (rows.size * columns.size / (height * width)))
            pooled.append(torch.stack(means).sum(0))
        return Trunk(
            crop(correction, inputs, top, left),
            crop(log_variance, inputs, top, left),
            torch.stack(pooled),
        )

    def _spans(self, size: int) -> list[Span]:
        """Tiles along one axis, as equal as multiples allow."""
        multiple = self.network.multiple
        halo = -(-self.halo // multiple) * multiple
        units = size // multiple
        tiles = -(-units // (self.tile // multiple))
        edges = [units * j // tiles * multiple for j in range(tiles + 1)]
        spans = []
        for start, stop in pairwise(edges):
            low, high = start - halo, stop + halo
            if tiles == 1 or self.network.padding == "zeros":
                low, high = max(low, 0), min(high, size)
            spans.append(Span(start, stop, torch.arange(low, high) % size, start - low))
        return spans


def _inner(maps: Tensor, rows: Span, columns: Span, stride: int = 1) -> Tensor:
    """The tile without its halo, from maps (1, C, …) of both: (C, …)."""
    return maps[0, :, rows.inner(stride), columns.inner(stride)]
