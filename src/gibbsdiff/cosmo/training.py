"""Training on maps of dust with the CMB as noise: what differs from photographs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.cosmo.dust_card import dust_tables, maps_line
from gibbsdiff.data.maps import Maps, ShiftedMaps, read_maps
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.signal import Signal, TabulatedSignal, wiener
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import filtered, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.training.card import markdown
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.error_table import as_rows, check_errors
from gibbsdiff.training.evaluation import observed
from gibbsdiff.training.noise import cmb_of
from gibbsdiff.training.noise_error import fit_calibration
from gibbsdiff.training.objective import Source
from gibbsdiff.training.spectral import SpectralObjective

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
    """D(y, N) and the Wiener filter of the same S_x, at the true φ; map b's CMB is keyed by b."""
    cells = []
    device = next(denoiser.parameters()).device
    for s in sigma:
        for cosmology in cosmologies:
            rows = []
            for first in range(0, len(maps), batch):
                x = maps[first : first + batch]
                y, cmb = observed(x, s, cosmology, seed, first, noise)
                x, y, cmb = x.to(device), y.to(device), cmb.to(device)
                found = losses(denoiser, x, y, cmb)
                w = wiener(denoiser.signal.power(cmb.shape).to(x), cmb.power)
                scale = half_plane(cmb.shape).mean(w.V.flatten(2)).mean((1, 2))
                m = denoiser.signal.mean
                linear = m + filtered(y - m, w.skip) - x
                mse = (found.relative * scale, linear.square().mean((1, 2, 3)))
                rows.append(torch.stack([r.double().cpu() for r in (*mse, *found)]))
            mine, linear_mse, *parts = torch.cat(rows, 1).mean(1).tolist()
            db = (-10 * math.log10(mine), -10 * math.log10(linear_mse))
            cells.append(DustCell(s, cosmology, *db, *parts))
    return cells


def dust_maps(config: TrainingConfig, data: str | Path) -> Maps:
    """The maps that a configuration names, by role; what does not fit is refused."""
    c = config
    if c.model.kind != "dust" or c.network.channels != 1 or c.noise.family != "cmb":
        raise InputError('maps need [model] kind = "dust", one channel and "cmb" noise')
    maps = read_maps(Path(data) / c.data.maps, c.data.blocks, c.data.halved)
    if not c.step.crop == c.step.later_crop == maps.side:
        raise InputError(f"maps are not cropped: crop and later_crop must be {maps.side}")
    return maps


def calibration_maps(maps: Maps) -> Tensor:
    """The calibration block, and two slabs of every training snapshot.

    The block alone is one or two states of the turbulence, whose small scales are a few per cent
    stronger or weaker than others'. Networks trained this briefly do no better
    on training maps than on others, so that these may be used too.
    """
    return torch.cat([maps.calibration, maps.train[::3]])


class DustObjective(SpectralObjective):
    """As for photographs, with S_x measured on the training maps and the CMB as noise."""

    headline = ("dB above the Wiener filter", "gain")

    @cached_property
    def maps(self) -> Maps:
        """The maps by role."""
        return dust_maps(self.config, self.data)

    @cached_property
    def noise(self) -> CMBNoise:
        """The CMB with all σ of the noise law in its prior."""
        return cmb_of(self.config.noise)

    @cached_property
    def signal(self) -> Signal:
        """S_x of the training maps."""
        return TabulatedSignal.measured(self.maps.train)

    def crops(self) -> Source:
        """Whole training maps, shifted and turned."""
        return ShiftedMaps(self.maps.finest, self.config.data.halved)

    def selection(self) -> Tensor:
        """The selection maps."""
        return self.maps.selection

    def facts(self) -> dict[str, Any]:
        """The scale of the maps: x = (map - mean)/sd."""
        m = self.maps
        return {"maps": {"mean": m.mean, "sd": m.sd, "side": m.side, "train": len(m.train)}}

    def evaluate(self, model: SpectralDenoiser, images: Tensor) -> dict[str, float]:
        """Gain over the Wiener filter, MSE in dB, and the losses."""
        cells = self._cells(model, images, self.config.evaluation.batch)
        row = {}
        for name in ("gain", "psnr", "wiener", "relative", "whitened", "pixel", "spectral"):
            values = [getattr(cell, name) for cell in cells]
            row[name] = sum(values) / len(values)
            if name in ("gain", "psnr", "wiener", "relative"):
                row |= {f"{name}_{cell.name}": v for cell, v in zip(cells, values, strict=True)}
        return row

    def calibration(self, model: SpectralDenoiser) -> Calibration:
        """The gain, c of eq. (7) and the scatter of eq. (12), on whole maps."""
        maps = calibration_maps(self.maps)
        return fit_calibration(model, maps, LEVELS, COSMOLOGIES, self.noise, with_gain=True)

    def calibrate_and_score(
        self, model: SpectralDenoiser, folders: Sequence[str | Path] = ()
    ) -> dict[str, Any]:
        """The error model checked on the test maps, and MSE against the Wiener filter's."""
        if folders:
            raise InputError("tables of folders are of photographs, not of maps")
        maps = self.maps
        model.calibration = self.calibration(model)
        probed = model.with_derivative_error()
        reports = check_errors(probed, maps.test, LEVELS, COSMOLOGIES, family=self.noise)
        roles = {"selection": maps.selection, "test": maps.test}
        return {
            "calibration": {"images": len(calibration_maps(maps)), "check": as_rows(reports)},
            "dust": {role: [_row(c) for c in self._cells(model, x)] for role, x in roles.items()},
        }

    def page(self, name: str, card: Mapping[str, Any]) -> str:
        """The maps, the MSE tables and the error model."""
        return markdown(name, card, maps_line(card), dust_tables(card), "maps")

    def _cells(self, model: SpectralDenoiser, maps: Tensor, batch: int = 6) -> list[DustCell]:
        c = self.config.evaluation
        return evaluate_dust(model, maps, self.noise, c.sigma, c.cosmologies, batch)


def _row(cell: DustCell) -> list[float]:
    figures = (cell.psnr, cell.wiener, cell.gain, cell.relative)
    return [cell.sigma, *cell.cosmology, *(round(v, 3) for v in figures)]
