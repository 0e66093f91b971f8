"""Training on maps of dust under the CMB or white noise: what differs from photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.data.maps import Maps
from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training.card import markdown
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.dust_card import dust_tables, maps_line
from gibbsdiff.training.error_table import as_rows, check_errors
from gibbsdiff.training.maps import MapCell, PeriodicMaps, columns, evaluate_maps, map_cells
from gibbsdiff.training.noise import family_of
from gibbsdiff.training.noise_error import fit_calibration
from gibbsdiff.training.objective import Source
from gibbsdiff.training.spectral import SpectralObjective

#: Where the error model's table is measured: σ × (H0, ω_b).
LEVELS = (0.05, 0.2, 0.5, 1.0)
COSMOLOGIES = ((67.4, 0.0224), (55.0, 0.045), (85.0, 0.012))


@torch.no_grad()
def evaluate_dust(
    denoiser: SpectralDenoiser,
    maps: Tensor,
    noise: StationaryNoise,
    sigma: Sequence[float],
    cosmologies: Sequence[tuple[float, ...]],
    batch: int = 6,
) -> list[MapCell]:
    """D(y, N) at the true φ beside the Wiener filter of the same S_x, and all four losses."""

    def scores(x: Tensor, y: Tensor, cmb: SpectralCovariance) -> Mapping[str, Tensor]:
        return losses(denoiser, x, y, cmb)._asdict()

    device = next(denoiser.parameters()).device
    signal = denoiser.signal
    cells = (sigma, map_cells(noise, cosmologies), batch)
    return evaluate_maps(scores, signal, maps, noise, *cells, device=device)


def calibration_maps(maps: Maps) -> Tensor:
    """The calibration block, and two slabs of every training snapshot.

    The block alone is one or two states of the turbulence, whose small scales are a few per cent
    stronger or weaker than others'. Networks trained this briefly do no better
    on training maps than on others, so that these may be used too.
    """
    return torch.cat([maps.calibration, maps.train[::3]])


class DustObjective(SpectralObjective):
    """As for photographs, with S_x measured on the training maps, and the CMB or white noise."""

    headline = ("dB above the Wiener filter", "gain")

    def __init__(self, config: TrainingConfig, data: str | Path = ".") -> None:
        super().__init__(config, data)
        self.dust = PeriodicMaps(config, data)

    @property
    def maps(self) -> Maps:
        """The maps by role."""
        return self.dust.maps

    @cached_property
    def noise(self) -> StationaryNoise:
        """The noise with all σ of the noise law in its prior."""
        return family_of(self.config.noise)

    @property
    def signal(self) -> Signal:
        """S_x of the training maps."""
        return self.dust.signal

    def crops(self) -> Source:
        """Whole training maps, shifted and turned."""
        return self.dust.crops()

    def selection(self) -> Tensor:
        """The selection maps."""
        return self.maps.selection

    def facts(self) -> dict[str, Any]:
        """The scale of the maps: x = (map - mean)/sd."""
        return {"maps": self.dust.facts()}

    def evaluate(self, model: SpectralDenoiser, images: Tensor) -> dict[str, float]:
        """Gain over the Wiener filter, MSE in dB, and the losses."""
        return columns(self._cells(model, images, self.config.evaluation.batch))

    def calibration(self, model: SpectralDenoiser) -> Calibration:
        """The gain, c of eq. (7) and the scatter of eq. (12), on whole maps."""
        maps = calibration_maps(self.maps)
        cells = (LEVELS, map_cells(self.noise, COSMOLOGIES))
        return fit_calibration(model, maps, *cells, self.noise, with_gain=True)

    def calibrate_and_score(
        self, model: SpectralDenoiser, folders: Sequence[str | Path] = ()
    ) -> dict[str, Any]:
        """The error model checked on the test maps, and MSE against the Wiener filter's."""
        if folders:
            raise InputError("tables of folders are of photographs, not of maps")
        maps = self.maps
        model.calibration = self.calibration(model)
        probed = model.with_derivative_error()
        cells = (LEVELS, map_cells(self.noise, COSMOLOGIES))
        reports = check_errors(probed, maps.test, *cells, family=self.noise)
        roles = {"selection": maps.selection, "test": maps.test}
        return {
            "calibration": {"images": len(calibration_maps(maps)), "check": as_rows(reports)},
            "dust": {role: [c.row() for c in self._cells(model, x)] for role, x in roles.items()},
        }

    def page(self, name: str, card: Mapping[str, Any]) -> str:
        """The maps, the MSE tables and the error model."""
        return markdown(name, card, maps_line(card), dust_tables(card), "maps")

    def _cells(self, model: SpectralDenoiser, maps: Tensor, batch: int = 6) -> list[MapCell]:
        c = self.config.evaluation
        return evaluate_dust(model, maps, self.noise, c.sigma, c.cosmologies, batch)
