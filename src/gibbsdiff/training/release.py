"""From a trained model to one that ships: calibrated, checked, and with a card that says so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from gibbsdiff.checks import InputError
from gibbsdiff.cosmo.training import calibrate_dust, release_dust
from gibbsdiff.data.images import image_files, protocol_images, split
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.pretrained import load_model, read_card, save_model
from gibbsdiff.training.calibrate import check, checked, quadrants
from gibbsdiff.training.card import markdown
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.evaluation import Cell, evaluate
from gibbsdiff.training.noise_error import calibrate


def release(
    model: str | Path,
    config: TrainingConfig,
    data: str | Path,
    out: str | Path,
    *,
    name: str = "CONFIG",
    test_folders: Sequence[str | Path] = (),
) -> dict[str, Any]:
    """Measure the gain, c, and how wrong the noise is on the calibration images, check c on the
    test images, and write the model with all and its PSNR tables to `out`, and the card as a page
    beside it.

    Errors are measured at half the side of the evaluation images: on the quarters of the
    calibration and selection images, none of which trained the network, and on the first quarter
    of each test image. `name` is the configuration's
    file, `test_folders` are further folders for PSNR tables. Returns the card.

    For maps of dust: the whole maps of the calibration and of the test block.
    """
    denoiser = load_model(model)
    if config.data.maps:
        card = read_card(model) | release_dust(denoiser, config, data)
        return _written(denoiser, card, out, name)
    roles = split(data, config.data.folders)
    if not roles.calibration or not roles.test:
        raise InputError(f"{data}: the configuration holds out no calibration or no test images")
    side, c = config.evaluation.side, config.evaluation
    known = quadrants(protocol_images([*roles.calibration, *roles.selection], side))
    denoiser.calibration = calibrate(denoiser, known)
    test = protocol_images(roles.test, side)
    card = read_card(model)
    card["calibration"] = {
        "images": len(known),
        "check": checked(check(denoiser, quadrants(test)[::4], c.sigma, c.phi)),
    }
    card["psnr"] = {"test": _table(evaluate(denoiser, test, c.sigma, c.phi, c.batch))}
    for folder in test_folders:
        images = protocol_images(image_files(folder), side)
        cells = evaluate(denoiser, images, c.sigma, c.phi, c.batch)
        card["psnr"][Path(folder).name] = _table(cells)
    return _written(denoiser, card, out, name)


def _written(
    denoiser: SpectralDenoiser, card: dict[str, Any], out: str | Path, name: str
) -> dict[str, Any]:
    """The model and the page, and what the card says of its making."""
    budget = " ".join(f"--{k} {v:g}" for k, v in card["budget"].items() if v is not None)
    card["command"] = f"gibbsdiff train {name} --data DIR --out OUT {budget}"
    card["date"] = date.today().isoformat()
    save_model(denoiser, out, card)
    page = Path(out).with_suffix(".md")
    page.write_text(markdown(page.stem, card))
    return card


def calibrate_model(
    model: str | Path, config: TrainingConfig, data: str | Path, out: str | Path
) -> SpectralDenoiser:
    """Measure the table alone, and write the model with it."""
    denoiser = load_model(model)
    if config.data.maps:
        denoiser.calibration = calibrate_dust(denoiser, config, data)
    else:
        roles = split(data, config.data.folders)
        files = [*roles.calibration, *roles.selection]
        known = quadrants(protocol_images(files, config.evaluation.side))
        denoiser.calibration = calibrate(denoiser, known)
    save_model(denoiser, out, read_card(model))
    return denoiser


def _table(cells: Sequence[Cell]) -> dict[str, Any]:
    mean = sum(cell.psnr for cell in cells) / len(cells)
    rows = [[cell.sigma, cell.phi, round(cell.psnr, 3)] for cell in cells]
    return {"mean": round(mean, 3), "cells": rows}
