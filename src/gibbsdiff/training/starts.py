"""Fitting the regressions of `gibbsdiff.inference.starts` on the calibration images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.errors import InputError
from gibbsdiff.inference.starts import Regression, features, save_regressions
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.error_table import quadrants
from gibbsdiff.training.noise import NoiseLaw, add_noise

REPEATS = 24  # noises for every image


def fit_starts(
    config: TrainingConfig, data: str | Path, out: str | Path
) -> dict[int, dict[str, float]]:
    """Fit on two thirds of the calibration images and report the error of ½ log N on the rest;
    then fit on all of them and write the regressions for grey and for colour.
    """
    images = split(data, config.data.folders).calibration
    if len(images) < 3:
        raise InputError(f"{data}: the configuration holds out fewer than 3 calibration images")
    x = protocol_images(images, config.evaluation.side)
    sizes = [quadrants(x), quadrants(quadrants(x))[::4], x]
    report, fits = {}, {}
    for channels in (1, 3):
        parts = []
        for pictures in sizes:
            shown = pictures if channels == 3 else pictures.mean(1, keepdim=True)
            held = torch.arange(len(shown)) // (len(shown) // len(x)) % 3 == 0
            law = replace(config.noise, camera_part=0.0)  # one spectrum is guessed for all channels
            parts.append(_observations(shown, held, law, config.seed))
        f, d, held = (torch.cat(column) for column in zip(*parts, strict=True))
        part = Regression.fit(f[~held], d[~held])
        missed = f[held] @ part.weight - d[held]
        report[channels] = {"rms": float(missed.square().mean().sqrt())}
        fits[channels] = Regression.fit(f, d)
    save_regressions(out, fits)
    return report


def _observations(
    x: Tensor, held: Tensor, law: NoiseLaw, seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Features and descriptors of y = x + ε, many noises for every image."""
    rng = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(REPEATS):
        for part in torch.arange(len(x)).split(44):
            z, noise = add_noise(x[part], rng, law)
            assert noise.descriptor is not None
            rows.append((features(z), noise.descriptor[:, 0].double(), held[part]))
    f, d, h = (torch.cat(column) for column in zip(*rows, strict=True))
    return f, d, h
