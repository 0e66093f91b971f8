"""Periodic maps as training reads them, and scores against the Wiener filter's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.data.maps import Maps, ShiftedMaps, read_maps
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.signal import Signal, TabulatedSignal, wiener
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import filtered, half_plane
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.evaluation import cell_name, observed

#: Losses (B,) by name of maps x observed as y; `relative` is loss (6).
Scores = Callable[[Tensor, Tensor, SpectralCovariance], Mapping[str, Tensor]]


class PeriodicMaps:
    """The maps that a configuration names, by role; what does not fit is refused."""

    def __init__(self, config: TrainingConfig, data: str | Path) -> None:
        self.config, self.data = config, Path(data)

    @cached_property
    def maps(self) -> Maps:
        """The maps by role, x = (map - mean)/sd."""
        c = self.config
        family = c.noise.family if c.model.kind == "dust" else c.model.family
        if not c.data.maps or c.network.channels != 1 or family not in ("cmb", "white"):
            raise InputError(
                'maps need a file, [data] maps, one channel and "cmb" or "white" noise'
            )
        maps = read_maps(self.data / c.data.maps, c.data.blocks, c.data.halved)
        if not c.step.crop == c.step.later_crop == maps.side:
            raise InputError(f"maps are not cropped: crop and later_crop must be {maps.side}")
        return maps

    @cached_property
    def signal(self) -> TabulatedSignal:
        """S_x of the training maps."""
        return TabulatedSignal.measured(self.maps.train)

    def crops(self) -> ShiftedMaps:
        """Whole training maps, shifted and turned."""
        return ShiftedMaps(self.maps.finest, self.config.data.halved)

    def facts(self) -> dict[str, Any]:
        """The scale of the maps."""
        m = self.maps
        return {"mean": m.mean, "sd": m.sd, "side": m.side, "train": len(m.train)}


@dataclass(frozen=True)
class MapCell:
    """Means over the maps at one (σ, cosmology): MSE in dB below the maps' variance, of D and
    of the Wiener filter, and the losses by name.
    """

    sigma: float
    cosmology: tuple[float, ...]
    psnr: float
    wiener: float
    losses: Mapping[str, float]

    @property
    def gain(self) -> float:
        """How much D is better, dB."""
        return self.psnr - self.wiener

    @property
    def relative(self) -> float:
        """Loss (6)."""
        return self.losses["relative"]

    def row(self) -> list[float]:
        """As a card has it: σ, the cosmology, MSE of D and of the Wiener filter, gain, loss (6)."""
        figures = (self.psnr, self.wiener, self.gain, self.relative)
        return [self.sigma, *self.cosmology, *(round(v, 3) for v in figures)]

    @property
    def name(self) -> str:
        """A column's ending, as in gain_0.5_67.4_0.0224."""
        return cell_name(self.sigma, self.cosmology)


def loss_6(denoiser: Denoiser, signal: Signal) -> Scores:
    """E‖D - x‖² / mean V alone, of any denoiser."""

    def score(x: Tensor, y: Tensor, noise: SpectralCovariance) -> Mapping[str, Tensor]:
        error = (denoiser(y, noise).mean - x).square().mean((1, 2, 3))
        return {"relative": error / _mean_variance(signal, x, noise)}

    return score


@torch.no_grad()
def evaluate_maps(
    scores: Scores,
    signal: Signal,
    maps: Tensor,
    noise: StationaryNoise,
    sigma: Sequence[float],
    cosmologies: Sequence[tuple[float, ...]],
    batch: int = 6,
    seed: int = 1,
    device: torch.device | str = "cpu",
) -> list[MapCell]:
    """D(y, N) and the Wiener filter of S_x, at the true φ; map b's noise is keyed by b."""
    cells = []
    for s in sigma:
        for cosmology in cosmologies:
            rows: list[Tensor] = []
            names: tuple[str, ...] = ()
            for first in range(0, len(maps), batch):
                x = maps[first : first + batch]
                y, cov = observed(x, s, cosmology, seed, first, noise)
                x, y, cov = x.to(device), y.to(device), cov.to(device)
                found = scores(x, y, cov)
                names = tuple(found)
                m, skip = signal.mean, wiener(signal.power(cov.shape).to(x), cov.power).skip
                linear = (m + filtered(y - m, skip) - x).square().mean((1, 2, 3))
                mine = found["relative"] * _mean_variance(signal, x, cov)
                rows.append(
                    torch.stack([r.double().cpu() for r in (mine, linear, *found.values())])
                )
            mse, linear_mse, *parts = torch.cat(rows, 1).mean(1).tolist()
            db = (-10 * math.log10(mse), -10 * math.log10(linear_mse))
            cells.append(MapCell(s, cosmology, *db, dict(zip(names, parts, strict=True))))
    return cells


def map_cells(
    noise: StationaryNoise, cosmologies: Sequence[tuple[float, ...]]
) -> Sequence[tuple[float, ...]]:
    """The cosmologies to score at; one empty one for noise without a shape, which is white."""
    return cosmologies if noise.shape_names else ((),)


def columns(cells: Sequence[MapCell]) -> dict[str, float]:
    """Means over the cells by name; gain, MSE and loss (6) of every cell, too."""
    each = [{"gain": c.gain, "psnr": c.psnr, "wiener": c.wiener, **c.losses} for c in cells]
    row = {}
    for name in each[0]:
        values = [figures[name] for figures in each]
        row[name] = sum(values) / len(values)
        if name in ("gain", "psnr", "wiener", "relative"):
            row |= {f"{name}_{c.name}": v for c, v in zip(cells, values, strict=True)}
    return row


def _mean_variance(signal: Signal, x: Tensor, noise: SpectralCovariance) -> Tensor:
    V = wiener(signal.power(noise.shape).to(x), noise.power).V
    return half_plane(noise.shape).mean(V.flatten(2)).mean((1, 2))
