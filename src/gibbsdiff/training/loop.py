"""Training within a budget: what `gibbsdiff train` calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gibbsdiff.checks import InputError
from gibbsdiff.cosmo.training import DustObjective, dust_maps
from gibbsdiff.data.images import RandomCrops, centre, protocol_images, read_image, resized, split
from gibbsdiff.data.loader import LoadedCrops, Samples
from gibbsdiff.data.maps import ShiftedMaps
from gibbsdiff.training.checkpoint import load_checkpoint
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.log import Diary
from gibbsdiff.training.objective import Model
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.trainer import Budget, Source, Trainer


def train(
    config: TrainingConfig,
    data: str | Path,
    out: str | Path,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    resume: bool = False,
    init: str | Path | None = None,
) -> Model:
    """Train on the images or maps below `data`; write checkpoints, weights and logs into `out`.

    `init` gives the first weights; `resume` continues the checkpoint in `out`, whose spent
    minutes or steps count towards the budget. Returns the averaged denoiser.
    """
    budget = Budget(minutes, steps)
    torch.set_num_threads(config.threads)
    processes = Processes.join()
    folder = Path(out)
    trainer, selection = _begin(config, data, processes)
    if init is not None:
        trainer.begin_from(init)
    if resume:
        checkpoint = folder / "checkpoint.pt"
        trainer.restore(load_checkpoint(checkpoint), checkpoint)
    if processes.first:
        folder.mkdir(parents=True, exist_ok=True)
    _run(trainer, budget, folder, selection)
    trainer.crops.close()
    return trainer.average


def _begin(
    config: TrainingConfig, data: str | Path, processes: Processes
) -> tuple[Trainer, Tensor]:
    """The trainer and the images that choose between its checkpoints."""
    if config.data.maps:
        maps = dust_maps(config, data)
        shifted = ShiftedMaps(maps.finest, config.data.halved)
        return Trainer(config, shifted, processes, DustObjective(config, maps)), maps.selection
    roles = split(data, config.data.folders)
    trainer = Trainer(config, source(config, roles.train), processes)
    selection = protocol_images(roles.selection, config.evaluation.side)
    if config.network.channels == 1:
        selection = selection.mean(1, keepdim=True)
    return trainer, selection


def source(config: TrainingConfig, files: Sequence[Path]) -> Source:
    """Where crops come from: images in memory, or the workers that read them."""
    d, side = config.data, config.step.crop
    if d.loading == "workers":
        if d.also_at:
            raise InputError(
                'also_at keeps images in memory: it cannot go with loading = "workers"'
            )
        samples = Samples(files, side, crops=d.crops, symmetries=d.symmetries, seed=config.seed)
        return LoadedCrops(samples, d.workers)
    if d.crops == "protocol":
        return RandomCrops([centre(read_image(file), side) for file in files], d.symmetries)
    images = [read_image(file) for file in files]
    smaller = [resized(i, s) for s in d.also_at for i in images if min(i.shape[1:]) > s]
    return RandomCrops(images + smaller, d.symmetries)


def _run(trainer: Trainer, budget: Budget, folder: Path, selection: Tensor) -> None:
    first = trainer.processes.first
    diary = Diary(trainer, budget, folder, selection) if first else None
    while (done := budget.done(trainer.step_count, trainer.seconds)) < 1:
        if diary is not None:
            diary.before_step(done)
        start = time.perf_counter()
        figures, pixels = trainer.step(done)
        # One clock for all processes: they must agree on the schedule and on the end.
        trainer.seconds += trainer.processes.agree(time.perf_counter() - start)
        if diary is not None:
            diary.after_step(figures, pixels)
    if diary is not None:
        diary.close()
