"""The paper's two ε-networks: how they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.data.images import Split, image_files, protocol_images
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, Process, VariancePreserving
from gibbsdiff.errors import InputError
from gibbsdiff.networks.original import OriginalUNet
from gibbsdiff.networks.resunet import FOURIER, ResUNet
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.families import PowerLawNoise, WhiteNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.pretrained.epsilon import load_epsilon, save_epsilon
from gibbsdiff.streams import Streams
from gibbsdiff.training.card import markdown
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.dust_card import dust_tables, maps_line
from gibbsdiff.training.evaluation import heading, psnr_table
from gibbsdiff.training.folders import picture_crops, picture_files, scored_pictures
from gibbsdiff.training.maps import (
    MapCell,
    PeriodicMaps,
    columns,
    evaluate_maps,
    loss_6,
    map_cells,
)
from gibbsdiff.training.objective import Objective, Source

#: The families of noise by their names in `[model] family`.
FAMILIES: dict[str, Callable[[], StationaryNoise]] = {
    "power-law": PowerLawNoise,
    "cmb": CMBNoise,
    "white": WhiteNoise,
}


class EpsilonObjective(Objective[EpsilonDenoiser]):
    """E‖ε_θ(z_t, t, φ) - ε‖² per pixel, as in the paper, for t uniform and φ from its prior.

    Time is one of the T steps of the discrete chain of "original", any of (0, 1] for "resunet".
    Images are pictures or, if the configuration names `[data] maps`, periodic maps,
    x = (map - mean)/sd. Power laws are learnt on pictures, the CMB on maps; white noise, of which
    the network is told the time alone, on either.
    """

    parts = ("epsilon",)
    weights = (1.0,)

    def __init__(self, config: TrainingConfig, data: str | Path = ".") -> None:
        super().__init__(config, data)
        m = config.model
        self.family: StationaryNoise = FAMILIES[m.family]()
        maps = bool(config.data.maps) or m.family == "cmb"
        self.dust = PeriodicMaps(config, data) if maps else None
        if self.dust is not None:
            self.headline = ("dB above the Wiener filter", "gain")
        self.process: Process = (
            DiscreteVariancePreserving(m.steps, m.beta_min, m.beta_max)
            if m.kind == "original"
            else VariancePreserving(m.beta_min, m.beta_max)
        )
        self.ranges = [
            (p.low, p.high) for p in self.family.parameters if p.name != self.family.amplitude
        ]

    @cached_property
    def files(self) -> Split:
        """The pictures by role."""
        return picture_files(self.config, self.data)

    def crops(self) -> Source:
        """Crops of the training pictures, or whole training maps, shifted and turned."""
        if self.dust is None:
            return picture_crops(self.config, self.files.train)
        maps = self.dust.crops()
        self._check_levels(self.dust.maps.side)
        return maps

    def selection(self) -> Tensor:
        """The selection pictures by the paper's protocol, or the selection maps."""
        if self.dust is None:
            return scored_pictures(self.config, self.files.selection)
        return self.dust.maps.selection

    def facts(self) -> dict[str, Any]:
        """Of maps their scale and S_x."""
        if self.dust is None:
            return {}
        return {"maps": self.dust.facts() | {"spectrum": asdict(self.dust.signal)}}

    def model(self) -> EpsilonDenoiser:
        """PyTorch's default weights."""
        m, channels = self.config.model, self.config.network.channels
        network: nn.Module
        if m.kind == "original":
            network = OriginalUNet(channels, len(self.ranges), m.steps, width=m.width)
        else:
            widths = [m.width * 2**i for i in range(m.levels)]
            features = FOURIER if m.fourier else ()
            network = ResUNet(channels, len(self.ranges), widths, fourier=features)
        return EpsilonDenoiser(network, self.process, self.ranges, self.family.shape_names)

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

    def _check_levels(self, side: int) -> None:
        """Refuse a process that ends below the loudest noise of the prior, b(1)/a(1) < level."""
        m, shape = self.config.model, (side, side)
        needed, highest = self.family.highest_level(shape), self.process.highest
        if needed > highest:
            enough = VariancePreserving.reaching(needed, m.beta_min).beta_max
            raise InputError(
                f"[model] beta_max = {m.beta_max:g}: b(1)/a(1) = {highest:.4g}, but the noise of "
                f"the prior has levels up to {needed:.4g} at {side}²; {enough:g} is enough"
            )

    def losses(
        self, model: EpsilonDenoiser, x: Tensor, z: Tensor, noise: SpectralCovariance
    ) -> Sequence[Tensor]:
        """The one part."""
        return (model.losses(x, z, noise),)

    def evaluate(self, model: EpsilonDenoiser, images: Tensor) -> dict[str, float]:
        """PSNR at the true (σ, φ); of maps, MSE in dB and how far below the Wiener filter's."""
        c, device = self.config.evaluation, next(model.parameters()).device
        if self.dust is not None:
            return columns(self._cells(model, images))
        return psnr_table(
            model, images, c.sigma, self._colours, c.batch, device=device, family=self.family
        )

    def calibrate_and_score(
        self, model: EpsilonDenoiser, folders: Sequence[str | Path] = ()
    ) -> dict[str, Any]:
        """There is no error model: scores on the test pictures and further folders, or maps."""
        if self.dust is not None:
            if folders:
                raise InputError("tables of folders are of photographs, not of maps")
            return {"dust": {"test": [c.row() for c in self._cells(model, self.dust.maps.test)]}}
        if not self.files.test:
            raise InputError(f"{self.data}: the configuration holds out no test images")
        sets = {"test": self.files.test} | {Path(f).name: image_files(f) for f in folders}
        return {"psnr": {name: self._psnr(model, files) for name, files in sets.items()}}

    def page(self, name: str, card: Mapping[str, Any]) -> str:
        """The data and the scores."""
        if self.dust is not None:
            return markdown(name, card, maps_line(card), dust_tables(card), "maps")
        return super().page(name, card)

    def _cells(self, model: EpsilonDenoiser, maps: Tensor) -> list[MapCell]:
        assert self.dust is not None
        c, S_x = self.config.evaluation, self.dust.signal
        device = next(model.parameters()).device
        cells = (self.family, c.sigma, map_cells(self.family, c.cosmologies), c.batch)
        return evaluate_maps(loss_6(model, S_x), S_x, maps, *cells, device=device)

    @property
    def _colours(self) -> Sequence[float | tuple[float, ...]]:
        return self.config.evaluation.phi if self.ranges else ((),)

    def _psnr(self, model: EpsilonDenoiser, files: Sequence[Path]) -> dict[str, Any]:
        c, device = self.config.evaluation, next(model.parameters()).device
        images = protocol_images(files, c.side)
        told = (c.sigma, self._colours, c.batch)
        table = psnr_table(model, images, *told, device=device, family=self.family)
        cells = [[s, p, round(table[heading(s, p)], 3)] for s in c.sigma for p in self._colours]
        return {"mean": round(table["psnr"], 3), "cells": cells}

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
