"""What is trained: its data, its network, its noise, its loss and its files, by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.registry import find
from gibbsdiff.training.card import folders_line, markdown, psnr_tables
from gibbsdiff.training.config import OBJECTIVES, TrainingConfig

Model = SpectralDenoiser | EpsilonDenoiser
M = TypeVar("M", SpectralDenoiser, EpsilonDenoiser)


class Source(Protocol):
    """Where the images of a step come from."""

    def batch(
        self, step: int, count: int, side: int, rows: Sequence[int], rng: torch.Generator
    ) -> Tensor:
        """Some rows of the batch of a step: (rows, C, side, side), float32; pictures on [0, 1]."""

    def close(self) -> None:
        """Close whatever is open."""


class Objective(ABC, Generic[M]):
    """A kind of model: how it is made, trained, scored, calibrated and stored.

    It is made from a configuration and the directory of its data, which is read when asked for.
    `parts` names the losses that are logged; the sum that is minimised has the `weights`.
    """

    parts: tuple[str, ...]
    weights: tuple[float, ...]
    headline = ("PSNR", "psnr")
    """The score that a log line shows first: its name and its column."""

    def __init__(self, config: TrainingConfig, data: str | Path = ".") -> None:
        self.config, self.data = config, Path(data)

    @abstractmethod
    def crops(self) -> Source:
        """The training images."""

    @abstractmethod
    def selection(self) -> Tensor:
        """The images that checkpoints are scored on: (B, C, H, W), none of them trained on."""

    @abstractmethod
    def model(self) -> M:
        """A new model, its weights drawn from torch's global generator."""

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
        """Scores on images (B, C, H, W), the headline's among them."""

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

    def facts(self) -> dict[str, Any]:
        """What a model's card says beyond its configuration and its training."""
        return {}

    def calibration(self, model: M) -> Calibration:
        """The model's error as measured on held-out images; not every kind has a model of it."""
        raise InputError(f"[model] kind {self.config.model.kind!r} has no error model to calibrate")

    def calibrate_and_score(self, model: M, folders: Sequence[str | Path] = ()) -> dict[str, Any]:
        """Give the model its calibration and measure how good it is on the images held out for
        tests, and on those of further `folders`: entries of its card.
        """
        raise InputError(f"[model] kind {self.config.model.kind!r} has no error model to calibrate")

    def page(self, name: str, card: Mapping[str, Any]) -> str:
        """The card as Markdown."""
        return markdown(name, card, folders_line(card), psnr_tables(card), "crops")


def objective_of(config: TrainingConfig, data: str | Path = ".") -> Objective[Any]:
    """The objective registered under `[model] kind`."""
    made: Objective[Any] = find(OBJECTIVES, config.model.kind)(config, data)
    return made
