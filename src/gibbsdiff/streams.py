"""Keyed random streams: a batch of independent generators, one per row.

Row b of every draw depends on its own key alone, so a result does not change
with the batch that it was computed in, nor with the rows that left the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

Key = tuple[int, ...]


class Streams:
    """One generator per key, e.g. keys = [(image, chain), ...] under one seed.

    >>> rng = Streams(0, [(0,), (1,)])
    >>> rng.normal(3).shape
    torch.Size([2, 3])
    """

    def __init__(self, seed: int, keys: Iterable[Key]) -> None:
        self.seed = int(seed)
        self.keys: tuple[Key, ...] = tuple(tuple(int(i) for i in key) for key in keys)
        if self.seed < 0 or any(i < 0 for key in self.keys for i in key):
            raise ValueError(f"seeds and keys are non-negative integers (seed {seed})")
        self._rows = [_generator(self.seed, key) for key in self.keys]

    @classmethod
    def batch(cls, seed: int, rows: int) -> Streams:
        """Rows keyed 0, 1, ..., rows - 1."""
        return cls(seed, [(i,) for i in range(rows)])

    def __len__(self) -> int:
        return len(self.keys)

    def fold(self, *label: int) -> Streams:
        """New streams keyed (key, label): one for each iteration of a chain."""
        return Streams(self.seed, [key + label for key in self.keys])

    def rows(self, index: Sequence[int] | Tensor) -> Streams:
        """The named rows, sharing their state with this batch."""
        picked = object.__new__(Streams)
        picked.seed = self.seed
        order = [int(i) for i in index]
        picked.keys = tuple(self.keys[i] for i in order)
        picked._rows = [self._rows[i] for i in order]
        return picked

    def normal(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Standard normal draws (B, *shape)."""
        kind = np.float32 if dtype == torch.float32 else np.float64
        return self._fill(lambda g: g.standard_normal(shape, dtype=kind), shape, dtype)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Uniform draws on [0, 1), (B, *shape)."""
        return self._fill(lambda g: g.random(shape), shape, dtype)

    def integers(self, low: int, high: int) -> Tensor:
        """One integer per row from {low, ..., high}, both ends included."""
        return self._fill(lambda g: g.integers(low, high, endpoint=True), (), torch.int64)

    def _fill(
        self,
        one: Callable[[np.random.Generator], object],
        shape: tuple[int, ...],
        dtype: torch.dtype,
    ) -> Tensor:
        out = torch.empty(len(self), *shape, dtype=dtype)
        for row, generator in zip(out, self._rows, strict=True):
            row.copy_(torch.as_tensor(one(generator)))
        return out


def _generator(seed: int, key: Key) -> np.random.Generator:
    # SeedSequence pads with zeros, so (1,) and (1, 0) would collide without the length.
    entropy = np.random.SeedSequence([seed, len(key), *key])
    return np.random.Generator(np.random.SFC64(entropy))
