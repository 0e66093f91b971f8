"""The denoiser of eq. (4) for photographs: how it is trained, calibrated and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.data.images import Split, image_files, protocol_images
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.setting import SURE
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.level import LevelMap, brightness
from gibbsdiff.pretrained import load_spectral, save_model
from gibbsdiff.training.camera import draw_levels
from gibbsdiff.training.camera_error import LIGHT, with_camera
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.error_table import as_rows, check_errors, quadrants
from gibbsdiff.training.evaluation import Cell, evaluate, summary
from gibbsdiff.training.folders import picture_crops, picture_files, scored_pictures
from gibbsdiff.training.noise import add_noise
from gibbsdiff.training.noise_error import fit_calibration
from gibbsdiff.training.objective import Objective, Source
from gibbsdiff.training.stored import stored

QUIET = (0.006,)  # levels that c is measured at beside its own, for networks that have met them


class SpectralObjective(Objective[SpectralDenoiser]):
    """Loss (6), in pixels and in units of the noise, and the two likelihoods of eq. (7)."""

    parts = ("relative", "whitened", "pixel", "spectral")

    def __init__(self, config: TrainingConfig, data: str | Path = ".") -> None:
        super().__init__(config, data)
        c = config.step
        self.weights = (1.0, c.whitened, c.pixel, c.spectral)

    @cached_property
    def files(self) -> Split:
        """The pictures by role."""
        return picture_files(self.config, self.data)

    @property
    def signal(self) -> Signal:
        """S_x of the preconditioning."""
        return self.config.signal

    def crops(self) -> Source:
        """Crops of the training pictures."""
        return picture_crops(self.config, self.files.train)

    def selection(self) -> Tensor:
        """The selection pictures by the paper's protocol."""
        return scored_pictures(self.config, self.files.selection)

    def model(self) -> SpectralDenoiser:
        """Nearly the Wiener filter: the network's output begins small."""
        net = self.config.network
        network = UNet(
            net.channels,
            net.widths,
            net.blocks,
            embedding=net.embedding,
            told=net.told,
            level_plane=net.level_plane,
            padding=net.padding,
        )
        return SpectralDenoiser(network, self.signal)

    def noisy(
        self, x: Tensor, rows: Tensor, count: int, rng: torch.Generator
    ) -> tuple[Tensor, SpectralCovariance]:
        """By the noise law of the configuration. Where the level goes with the brightness, it is
        that of x, and the network is told that of z: by the clean picture's it would copy it.
        """
        nothing, law = torch.zeros(1, *x.shape[1:]).expand(count, -1, -1, -1), self.config.noise
        noise, covariance = add_noise(nothing, rng, law)
        noise, covariance = noise[rows], covariance.rows(rows)
        level = draw_levels(count, rng, law.gain_part).rows(rows) if law.gain_part else None
        z = x + (noise if level is None else level.g(brightness(x, LIGHT)) * noise)
        if law.jpeg_part:
            u = torch.rand(count, 3, generator=rng)[rows]
            z, covariance = stored(x, z, covariance, u, law.jpeg_part)
        if level is None:
            return z, covariance
        return z, replace(covariance, level_map=LevelMap(level.g(brightness(z))))

    def losses(
        self, model: SpectralDenoiser, x: Tensor, z: Tensor, noise: SpectralCovariance
    ) -> Sequence[Tensor]:
        """The four of `gibbsdiff.diffusion.losses`."""
        return losses(model, x, z, noise)

    def evaluate(self, model: SpectralDenoiser, images: Tensor) -> dict[str, float]:
        """PSNR and the losses at the true (σ, φ)."""
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
        """As `load_spectral`."""
        return load_spectral(path)

    def calibration(self, model: SpectralDenoiser) -> Calibration:
        """c of eq. (7), and bias and scatter of eq. (12), on the quarters of the calibration and
        selection images: half the side that scores are measured at. A network that has seen cameras
        has both on noise like theirs too.
        """
        # c also where power laws leave the prior of σ: cameras are quieter.
        quiet = [s for s in QUIET if s >= self.config.noise.level[0]]
        found = fit_calibration(model, self._held_out(), more=quiet, rule=SURE)
        if not self.config.noise.camera_part:
            return found
        known = SpectralDenoiser(model.network, model.signal, found)
        return with_camera(known, self._held_out(), SURE)

    def calibrate_and_score(
        self, model: SpectralDenoiser, folders: Sequence[str | Path] = ()
    ) -> dict[str, Any]:
        """PSNR tables, and the error model checked on the first quarter of each test image."""
        if not self.files.test:
            raise InputError(f"{self.data}: the configuration holds out no test images")
        model.calibration = self.calibration(model)
        c = self.config.evaluation
        test = protocol_images(self.files.test, c.side)
        tables = {"test": _table(evaluate(model, test, c.sigma, c.phi, c.batch))}
        for folder in folders:
            images = protocol_images(image_files(folder), c.side)
            tables[Path(folder).name] = _table(evaluate(model, images, c.sigma, c.phi, c.batch))
        reports = check_errors(model, quadrants(test)[::4], c.sigma, c.phi)
        return {
            "calibration": {"images": len(self._held_out()), "check": as_rows(reports)},
            "psnr": tables,
        }

    def _held_out(self) -> Tensor:
        if not self.files.calibration:
            raise InputError(f"{self.data}: the configuration holds out no calibration images")
        known = [*self.files.calibration, *self.files.selection]
        return quadrants(protocol_images(known, self.config.evaluation.side))


def _table(cells: Sequence[Cell]) -> dict[str, Any]:
    mean = sum(cell.psnr for cell in cells) / len(cells)
    rows = [[cell.sigma, cell.phi, round(cell.psnr, 3)] for cell in cells]
    return {"mean": round(mean, 3), "cells": rows}
