"""Runs that are judged twice: by the posterior as it is, and with the network's error, eq. (12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.evidence.calibration.sbc import RankRecord
from gibbsdiff.fourier import Shape
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.streams import Streams


class PairedParameters(NoiseModel):
    """A noise model with a copy of every parameter: the first is ranked among draws of the
    posterior, its copy, of the same true value, among draws with the network's error added.
    """

    def __init__(self, single: NoiseModel) -> None:
        self.single = single
        copies = [Parameter(f"{p.name} with model error", p.low, p.high) for p in single.parameters]
        super().__init__([*single.parameters, *copies])

    def draw_prior(self, rng: Streams, candidates: int = 4096) -> Tensor:
        """φ and its copy, (B, 2d)."""
        return self.single.draw_prior(rng, candidates).repeat(1, 2)

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> NoiseCovariance:
        """That of φ, without its copy."""
        return self.single.covariance(shape, self._first(phi), dtype)

    def statistic(self, noise: Any, observed: Tensor | None = None) -> Any:
        """That of the noise model itself."""
        return self.single.statistic(noise, observed)

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """That of φ, without its copy."""
        return self.single.log_likelihood(self._first(phi), statistic)

    def _first(self, phi: Tensor) -> Tensor:
        return phi[..., : len(self.single.parameters)]


def halves(records: Sequence[RankRecord]) -> tuple[list[RankRecord], list[RankRecord]]:
    """The records of the posterior as it is, and of that with the network's error."""
    lists = ("truth", "mean", "sd", "u", "rhat", "ess")

    def part(r: RankRecord, second: bool) -> RankRecord:
        d = len(r.truth) // 2
        kept = slice(d, 2 * d) if second else slice(0, d)
        there = {name: getattr(r, name) for name in lists}
        return replace(r, **{name: v[kept] for name, v in there.items() if v is not None})

    return [part(r, False) for r in records], [part(r, True) for r in records]
