"""Maps of floats on a periodic grid: reading, the split by time, random shifts."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from gibbsdiff.data.images import turned
from gibbsdiff.errors import InputError
from gibbsdiff.io.fits import SUFFIXES, first_image


@dataclass(frozen=True)
class Blocks:
    """Which snapshots do what: the first and the last of each block, both included.

    Slabs of one snapshot show the same gas, and so do snapshots less than a turnover apart (two
    of them, in maps of `gibbsdiff cmb simulate`): the split is by time, with gaps between blocks.
    Selection and calibration may share theirs.
    """

    train: tuple[int, ...] = (0, 15)
    selection: tuple[int, ...] = (17, 19)
    calibration: tuple[int, ...] = (17, 19)
    test: tuple[int, ...] = (21, 23)


@dataclass(frozen=True)
class Maps:
    """Maps (B, 1, side, side) of each role, x = (map - mean)/sd by one mean and sd: those of
    the training maps at the side that is used. `finest` are the training maps before they were
    halved, on the same scale.
    """

    mean: float
    sd: float
    finest: Tensor
    train: Tensor
    selection: Tensor
    calibration: Tensor
    test: Tensor

    @property
    def side(self) -> int:
        """Pixels of a side."""
        return self.train.shape[-1]


def halve(maps: Tensor, times: int = 1) -> Tensor:
    """Means over squares of 2^times pixels: (B, 1, H, W) -> (B, 1, H/2^times, W/2^times)."""
    return avg_pool2d(maps, 2**times) if times else maps


def read_snapshots(path: str | Path) -> Tensor:
    """The maps of a file, (snapshots, slabs, side, side), float32.

    An npz file has them as its array `maps`, or as its only array; an npy file is one array, of a
    FITS file it is the first image. Maps (n, side, side) are n snapshots of one slab.
    """
    suffix = Path(path).suffix.lower()
    maps = first_image(path)[0] if suffix in SUFFIXES else _numpy_array(path)
    if maps.ndim == 3:
        maps = maps[:, None]
    if maps.ndim != 4 or maps.shape[-1] != maps.shape[-2] or maps.dtype.kind != "f":
        raise InputError(
            f"{path}: maps must be floats (snapshots, slabs, side, side) or (maps, side, side), "
            f"not {maps.dtype} {maps.shape}"
        )
    bad = int((~np.isfinite(maps)).any((1, 2, 3)).sum())
    if bad:
        raise InputError(
            f"{path}: NaN or infinite pixels in maps of {bad} of {len(maps)} snapshots"
        )
    return torch.from_numpy(maps.astype(np.float32))


def _numpy_array(path: str | Path) -> NDArray[Any]:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return found
        with found as file:
            only = file.files[0] if len(file.files) == 1 else "maps"
            return np.asarray(file[only])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as trouble:
        reason = trouble.strerror if isinstance(trouble, OSError) and trouble.strerror else trouble
        raise InputError(f"{path}: no file of maps ({' '.join(str(reason).split())})") from None


def read_maps(path: str | Path, blocks: Blocks | None = None, halved: int = 0) -> Maps:
    """The maps of a file by role, halved so many times."""
    snapshots = read_snapshots(path)
    if halved < 0 or snapshots.shape[-1] % 2**halved or snapshots.shape[-1] // 2**halved < 16:
        raise InputError(f"{path}: maps of side {snapshots.shape[-1]}, not to be halved {halved}×")
    blocks = blocks or Blocks()
    fine = {
        f.name: _block(snapshots, f.name, getattr(blocks, f.name), path) for f in fields(blocks)
    }
    for role in ("selection", "calibration", "test"):
        (a, b), (c, d) = blocks.train, getattr(blocks, role)
        if a <= d and c <= b:
            raise InputError(f"{path}: the blocks of train and {role} overlap")
    small = {role: halve(maps, halved) for role, maps in fine.items()}
    mean, sd = float(small["train"].double().mean()), float(small["train"].double().std())
    if sd == 0:
        raise InputError(f"{path}: all pixels of the training maps are equal")
    scaled = {role: (maps - mean) / sd for role, maps in small.items()}
    return Maps(mean, sd, (fine["train"] - mean) / sd, **scaled)


def _block(snapshots: Tensor, role: str, block: tuple[int, ...], path: str | Path) -> Tensor:
    if len(block) != 2 or not 0 <= block[0] <= block[1] < len(snapshots):
        raise InputError(
            f"{path}: the block {list(block)} of {role} is not [first, last] "
            f"of its {len(snapshots)} snapshots"
        )
    return snapshots[block[0] : block[1] + 1].flatten(0, 1)[:, None]


class ShiftedMaps:
    """Whole maps under random periodic shifts and the 8 symmetries of a square: what a periodic,
    statistically isotropic field allows. No crops: these are not periodic.

    Shifts come before halving, so that maps halved once have four times as many.
    """

    def __init__(self, maps: Tensor, halved: int = 0) -> None:
        if not len(maps):
            raise InputError("there is no map to train on")
        self.maps, self.halved = maps, halved

    def draw(self, count: int, rng: torch.Generator) -> Tensor:
        """(count, 1, side, side), float32."""
        chosen = torch.randint(len(self.maps), (count,), generator=rng).tolist()
        shifts = torch.randint(self.maps.shape[-1], (count, 2), generator=rng).tolist()
        symmetries = torch.randint(8, (count,), generator=rng).tolist()
        rows = [
            turned(self.maps[i].roll(shift, (-2, -1)), symmetry)
            for i, shift, symmetry in zip(chosen, shifts, symmetries, strict=True)
        ]
        return halve(torch.stack(rows), self.halved)

    def batch(
        self, step: int, count: int, side: int, rows: Sequence[int], rng: torch.Generator
    ) -> Tensor:
        """Some rows of a batch; all are drawn, so that a row does not depend on which are asked."""
        drawn = self.draw(count, rng)
        if drawn.shape[-1] != side:
            raise InputError(f"maps of side {drawn.shape[-1]} are not cropped to {side}")
        return drawn[list(rows)]

    def close(self) -> None:
        """Nothing is open."""
