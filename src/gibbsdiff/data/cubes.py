"""Density cubes of other simulations, such as those of CATS, seen as column densities."""

from __future__ import annotations

import io
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.fits import SUFFIXES

HDF5 = (".h5", ".hdf5", ".hdf")
FITS = (*SUFFIXES, *(f"{suffix}.gz" for suffix in SUFFIXES))
DENSITY = ("density", "dens", "rho")  # names of a dataset that says it is the density
CELLS = 1 << 24  # at most so many are read at a time

Map = NDArray[np.float64]


def columns(
    path: str | Path, axes: Sequence[int] = (0, 1, 2), slabs: int = 1, dataset: str | None = None
) -> NDArray[np.float32]:
    """Mean density along the line of sight, (axes · slabs, n, n), of the cube in a file: the box
    is cut into slabs of equal depth along each axis, as `gibbsdiff cmb simulate` has two of them.

    The column density is this times the depth. A cube is FITS (its first image of 3 axes), HDF5
    (`dataset`, or the only one of 3 axes, or the one called density) or NPY, and is read in parts.
    """
    path = Path(path)
    with _opened(path, dataset) as cube:
        shape = tuple(int(n) for n in cube.shape)
        if len(shape) != 3:
            raise InputError(f"{path}: a cube has 3 axes, not {len(shape)} ({shape})")
        for axis in axes:
            a, b = (n for i, n in enumerate(shape) if i != axis)
            if a != b or shape[axis] % slabs or not min(shape):
                raise InputError(
                    f"{path}: {'×'.join(map(str, shape))} cells give no square maps of {slabs} "
                    f"slabs along axis {axis}"
                )
        sums = {axis: np.zeros((slabs, *_without(shape, axis))) for axis in axes}
        rows = max(1, CELLS // (shape[1] * shape[2]))
        for first in range(0, shape[0], rows):
            last = min(first + rows, shape[0])
            part = _checked(path, cube[first:last])
            for axis, out in sums.items():
                _add(out, part, axis, first, shape[axis] // slabs)
    maps = [out * slabs / shape[axis] for axis, out in sums.items()]
    return np.concatenate(maps).astype(np.float32)


def write_columns(
    cubes: Sequence[str | Path],
    output: str | Path,
    axes: Sequence[int] = (0, 1, 2),
    slabs: int = 1,
    dataset: str | None = None,
    tick: Callable[[int], None] = lambda _: None,
) -> tuple[int, ...]:
    """The maps of some cubes into an npz, `maps` (cubes, axes · slabs, n, n), and their shape.

    The maps of one cube show the same gas: each cube is a snapshot for `[data.blocks]`.
    """
    made: list[NDArray[np.float32]] = []
    for path in cubes:
        made.append(columns(path, axes, slabs, dataset))
        if made[-1].shape != made[0].shape:
            sides = made[-1].shape[-1], made[0].shape[-1]
            raise InputError(f"{path}: maps of side {sides[0]}, those of {cubes[0]} of {sides[1]}")
        tick(len(made))
    maps = np.stack(made)
    buffer = io.BytesIO()
    np.savez(buffer, maps=maps, cubes=np.array([Path(path).name for path in cubes]))
    write_atomically(output, buffer.getvalue())
    return maps.shape


def _add(out: Map, part: Map, axis: int, first: int, depth: int) -> None:
    """Add rows first.. of a cube, (r, n, m), to its sums along an axis in slabs of a depth."""
    if axis == 0:
        for row, plane in enumerate(part, first):
            out[row // depth] += plane
        return
    deep = np.moveaxis(part, axis, 0)
    inside = deep.reshape(len(out), depth, *deep.shape[1:]).sum(1)
    out[:, first : first + len(part)] = inside


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i != axis)


def _checked(path: Path, part: Any) -> Map:
    values = np.asarray(part)
    if values.dtype.kind not in "fiu":
        raise InputError(f"{path}: densities are real numbers, not {values.dtype}")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"{path}: NaN or infinite densities")
    if values.min() <= 0:
        raise InputError(f"{path}: densities must be positive, there is {values.min():g}")
    return values


@contextmanager
def _opened(path: Path, dataset: str | None) -> Iterator[Any]:
    """The cube of a file: something with a shape that reads rows when they are asked for."""
    name = path.name.lower()
    if dataset is not None and not name.endswith(HDF5):
        raise InputError(f"{path}: --dataset {dataset} is for HDF5 files")
    kinds = ((HDF5, _hdf5), (FITS, _fits), ((".npy",), _npy))
    reader = next((reader for suffixes, reader in kinds if name.endswith(suffixes)), None)
    if reader is None:
        raise InputError(f"{path}: a cube is FITS, HDF5 or NPY, by its name's ending")
    try:
        with reader(path, dataset) as cube:
            yield cube
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, TypeError, KeyError, EOFError, zlib.error) as trouble:
        reason = " ".join(str(trouble).split())[:100]
        raise InputError(f"{path}: cannot be read as a cube ({reason})") from None


@contextmanager
def _npy(path: Path, _: str | None) -> Iterator[Any]:
    yield np.load(path, mmap_mode="r", allow_pickle=False)


@contextmanager
def _fits(path: Path, _: str | None) -> Iterator[Any]:
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong with other parts is not our concern
        with fits.open(path) as file:
            images = [hdu for hdu in file if hdu.is_image and hdu.shape]
            cubes = [hdu for hdu in images if len(hdu.shape) == 3]
            if not images:
                raise InputError(f"{path}: holds no image")
            yield (cubes or images)[0].section


@contextmanager
def _hdf5(path: Path, dataset: str | None) -> Iterator[Any]:
    import h5py

    with h5py.File(path, "r") as file:
        found: dict[str, Any] = {}

        def note(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.ndim == 3:
                found[name] = item

        file.visititems(note)
        if dataset is not None:
            chosen = file.get(dataset)
            if not isinstance(chosen, h5py.Dataset):
                there = ", ".join(found) or "none of 3 axes"
                raise InputError(f"{path}: has no dataset {dataset}; there are {there}")
            yield chosen
            return
        named = [name for name in found if name.rpartition("/")[2].lower() in DENSITY]
        likely = list(found) if len(found) == 1 else named
        if len(likely) != 1:
            there = ", ".join(found) or "none"
            raise InputError(f"{path}: name its density by --dataset; of 3 axes there are {there}")
        yield found[likely[0]]
