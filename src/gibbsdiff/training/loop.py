"""Training within a budget: what `gibbsdiff train` calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from torch import Tensor

from gibbsdiff.training.checkpoint import load_checkpoint
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.log import RunLog
from gibbsdiff.training.objective import Model, objective_of
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.torch_state import threads
from gibbsdiff.training.trainer import Budget, Trainer


def train(
    config: TrainingConfig,
    data: str | Path,
    out: str | Path,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    resume: bool = False,
    init: str | Path | None = None,
    device: str = "auto",
    report: Callable[[str], None] | None = None,
) -> Model:
    """Train on the images or maps below `data`; write checkpoints, weights and logs into `out`.

    `init` gives the first weights; `resume` continues the checkpoint in `out`, whose spent
    minutes or steps count towards the budget. `report` is called with every line of the log, in
    the first process. Returns the averaged denoiser. Threads and seeds of torch are afterwards
    what they were.
    """
    budget, folder = Budget(minutes, steps), Path(out)
    with threads(config.threads), Processes.joined(device) as processes:
        objective = objective_of(config, data)
        with closing(objective.crops()) as crops:
            trainer = Trainer(objective, crops, processes)
            if init is not None:
                trainer.begin_from(init)
            if resume:
                checkpoint = folder / "checkpoint.pt"
                trainer.restore(load_checkpoint(checkpoint), checkpoint)
            if processes.first:
                folder.mkdir(parents=True, exist_ok=True)
                with closing(RunLog(trainer, budget, folder, objective.selection(), report)) as log:
                    _run(trainer, budget, log.before_step, log.after_step)
                    log.finish()
            else:
                _run(trainer, budget)
    return trainer.average


def _run(
    trainer: Trainer,
    budget: Budget,
    before_step: Callable[[float], None] | None = None,
    after_step: Callable[[Tensor, int], None] | None = None,
) -> None:
    """Steps until the budget is spent."""
    while (done := budget.done(trainer.step_count, trainer.seconds)) < 1:
        if before_step is not None:
            before_step(done)
        start = time.perf_counter()
        figures, pixels = trainer.step(done)
        # One clock for all processes: they must agree on the schedule and on the end.
        trainer.seconds += trainer.processes.agree(time.perf_counter() - start)
        if after_step is not None:
            after_step(figures, pixels)
