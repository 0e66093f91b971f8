"""Training on maps of dust with the CMB as noise: what differs from photographs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.checks import InputError
from gibbsdiff.data.maps import Maps, read_maps
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.signal import TabulatedSignal, wiener
from gibbsdiff.fourier import filtered, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.training.calibrate import check, checked
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.evaluation import observed
from gibbsdiff.training.noise import cmb_of
from gibbsdiff.training.noise_error import calibrate
from gibbsdiff.training.objective import SpectralObjective

#: Where the error model's table is measured: σ × (H0, ω_b).
LEVELS = (0.05, 0.2, 0.5, 1.0)
COSMOLOGIES = ((67.4, 0.0224), (55.0, 0.045), (85.0, 0.012))


class DustCell(NamedTuple):
    """Means over the maps at one (σ, cosmology): MSE in dB below the dust's variance, of D and
    of the Wiener filter, and the losses.
    """

    sigma: float
    cosmology: tuple[float, ...]
    psnr: float
    wiener: float
    relative: float
    whitened: float
    pixel: float
    spectral: float

    @property
    def gain(self) -> float:
        """How much D is better, dB."""
        return self.psnr - self.wiener

    @property
    def name(self) -> str:
        """A column's ending, as in gain_0.5_67.4_0.0224."""
        return "_".join(f"{v:g}" for v in (self.sigma, *self.cosmology))


@torch.no_grad()
def evaluate_dust(
    denoiser: SpectralDenoiser,
    maps: Tensor,
    noise: CMBNoise,
    sigma: Sequence[float],
    cosmologies: Sequence[tuple[float, ...]],
    batch: int = 6,
    seed: int = 1,
) -> list[DustCell]:
    """D(y, N) and the Wiener filter of the same S_x, told the truth; map b's CMB is keyed by b."""
    cells = []
    device = next(denoiser.parameters()).device
    for s in sigma:
        for cosmology in cosmologies:
            rows = []
            for first in range(0, len(maps), batch):
                x = maps[first : first + batch]
                y, told = observed(x, s, cosmology, seed, first, noise)
                x, y, told = x.to(device), y.to(device), told.to(device)
                losses = denoiser.losses(x, y, told)
                w = wiener(denoiser.signal.power(told.shape).to(x), told.power)
                scale = half_plane(told.shape).mean(w.V.flatten(2)).mean((1, 2))
                m = denoiser.signal.mean
                linear = m + filtered(y - m, w.skip) - x
                mse = (losses.relative * scale, linear.square().mean((1, 2, 3)))
                rows.append(torch.stack([r.double().cpu() for r in (*mse, *losses)]))
            mine, linear_mse, *parts = torch.cat(rows, 1).mean(1).tolist()
            db = (-10 * math.log10(mine), -10 * math.log10(linear_mse))
            cells.append(DustCell(s, cosmology, *db, *parts))
    return cells


def dust_maps(config: TrainingConfig, data: str | Path) -> Maps:
    """The maps that a configuration names, by role; what does not fit is refused."""
    c = config
    maps = read_maps(Path(data) / c.data.maps, c.data.blocks, c.data.halved)
    if c.model.kind != "spectral" or c.network.channels != 1 or c.noise.family != "cmb":
        raise InputError('maps need [model] kind = "spectral", one channel and "cmb" noise')
    if not c.step.crop == c.step.later_crop == maps.side:
        raise InputError(f"maps are not cropped: crop and later_crop must be {maps.side}")
    return maps


def calibration_maps(maps: Maps) -> Tensor:
    """The calibration block, and two slabs of every training snapshot.

    The block alone is one or two states of the turbulence, whose small scales are a few per cent
    stronger or weaker than others'. Networks of so few steps are no better on training maps.
    """
    return torch.cat([maps.calibration, maps.train[::3]])


def calibrate_dust(
    denoiser: SpectralDenoiser, config: TrainingConfig, data: str | Path
) -> Calibration:
    """The error model's tables, on whole maps."""
    maps = calibration_maps(dust_maps(config, data))
    return calibrate(denoiser, maps, LEVELS, COSMOLOGIES, cmb_of(config.noise), with_gain=True)


def release_dust(
    denoiser: SpectralDenoiser, config: TrainingConfig, data: str | Path
) -> dict[str, Any]:
    """Calibrate the denoiser, check it on the test block; what its card says of both."""
    maps, noise, c = dust_maps(config, data), cmb_of(config.noise), config.evaluation
    denoiser.calibration = calibrate_dust(denoiser, config, data)
    reports = check(denoiser.probed(), maps.test, LEVELS, COSMOLOGIES, family=noise)
    roles = {"selection": maps.selection, "test": maps.test}
    gains = {
        role: [_row(cell) for cell in evaluate_dust(denoiser, x, noise, c.sigma, c.cosmologies)]
        for role, x in roles.items()
    }
    return {
        "calibration": {"images": len(calibration_maps(maps)), "check": checked(reports)},
        "dust": gains,
    }


def _row(cell: DustCell) -> list[float]:
    figures = (cell.psnr, cell.wiener, cell.gain, cell.relative)
    return [cell.sigma, *cell.cosmology, *(round(v, 3) for v in figures)]


class DustObjective(SpectralObjective):
    """As for photographs, with S_x measured on the training maps and the CMB as noise."""

    headline = ("dB above the Wiener filter", "gain")

    def __init__(self, config: TrainingConfig, maps: Maps) -> None:
        super().__init__(config, TabulatedSignal.measured(maps.train))
        self.maps = maps

    def facts(self) -> dict[str, Any]:
        """The scale of the maps: x = (map - mean)/sd."""
        m = self.maps
        return {"maps": {"mean": m.mean, "sd": m.sd, "side": m.side, "train": len(m.train)}}

    def evaluate(self, model: SpectralDenoiser, images: Tensor) -> dict[str, float]:
        """Gain over the Wiener filter, MSE in dB, and the losses."""
        c = self.config.evaluation
        noise = cmb_of(self.config.noise)
        cells = evaluate_dust(model, images, noise, c.sigma, c.cosmologies, c.batch)
        row = {}
        for name in ("gain", "psnr", "wiener", "relative", "whitened", "pixel", "spectral"):
            values = [getattr(cell, name) for cell in cells]
            row[name] = sum(values) / len(values)
            if name in ("gain", "psnr", "wiener", "relative"):
                row |= {f"{name}_{cell.name}": v for cell, v in zip(cells, values, strict=True)}
        return row
