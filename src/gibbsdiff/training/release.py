"""From a trained model to one that ships: calibrated, checked, and with a card that says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.pretrained import read_card, save_model
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.objective import objective_of
from gibbsdiff.training.parallel import device_named


def release(
    model: str | Path,
    config: TrainingConfig,
    data: str | Path,
    out: str | Path,
    *,
    name: str = "CONFIG",
    test_folders: Sequence[str | Path] = (),
    device: str = "auto",
) -> dict[str, Any]:
    """Calibrate a model on held-out images, measure it on the test images, and write it with all
    of that in its card to `out`, and the card as a page beside it. A model of the paper's kind has
    nothing to calibrate.

    `name` is the configuration's file, `test_folders` are further folders for PSNR tables.
    Returns the card.
    """
    objective = objective_of(config, data)
    denoiser = objective.load(model).to(device_named(device))
    measured = objective.calibrate_and_score(denoiser, test_folders)
    card = read_card(model) | measured
    budget = " ".join(f"--{k} {v:g}" for k, v in card["budget"].items() if v is not None)
    card["command"] = f"gibbsdiff train {name} --data DIR --out OUT {budget}"
    card["date"] = date.today().isoformat()
    objective.save(denoiser, Path(out), card)
    page = Path(out).with_suffix(".md")
    write_atomically(page, objective.page(page.stem, card))
    return card


def calibrate_file(
    model: str | Path,
    config: TrainingConfig,
    data: str | Path,
    out: str | Path,
    *,
    device: str = "auto",
) -> SpectralDenoiser:
    """Measure a model's calibration alone, and write the model with it."""
    objective = objective_of(config, data)
    denoiser: SpectralDenoiser = objective.load(model).to(device_named(device))
    denoiser.calibration = objective.calibration(denoiser)
    save_model(denoiser, out, read_card(model))
    return denoiser
