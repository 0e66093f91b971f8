r"""The noise of photographs: a spectrum for luma and one for chroma, after demosaicing and JPEG.

Cameras interpolate, sharpen, smooth and subsample: noise that left the sensor white has a roll-off
in luma, and in chroma one at much larger scales.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.priors import GaussianPrior
from gibbsdiff.noise.stationary import StationaryNoise

PIVOT = 0.1  # |k| at which a slope leaves the power alone
FLAT = 1 / 12  # |k| below which it ends: N is flat towards |k| → 0
ROUNDING = (1 / 255) ** 2 / 12  # the variance of rounding to 8 bits
LEVELS = (5e-4, 1.0)  # of σ

#: A parameter's name, range, and the mean and sd of its prior; None: uniform.
Row = tuple[str, tuple[float, float], tuple[float, float] | None]
LUMA: tuple[Row, ...] = (
    ("log_sigma", (math.log(LEVELS[0]), math.log(LEVELS[1])), None),
    ("slope", (-3.0, 3.0), (0.0, 0.8)),
    ("cut", (0.0, 10.0), (2.0, 2.5)),
    ("power", (0.6, 3.0), (1.6, 0.5)),
    ("floor", (-12.0, 0.0), (-5.5, 2.0)),
)
CHROMA: tuple[Row, ...] = (
    ("log_ratio", (-3.0, 2.0), (0.0, 0.7)),
    ("log_ratio2", (-1.5, 1.5), (0.0, 0.3)),
    ("slope_c", (-3.0, 3.0), (0.0, 0.8)),
    ("cut_c", (0.0, 20.0), (5.0, 4.0)),
    ("power_c", (0.6, 3.0), (1.6, 0.5)),
    ("floor_c", (-12.0, 0.0), (-5.5, 2.0)),
)


class PhotoNoise(StationaryNoise):
    r"""Luma N = σ² [ |k/0.1|^s exp(-(|k|/kc)^p) + e^f ] + rounding; chroma the same with amplitudes
    σ·ratio and σ·ratio·ratio₂, and slope, roll-off and floor of its own.

    The roll-off is stated as `cut` = 1/kc ≥ 0, so that white noise is inside; N at k = 0 is that of
    the smallest mode. Priors on the shape are Gaussian, wide enough for all that the network for
    photographs has seen in training; log σ is uniform.

    Arguments:
        channels: 3, or 1 for grey pictures, which have luma alone.
        rounding: The variance of rounding, known from the file's depth; at least that is there.
    """

    amplitude = ""

    def __init__(self, channels: int = 3, rounding: float = ROUNDING) -> None:
        if channels not in (1, 3):
            raise InputError(f"PhotoNoise: for 1 or 3 channels, not {channels}")
        if not rounding > 0:
            raise InputError(f"PhotoNoise: rounding must be positive, not {rounding}")
        rows = LUMA if channels == 1 else LUMA + CHROMA
        self.spectra, self.rounding = channels, rounding
        parameters = [Parameter(name, *box) for name, box, _ in rows]
        super().__init__(parameters, gaussian_prior(rows))

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """log N of luma and, if there are, both chroma channels: (..., M) or (..., 3, M)."""
        value = dict(zip(self.names, phi[..., None].unbind(-2), strict=True))
        first = _spectrum(k, value["log_sigma"], *(value[n] for n in _shape("")))
        luma = torch.logaddexp(first, self._rounding(first))
        if self.spectra == 1:
            return luma
        shape = [value[n] for n in _shape("_c")]
        level, rows = value["log_sigma"] + value["log_ratio"], [luma]
        for own in (level, level + value["log_ratio2"]):
            chroma = _spectrum(k, own, *shape)
            rows.append(torch.logaddexp(chroma, self._rounding(chroma)))
        return torch.stack(rows, -2)

    def louder(self, phi: Tensor, by: Tensor) -> Tensor:
        """log σ; rounding is the file's, and stays."""
        own = torch.tensor([name == "log_sigma" for name in self.names])
        return torch.where(own, phi + by[..., None], phi)

    def _rounding(self, like: Tensor) -> Tensor:
        return torch.full_like(like, math.log(self.rounding))

    def _made_of(self) -> tuple[Any, ...]:
        return (self.spectra, self.rounding)


def gaussian_prior(rows: tuple[Row, ...]) -> GaussianPrior:
    """Independent Gaussians; None is uniform."""
    means = [0.0 if prior is None else prior[0] for _, _, prior in rows]
    sds = [math.inf if prior is None else prior[1] for _, _, prior in rows]
    return GaussianPrior.independent(torch.tensor(means), torch.tensor(sds))


def _shape(suffix: str) -> tuple[str, ...]:
    return tuple(name + suffix for name in ("slope", "cut", "power", "floor"))


def _spectrum(
    k: Wavevectors, log_sigma: Tensor, slope: Tensor, cut: Tensor, power: Tensor, floor: Tensor
) -> Tensor:
    """2 log σ + log[ |k/0.1|^s exp(-(|k| cut)^p) + e^f ]."""
    roll = torch.exp(power * torch.log(k.k.clamp(min=1e-6) * cut.clamp(min=1e-6)))
    rise = slope * torch.log(torch.hypot(k.k, torch.full_like(k.k, FLAT)) / PIVOT)
    return 2 * log_sigma + torch.logaddexp(rise - roll, floor)
