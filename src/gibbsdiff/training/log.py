"""What a run writes: lines, tables, checkpoints, weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.training.checkpoint import TableLog, save_checkpoint, tensorboard
from gibbsdiff.training.trainer import Budget, Trainer

LOG_EVERY = 50


class RunLog:
    """What the first process writes into the folder of a run; `report` gets each line."""

    def __init__(
        self,
        trainer: Trainer,
        budget: Budget,
        folder: Path,
        selection: Tensor,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self.trainer, self.budget, self.folder = trainer, budget, folder
        self.selection = selection
        self.report = report or (lambda _: None)
        board = tensorboard(folder / "tensorboard")
        self.board = board
        self.steps = TableLog(folder / "steps.csv", trainer.step_count, board)
        self.scores = TableLog(folder / "selection.csv", trainer.step_count, board)
        self.recent: list[Tensor] = []
        self.pixels = 0
        self.since = trainer.seconds
        self.saved = self.evaluated = trainer.seconds
        self.decay_begun = trainer.config.schedule.decays(
            budget.done(trainer.step_count, trainer.seconds)
        )

    def before_step(self, done: float) -> None:
        """Keep the weights when the decay begins; evaluate and save when it is time."""
        t = self.trainer
        if not self.decay_begun and t.config.schedule.decays(done):
            self.decay_begun = True
            self._keep_before_decay()
        if t.seconds - self.evaluated >= 60 * t.config.evaluation.every:
            self.evaluated = t.seconds
            self.evaluate()
        if t.seconds - self.saved >= 60 * t.config.checkpoint_every:
            self.saved = t.seconds
            self.save()

    def after_step(self, figures: Tensor, pixels: int) -> None:
        """Keep a step's figures; every so often, write their means."""
        t = self.trainer
        self.recent.append(figures)
        self.pixels += pixels
        if t.step_count % LOG_EVERY == 0:
            self._write_steps()

    def _write_steps(self) -> None:
        t = self.trainer
        if not self.recent:
            return
        names = (*t.objective.parts, "gradient", "rate")
        means = dict(zip(names, torch.stack(self.recent).mean(0).tolist(), strict=True))
        speed = self.pixels / 1e6 / max(t.seconds - self.since, 1e-9)
        row = {"step": t.step_count, "minutes": t.seconds / 60, **means}
        self.steps.write({**row, "mpixel_per_s": speed, "skipped": t.skipped})
        self.report(
            f"{t.step_count:6d} {t.seconds / 60:7.2f} min  {_figures(means, t.objective.parts)}  "
            f"rate {means['rate']:.2e}  {speed:.4f} Mpixel/s"
            + (f"  {t.skipped} skipped" if t.skipped else "")
        )
        self.recent, self.pixels, self.since = [], 0, t.seconds

    def evaluate(self) -> None:
        """Score the averaged weights on the selection images."""
        t = self.trainer
        if len(self.selection) == 0:
            return
        row = t.objective.evaluate(t.average, self.selection)
        self.scores.write({"step": t.step_count, "minutes": t.seconds / 60, **row})
        name, key = t.objective.headline
        cells = " ".join(f"{v:.2f}" for k, v in row.items() if k.startswith(f"{key}_"))
        self.report(
            f"{t.step_count:6d} selection: {name} {row[key]:.3f} ({cells})  "
            + _figures(row, t.objective.parts)
        )

    def save(self) -> None:
        """Checkpoint, and the averaged weights as a model file."""
        t = self.trainer
        save_checkpoint(self.folder / "checkpoint.pt", t.state())
        t.objective.save(t.average, self.folder / "model.safetensors", self._card())

    def _keep_before_decay(self) -> None:
        """A later run continues from these, not from the decayed ones: fp32."""
        t, card = self.trainer, self._card()
        save_checkpoint(self.folder / "before-decay.pt", t.state())
        for model, name in ((t.denoiser, "before-decay"), (t.average, "before-decay-average")):
            t.objective.save(model, self.folder / f"{name}.safetensors", card, torch.float32)

    def _card(self) -> dict[str, Any]:
        t = self.trainer
        return {
            "steps": t.step_count,
            "minutes": round(t.seconds / 60, 2),
            "skipped": t.skipped,
            "budget": asdict(self.budget),
            "config": asdict(t.config),
            **t.objective.facts(),
        }

    def finish(self) -> None:
        """The last line, checkpoint and scores."""
        self._write_steps()
        self.save()
        self.evaluate()

    def close(self) -> None:
        """Close what is open, whether the run came to its end or not."""
        if self.board is not None:
            self.board.close()


def _figures(row: Mapping[str, float], parts: Sequence[str]) -> str:
    return "  ".join(f"{name} {row[name]:+.4f}" for name in parts if name in row)
