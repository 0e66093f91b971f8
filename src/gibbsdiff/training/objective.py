"""What is trained, on what noise, by what loss: the denoiser of eq. (4), or the paper's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, Process, VariancePreserving
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.networks.original import OriginalUNet
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.families import PowerLawNoise
from gibbsdiff.pretrained import load_model, save_model
from gibbsdiff.pretrained.epsilon import load_epsilon, save_epsilon
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.evaluation import evaluate, psnr_table, summary
from gibbsdiff.training.noise import add_noise

Model = SpectralDenoiser | EpsilonDenoiser
M = TypeVar("M", SpectralDenoiser, EpsilonDenoiser)


class Objective(ABC, Generic[M]):
    """A kind of model: how it is made, trained, scored and stored.

    `parts` names the losses that are logged; the sum that is minimised has the `weights`.
    """

    parts: tuple[str, ...]
    weights: tuple[float, ...]
    headline = ("PSNR", "psnr")
    """What an evaluation is told by: its name and its column."""

    def __init__(self, config: TrainingConfig) -> None:
        self.config = config

    def facts(self) -> dict[str, Any]:
        """What a model's card says beyond its configuration and its training."""
        return {}

    @abstractmethod
    def model(self) -> M:
        """A new model."""

    @abstractmethod
    def noisy(
        self, x: Tensor, rows: Tensor, count: int, rng: torch.Generator
    ) -> tuple[Tensor, SpectralCovariance]:
        """z = x + noise and the noise's covariance, for x the rows `rows` of a batch of `count`.

        A row's noise, and the state that `rng` is left in, do not depend on which rows are asked.
        """

    @abstractmethod
    def losses(self, model: M, x: Tensor, z: Tensor, noise: SpectralCovariance) -> Sequence[Tensor]:
        """(B,) of every part."""

    @abstractmethod
    def evaluate(self, model: M, images: Tensor) -> dict[str, float]:
        """Scores on images (B, C, H, W), PSNR among them."""

    @abstractmethod
    def save(
        self,
        model: M,
        path: Path,
        card: Mapping[str, Any],
        dtype: torch.dtype = torch.float16,
    ) -> None:
        """Write a model file."""

    @abstractmethod
    def load(self, path: str | Path) -> M:
        """Read a model file."""


class SpectralObjective(Objective[SpectralDenoiser]):
    """Loss (6), in pixels and in units of the noise, and the two likelihoods of eq. (7)."""

    parts = ("relative", "whitened", "pixel", "spectral")

    def __init__(self, config: TrainingConfig, signal: Signal | None = None) -> None:
        super().__init__(config)
        c = config.step
        self.weights = (1.0, c.whitened, c.pixel, c.spectral)
        self.signal = signal or config.signal

    def model(self) -> SpectralDenoiser:
        """The Wiener filter, nearly."""
        net = self.config.network
        network = UNet(
            net.channels, net.widths, net.blocks, embedding=net.embedding, padding=net.padding
        )
        return SpectralDenoiser(network, self.signal)

    def noisy(
        self, x: Tensor, rows: Tensor, count: int, rng: torch.Generator
    ) -> tuple[Tensor, SpectralCovariance]:
        """By the law of the configuration."""
        nothing = torch.zeros(1, *x.shape[1:]).expand(count, -1, -1, -1)
        noise, told = add_noise(nothing, rng, self.config.noise)
        return x + noise[rows], told.rows(rows)

    def losses(
        self, model: SpectralDenoiser, x: Tensor, z: Tensor, noise: SpectralCovariance
    ) -> Sequence[Tensor]:
        """Those of `Losses`."""
        return model.losses(x, z, noise)

    def evaluate(self, model: SpectralDenoiser, images: Tensor) -> dict[str, float]:
        """PSNR and the losses, told the truth about the noise."""
        c = self.config.evaluation
        return summary(evaluate(model, images, c.sigma, c.phi, c.batch))

    def save(
        self,
        model: SpectralDenoiser,
        path: Path,
        card: Mapping[str, Any],
        dtype: torch.dtype = torch.float16,
    ) -> None:
        """As `save_model`."""
        save_model(model, path, card, dtype)

    def load(self, path: str | Path) -> SpectralDenoiser:
        """As `load_model`."""
        return load_model(path)


class EpsilonObjective(Objective[EpsilonDenoiser]):
    """E‖ε_θ(z_t, t, φ) - ε‖² per pixel, as in the paper, for t uniform and φ from its prior.

    Time is one of the T steps of the discrete chain of "original", any of (0, 1] for "resunet".
    """

    parts = ("epsilon",)
    weights = (1.0,)

    def __init__(self, config: TrainingConfig) -> None:
        super().__init__(config)
        m = config.model
        self.family: StationaryNoise = {"power-law": PowerLawNoise}[m.family]()
        self.process: Process = (
            DiscreteVariancePreserving(m.steps, m.beta_min, m.beta_max)
            if m.kind == "original"
            else VariancePreserving(m.beta_min, m.beta_max)
        )
        self.ranges = [
            (p.low, p.high) for p in self.family.parameters if p.name != self.family.amplitude
        ]

    def model(self) -> EpsilonDenoiser:
        """PyTorch's default weights."""
        m, channels = self.config.model, self.config.network.channels
        network: nn.Module
        if m.kind == "original":
            network = OriginalUNet(channels, len(self.ranges), m.steps, width=m.width)
        else:
            widths = [m.width * 2**i for i in range(m.levels)]
            network = ResUNet(channels, len(self.ranges), widths)
        return EpsilonDenoiser(network, self.process, self.ranges)

    def noisy(
        self, x: Tensor, rows: Tensor, count: int, rng: torch.Generator
    ) -> tuple[Tensor, SpectralCovariance]:
        """Periodic noise of the family; its level is that of the time, whatever its σ."""
        seed = int(torch.randint(2**62, (), generator=rng))
        streams = Streams(seed, [(row,) for row in rows.tolist()])
        phi = self.family.draw_prior(streams)
        drawn = self.family.covariance((x.shape[-2], x.shape[-1]), phi, x.dtype)
        noise = drawn.scaled(self.process.level(self._times(streams)) / drawn.level)
        return x + noise.draw(streams, x.shape[1]), noise

    def _times(self, streams: Streams) -> Tensor:
        if isinstance(self.process, DiscreteVariancePreserving):
            return streams.integers(1, self.process.steps) / self.process.steps
        return 1 - streams.uniform()

    def losses(
        self, model: EpsilonDenoiser, x: Tensor, z: Tensor, noise: SpectralCovariance
    ) -> Sequence[Tensor]:
        """The one part."""
        return (model.losses(x, z, noise),)

    def evaluate(self, model: EpsilonDenoiser, images: Tensor) -> dict[str, float]:
        """PSNR, told the truth about the noise."""
        c, device = self.config.evaluation, next(model.parameters()).device
        return psnr_table(model, images, c.sigma, c.phi, c.batch, device=device)

    def save(
        self,
        model: EpsilonDenoiser,
        path: Path,
        card: Mapping[str, Any],
        dtype: torch.dtype = torch.float16,
    ) -> None:
        """As `save_epsilon`."""
        save_epsilon(model, path, card, dtype)

    def load(self, path: str | Path) -> EpsilonDenoiser:
        """As `load_epsilon`."""
        return load_epsilon(path)


def objective_of(config: TrainingConfig) -> Objective[Any]:
    """The objective that `[model] kind` names."""
    kind = SpectralObjective if config.model.kind == "spectral" else EpsilonObjective
    made: Objective[Any] = kind(config)
    return made
