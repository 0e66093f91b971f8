"""The paper's Tables 1 and 2: test images × noise levels × colours of noise × methods.

A task is one method on one observation, and pure: it can run anywhere. Noise is keyed by the
image's place in its set, so that every method sees the same observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from gibbsdiff.data.images import PROTOCOL_SIDE, Folder, image_files, protocol_images, split
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.benchmark.methods import GROUPS, Observation, Setup, setting
from gibbsdiff.evidence.benchmark.paper import CELLS, SigmaPhi
from gibbsdiff.evidence.benchmark.store import BenchmarkRecord, Store
from gibbsdiff.evidence.cluster import Mapper, serial
from gibbsdiff.metrics import psnr, ssim
from gibbsdiff.streams import Streams
from gibbsdiff.training.evaluation import observed

SEED = 1  # that of the model card's tables
RESULTS = "images.jsonl"


@dataclass(frozen=True)
class Task:
    """One group of methods on one image in one cell."""

    dataset: str
    index: int
    path: str
    sigma: float
    phi: float
    group: str
    setup: Setup = field(default_factory=Setup)
    side: int = PROTOCOL_SIDE
    seed: int = SEED

    @property
    def key(self) -> tuple[Any, ...]:
        """Which records are this task's."""
        return (self.dataset, self.index, self.sigma, self.phi, self.group)


@lru_cache(maxsize=4)
def _image(path: str, side: int) -> torch.Tensor:
    return protocol_images([path], side)


def observe(task: Task) -> tuple[torch.Tensor, Observation]:
    """x (1, C, H, W), and y = x + ε as every method of this image and cell sees it."""
    x = _image(task.path, task.side)
    y, noise = observed(x, task.sigma, task.phi, task.seed, task.index)
    # Methods that draw have streams of their own in every cell: another length of key than noise.
    cell = (round(1e4 * task.sigma), round(1e4 * (task.phi + 10)))
    own = Streams(task.seed, [(task.index, *cell)]).integers(0, 2**31 - 1)
    return x, Observation(y, noise, (task.sigma, task.phi), int(own[0]))


def work(task: Task) -> list[BenchmarkRecord]:
    """The records of a task, a row of the tables each."""
    x, seen = observe(task)
    records = []
    for row, found in GROUPS[task.group](seen, task.setup).items():
        estimate = found.x[None].to(x)
        records.append(
            {
                "set": task.dataset,
                "index": task.index,
                "image": Path(task.path).name,
                "sigma": task.sigma,
                "phi": task.phi,
                "group": task.group,
                "row": row,
                "psnr": float(psnr(estimate, x)[0]),
                "ssim": float(ssim(estimate, x)[0]),
                "seconds": found.seconds,
                "processor": found.processor,
                "calls": found.calls,
                "found": found.phi,
                "sd": found.sd,
                "total_sd": found.total_sd,
            }
        )
    return records


def files_for_tests(data: str | Path, hold_out_every: int = 0, selection: int = 0) -> list[Path]:
    """The images of a folder, or those of it that are held out of training for tests."""
    if hold_out_every <= 0:
        return image_files(data)
    held_out = Folder(".", hold_out_every, selection)
    files = split(data, [held_out]).test
    if not files:
        raise InputError(f"{data}: no image is left for tests")
    return files


def tasks(
    files: Sequence[Path],
    dataset: str,
    groups: Iterable[str],
    setup: Setup,
    *,
    cells: Sequence[SigmaPhi] = CELLS,
    side: int = PROTOCOL_SIDE,
    seed: int = SEED,
) -> list[Task]:
    """All of them, image by image, so that an early stop leaves whole images."""
    return [
        Task(dataset, index, str(path), sigma, phi, group, setup, side, seed)
        for index, path in enumerate(files)
        for sigma, phi in cells
        for group in groups
    ]


def benchmark(
    wanted: Sequence[Task],
    out: str | Path,
    *,
    mapper: Mapper = serial,
    watch: Callable[[int, int], None] | None = None,
) -> list[BenchmarkRecord]:
    """Do the tasks that OUT/images.jsonl does not hold yet; all its records, of all sets.

    `watch` is called with the number of tasks done, and of all.
    """
    if not wanted:
        raise InputError("nothing to do: no images or no methods")
    first = wanted[0]
    groups = {task.group: setting(task.group, task.setup) for task in wanted}
    protocol = {"side": first.side, "seed": first.seed, "boundary": "periodic"}
    Path(out).mkdir(parents=True, exist_ok=True)
    store = Store(Path(out) / RESULTS, protocol, groups)
    names = {(r["set"], r["index"]): r["image"] for r in store.records}
    for task in wanted:
        there = names.get((task.dataset, task.index))
        if there not in (None, Path(task.path).name):
            raise InputError(
                f"{store.path}: holds results of another configuration (image {task.index} of "
                f"{task.dataset} is {there} there and {Path(task.path).name} here); move it away "
                "or choose another folder"
            )
    done = {(r["set"], r["index"], r["sigma"], r["phi"], r["group"]) for r in store.records}
    left = [task for task in wanted if task.key not in done]
    count = len(wanted) - len(left)
    if watch is not None:
        watch(count, len(wanted))
    for records in mapper(work, left):
        store.add(records)
        count += 1
        if watch is not None:
            watch(count, len(wanted))
    return store.records
