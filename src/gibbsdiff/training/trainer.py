"""The state of a training run and its one step: crops, noise, loss, update."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.checks import InputError
from gibbsdiff.data.images import RandomCrops
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.networks.unet import UNet
from gibbsdiff.pretrained import channels_last, load_model
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.noise import add_noise
from gibbsdiff.training.optimizer import optimizers
from gibbsdiff.training.parallel import Processes


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

    def __init__(self, config: TrainingConfig, crops: RandomCrops, processes: Processes) -> None:
        torch.manual_seed(config.seed)  # only the first weights come from here
        net = config.network
        network = UNet(
            net.channels, net.widths, net.blocks, embedding=net.embedding, padding=net.padding
        )
        self.config = config
        self.crops = crops
        self.processes = processes
        self.denoiser = channels_last(SpectralDenoiser(network, config.signal))
        self.average = copy.deepcopy(self.denoiser).requires_grad_(False)
        self.optimizers = optimizers(network, config.schedule.lr)
        self.rng = torch.Generator().manual_seed(config.seed)
        self.step_count = 0
        self.skipped = 0
        self.seconds = 0.0

    def begin_from(self, weights: str | Path) -> None:
        """Take the network's first weights from a model file."""
        given = load_model(weights).network.state_dict()
        for denoiser in (self.denoiser, self.average):
            own = denoiser.network.state_dict()
            if {k: v.shape for k, v in given.items()} != {k: v.shape for k, v in own.items()}:
                raise InputError(f"{weights}: its network is not the one of the configuration")
            denoiser.network.load_state_dict(given)

    def step(self, done: float) -> tuple[Tensor, int]:
        """One update at the fraction `done` of the budget.

        Returns the batch's mean losses (relative, pixel, spectral) with the gradient's norm, and
        the pixels seen. A step whose gradient is not finite is left out, and counted.
        """
        c = self.config.step
        rate = self.config.schedule.set(self.optimizers, done)
        count, side = c.size(done)
        x = self.crops.draw(count, side, self.rng)
        grey = torch.rand(count, 1, 1, 1, generator=self.rng) < self.config.data.grey
        x = torch.where(grey, x.mean(1, keepdim=True), x)
        if self.config.network.channels == 1:
            x = x.mean(1, keepdim=True)
        z, noise = add_noise(x, self.rng, self.config.noise)

        # Every process draws the whole batch and takes its own rows.
        mine = self.processes.rows(count)
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses = self.denoiser.losses(x[mine], z[mine], noise.rows(mine))
        means = torch.stack([loss.sum() / count for loss in losses]).float()
        (means[0] + c.pixel * means[1] + c.spectral * means[2]).backward()
        parameters = list(self.denoiser.parameters())
        means = self.processes.sum(parameters, means.detach())
        norm = nn.utils.clip_grad_norm_(parameters, c.clip)
        if bool(torch.isfinite(norm)):
            for optimizer in self.optimizers:
                optimizer.step()
            self._follow()
        else:
            self.skipped += 1
        self.step_count += 1
        return torch.cat([means, norm[None], torch.tensor([rate])]), count * side**2

    @torch.no_grad()
    def _follow(self) -> None:
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
