"""What a run writes: lines, tables, checkpoints, weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from gibbsdiff.pretrained import save_model
from gibbsdiff.training.checkpoint import TableLog, save_checkpoint, tensorboard
from gibbsdiff.training.evaluation import evaluate, summary
from gibbsdiff.training.trainer import Budget, Trainer

LOG_EVERY = 50


class Diary:
    """What the first process writes: lines, tables, checkpoints, weights."""

    def __init__(self, trainer: Trainer, budget: Budget, folder: Path, selection: Tensor) -> None:
        self.trainer, self.budget, self.folder = trainer, budget, folder
        self.selection = selection
        self.console = Console(highlight=False, soft_wrap=True)
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
        """Note a step's figures; every so often, write their means."""
        t = self.trainer
        self.recent.append(figures)
        self.pixels += pixels
        if t.step_count % LOG_EVERY == 0:
            self._write_steps()

    def _write_steps(self) -> None:
        t = self.trainer
        if not self.recent:
            return
        names = ("relative", "pixel", "spectral", "gradient", "rate")
        means = dict(zip(names, torch.stack(self.recent).mean(0).tolist(), strict=True))
        speed = self.pixels / 1e6 / max(t.seconds - self.since, 1e-9)
        row = {"step": t.step_count, "minutes": t.seconds / 60, **means}
        self.steps.write({**row, "mpixel_per_s": speed, "skipped": t.skipped})
        self.console.print(
            f"{t.step_count:6d} {t.seconds / 60:7.2f} min  loss {means['relative']:.4f}  "
            f"pixel {means['pixel']:+.4f}  spectral {means['spectral']:+.4f}  "
            f"rate {means['rate']:.2e}  {speed:.4f} Mpixel/s"
            + (f"  {t.skipped} skipped" if t.skipped else "")
        )
        self.recent, self.pixels, self.since = [], 0, t.seconds

    def evaluate(self) -> None:
        """Score the averaged weights on the selection images."""
        t, c = self.trainer, self.trainer.config.evaluation
        if len(self.selection) == 0:
            return
        row = summary(evaluate(t.average, self.selection, c.sigma, c.phi, c.batch))
        self.scores.write({"step": t.step_count, "minutes": t.seconds / 60, **row})
        cells = " ".join(f"{v:.2f}" for k, v in row.items() if k.startswith("psnr_"))
        self.console.print(
            f"{t.step_count:6d} selection: PSNR {row['psnr']:.3f} ({cells})  "
            f"loss {row['relative']:.4f}  pixel {row['pixel']:+.4f}  "
            f"spectral {row['spectral']:+.4f}"
        )

    def save(self) -> None:
        """Checkpoint, and the averaged weights as a model file."""
        t = self.trainer
        save_checkpoint(self.folder / "checkpoint.pt", t.state())
        save_model(t.average, self.folder / "model.safetensors", self._card())

    def _keep_before_decay(self) -> None:
        """A later run continues from these, not from the decayed ones: fp32."""
        t, card = self.trainer, self._card()
        save_checkpoint(self.folder / "before-decay.pt", t.state())
        save_model(t.denoiser, self.folder / "before-decay.safetensors", card, torch.float32)
        average = self.folder / "before-decay-average.safetensors"
        save_model(t.average, average, card, torch.float32)

    def _card(self) -> dict[str, Any]:
        t = self.trainer
        return {
            "steps": t.step_count,
            "minutes": round(t.seconds / 60, 2),
            "skipped": t.skipped,
            "budget": asdict(self.budget),
            "config": asdict(t.config),
        }

    def close(self) -> None:
        """The last line, checkpoint and scores."""
        self._write_steps()
        self.save()
        self.evaluate()
        if self.board is not None:
            self.board.close()
