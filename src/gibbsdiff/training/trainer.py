"""The state of a training run and its one step: crops, noise, loss, update."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.data.changes import darkened, enlarged
from gibbsdiff.errors import InputError
from gibbsdiff.networks.precision import precision
from gibbsdiff.pretrained import channels_last
from gibbsdiff.training.objective import Model, Objective, Source
from gibbsdiff.training.optimizer import optimizers
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.torch_state import seeded


@dataclass(frozen=True)
class Budget:
    """How long to train: minutes of training proper, or steps (then a run is deterministic)."""

    minutes: float | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.steps is None):
            raise InputError("a budget is either minutes or steps")
        if (self.minutes or self.steps or 0) <= 0:
            raise InputError("a budget must be positive")

    def done(self, step: int, seconds: float) -> float:
        """The fraction spent."""
        if self.steps is not None:
            return step / self.steps
        assert self.minutes is not None
        return seconds / (60 * self.minutes)


class Trainer:
    """The state of a run: weights, their average, optimizers, random state, step, seconds."""

    def __init__(self, objective: Objective[Any], crops: Source, processes: Processes) -> None:
        self.objective, self.crops, self.processes = objective, crops, processes
        self.config = config = objective.config
        with seeded(config.seed):
            model = objective.model()
        self.denoiser: Model = channels_last(model).to(processes.device)
        self.average = copy.deepcopy(self.denoiser).requires_grad_(False)
        self.optimizers = optimizers(self.denoiser.network, config.schedule.lr, config.optimizer)
        self.rng = torch.Generator().manual_seed(config.seed)
        self.step_count = 0
        self.skipped = 0
        self.seconds = 0.0

    def begin_from(self, weights: str | Path) -> None:
        """Take the network's first weights from a model file."""
        given = self.objective.load(weights).network.state_dict()
        for denoiser in (self.denoiser, self.average):
            own = denoiser.network.state_dict()
            if {k: v.shape for k, v in given.items()} != {k: v.shape for k, v in own.items()}:
                raise InputError(f"{weights}: its network is not the one of the configuration")
            denoiser.network.load_state_dict(given)

    def step(self, done: float) -> tuple[Tensor, int]:
        """One update at the fraction `done` of the budget.

        Returns the batch's mean losses, one for each part of the objective, with the gradient's
        norm and the rate, and the pixels seen. A step whose gradient is not finite is left out,
        and counted.
        """
        c = self.config.step
        rate = self.config.schedule.set(self.optimizers, done)
        count, side = c.size(done)
        # What is random is drawn for the whole batch by every process, which takes its own rows.
        mine = self.processes.rows(count)
        x = self.crops.batch(self.step_count, count, side, mine.tolist(), self.rng)
        x = self._changed(x, mine, count)
        grey = torch.rand(count, 1, 1, 1, generator=self.rng)[mine] < self.config.data.grey
        x = torch.where(grey, x.mean(1, keepdim=True), x)
        if self.config.network.channels == 1:
            x = x.mean(1, keepdim=True)
        z, noise = self.objective.noisy(x, mine, count, self.rng)

        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        to = self.processes.device
        with precision(self.denoiser.network, self.config.precision):
            losses = self.objective.losses(self.denoiser, x.to(to), z.to(to), noise.to(to))
        means = torch.stack([loss.sum() / count for loss in losses]).float()
        weighted = zip(self.objective.weights, means, strict=True)
        torch.stack([weight * mean for weight, mean in weighted]).sum().backward()
        parameters = list(self.denoiser.parameters())
        means = self.processes.sum(parameters, means.detach())
        norm = nn.utils.clip_grad_norm_(parameters, c.clip)
        if bool(torch.isfinite(norm)):
            for optimizer in self.optimizers:
                optimizer.step()
            self._update_average()
        else:
            self.skipped += 1
        self.step_count += 1
        figures = torch.cat([means, norm[None], means.new_tensor([rate])])
        return figures.cpu(), count * side**2

    def _changed(self, x: Tensor, rows: Tensor, count: int) -> Tensor:
        """Some crops enlarged, some darkened."""
        d = self.config.data
        if d.zoom:
            x = enlarged(x, rows, count, self.rng, d.zoom, d.zoom_by)
        return darkened(x, rows, count, self.rng, d.dark) if d.dark else x

    @torch.no_grad()
    def _update_average(self) -> None:
        """Average ← d · average + (1-d) · weights, with a short memory at first."""
        memory = min(self.config.step.average, (1 + self.step_count) / (10 + self.step_count))
        pairs = zip(self.average.parameters(), self.denoiser.parameters(), strict=True)
        for slow, fast in pairs:
            slow.lerp_(fast, 1 - memory)

    def state(self) -> dict[str, Any]:
        """All that resuming needs."""
        return {
            "step": self.step_count,
            "skipped": self.skipped,
            "seconds": self.seconds,
            "rng": self.rng.get_state(),
            "network": self.denoiser.network.state_dict(),
            "average": self.average.network.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }

    def restore(self, state: dict[str, Any], path: Path) -> None:
        """Continue from a saved state."""
        try:
            self.denoiser.network.load_state_dict(state["network"])
            self.average.network.load_state_dict(state["average"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
            self.rng.set_state(state["rng"])
            self.step_count, self.skipped = state["step"], state["skipped"]
            self.seconds = state["seconds"]
        except (KeyError, RuntimeError, ValueError) as trouble:
            reason = str(trouble).split("\n", 1)[0]
            raise InputError(f"{path}: does not fit the configuration ({reason})") from None
