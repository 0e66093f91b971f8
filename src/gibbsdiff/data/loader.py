"""Images read by worker processes while a network trains, for folders too large for memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gibbsdiff.data.images import SYMMETRIES, Symmetry, centre, read_image, resized, turned
from gibbsdiff.errors import InputError
from gibbsdiff.streams import Streams

Crops = Literal["random", "protocol"]


class CropSamples(Dataset[Tensor]):
    """Sample n = 0, 1, 2, …: image n mod F of the shuffle of epoch n // F, for F files.

    Everything random about it is keyed by (seed, n): who reads it, and when, does not matter.
    "protocol" crops are the paper's; "random" ones lie anywhere in the image, which is enlarged
    if it is too small.
    """

    def __init__(
        self,
        files: Sequence[Path],
        side: int,
        *,
        crops: Crops = "random",
        symmetries: Symmetry = "all",
        seed: int = 0,
    ) -> None:
        if not files:
            raise InputError("there is no image to train on")
        self.files, self.side, self.crops, self.seed = list(files), side, crops, seed
        self.allowed = SYMMETRIES[symmetries]

    def __getitem__(self, n: int) -> Tensor:
        """Read, crop and turn: uint8 (3, side, side)."""
        epoch, place = divmod(n, len(self.files))
        image = read_image(self.files[_shuffle(self.seed, epoch, len(self.files))[place]])
        rng = Streams(self.seed, [(n,)])
        if self.crops == "protocol":
            crop = centre(image, self.side)
        else:
            image = resized(image, max(self.side, min(image.shape[1:])))
            spare = [length - self.side for length in image.shape[1:]]
            top, left = (int(rng.integers(0, most)) for most in spare)
            crop = image[:, top : top + self.side, left : left + self.side]
        return turned(crop, int(rng.integers(0, 7)) & self.allowed).contiguous()


@lru_cache(maxsize=2)
def _shuffle(seed: int, epoch: int, count: int) -> Any:
    entropy = np.random.SeedSequence([seed, epoch, count])
    return np.random.Generator(np.random.SFC64(entropy)).permutation(count)


class _Rows:
    """The sample numbers of some rows of every batch, from a step on, without end."""

    def __init__(self, step: int, count: int, rows: Sequence[int]) -> None:
        self.step, self.count, self.rows = step, count, rows

    def __iter__(self) -> Iterator[list[int]]:
        step = self.step
        while True:
            yield [step * self.count + row for row in self.rows]
            step += 1


class LoadedCrops:
    """Batches of `CropSamples`: that of step i has the samples i·count … (i+1)·count - 1.

    A step asked for out of turn, as by a resumed run, restarts the workers there.
    """

    def __init__(self, samples: CropSamples, workers: int = 0) -> None:
        self.samples, self.workers = samples, workers
        self._ahead: Iterator[Tensor] | None = None
        self._next: tuple[int, int, tuple[int, ...]] | None = None

    def batch(
        self, step: int, count: int, side: int, rows: Sequence[int], rng: torch.Generator
    ) -> Tensor:
        """(rows, 3, side, side), float32 on [0, 1]; only these rows are read."""
        if side != self.samples.side:
            raise InputError(
                f"crops of {side}² are asked for, the workers read {self.samples.side}²: "
                'loading = "workers" needs later_crop = crop'
            )
        wanted = (step, count, tuple(rows))
        if self._ahead is None or self._next != wanted:
            self.close()
            self._ahead = iter(self._loader(*wanted))
        crops = next(self._ahead)
        self._next = (step + 1, count, wanted[2])
        return crops / 255

    def close(self) -> None:
        """Stop the workers."""
        self._ahead = None

    def _loader(self, step: int, count: int, rows: tuple[int, ...]) -> DataLoader[Tensor]:
        # Spawned, since forking a process that has threads, or a GPU, may hang the child.
        return DataLoader(
            self.samples,
            batch_sampler=_Rows(step, count, rows),
            num_workers=self.workers,
            multiprocessing_context="spawn" if self.workers else None,
            generator=torch.Generator(),  # or torch's global one would move on
            pin_memory=torch.cuda.is_available(),
        )
