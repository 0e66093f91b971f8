"""Level maps that are given beside a picture: weight maps, errors, flat fields, eq. (15)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.counts import is_counted
from gibbsdiff.inference.encoding import Given
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.level import Light
from gibbsdiff.noise.level_curves import AS_GIVEN
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.noise.stationary import StationaryNoise

Kind = Literal["sd", "variance", "ivar", "flat"]
KINDS = ("sd", "variance", "ivar", "flat")


@dataclass(frozen=True)
class GivenLevel:
    """The sd of every pixel (H, W) in the picture's units, NaN where a pixel is missing, and
    whether that is meant as it stands; else it is known up to a factor. `name` is for messages.
    """

    sd: Tensor
    absolute: bool = False
    name: str = "level map"

    @classmethod
    def of(
        cls, values: Any, kind: Kind = "sd", absolute: bool = False, name: str = "level map"
    ) -> GivenLevel:
        """From a map (H, W) of standard deviations, variances, inverse variances, or of a flat
        field, whose noise goes with flat^(-½). NaN, infinite noise and inverse variance 0 are
        missing.
        """
        if kind not in KINDS:
            raise InputError(f"level kind {kind!r}: there are {', '.join(KINDS)}")
        if absolute and kind == "flat":
            raise InputError(f"{name}: a flat field tells no absolute level of the noise")
        try:
            plane = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{name}: not an array of numbers") from None
        plane = plane[0] if plane.ndim == 3 and len(plane) == 1 else plane
        if plane.ndim != 2:
            raise InputError(f"{name}: needs one plane (H, W), not shape {plane.shape}")
        if bool((plane < 0).any()):
            raise InputError(f"{name}: has negative numbers")
        if not bool((plane > 0).any()):
            raise InputError(f"{name}: has no number above 0")
        power = {"sd": 1.0, "variance": 0.5, "ivar": -0.5, "flat": -0.5}[kind]
        with np.errstate(divide="ignore", invalid="ignore"):
            sd = plane**power
        sd[~(np.isfinite(sd) & (sd > 0))] = np.nan
        if not bool(np.isfinite(sd).any()):
            raise InputError(f"{name}: no pixel has noise of a finite level")
        return cls(torch.from_numpy(sd), absolute, name)

    def must_fit(self, shape: Sequence[int]) -> None:
        """Raise InputError unless a picture (…, H, W) of this shape is as large as the map."""
        if tuple(self.sd.shape) != tuple(shape[-2:]):
            own, other = ("×".join(map(str, s[-2:])) for s in (self.sd.shape, shape))
            raise InputError(f"{self.name}: is {own} pixels, and the picture {other}")

    def on(self, given: Given) -> tuple[Given, Tensor]:
        """The picture without the pixels that the map leaves out, and log sd (H, W) in its values'
        units, filled there.
        """
        self.must_fit(given.values.shape)
        gone = ~torch.isfinite(self.sd)
        values = given.values.clone()
        values[:, gone] = torch.nan
        log_sd = torch.log(self.sd / given.encoding.unit)
        log_sd[gone] = log_sd[~gone].median()
        return given._replace(values=values), log_sd


def level_given(
    given: Any, kind: Kind, absolute: bool, profiled: bool, noise: str | NoiseModel
) -> GivenLevel | None:
    """The level map, from an array or a file, if it can be used with what else is said."""
    if given is None:
        return None
    if profiled:
        raise InputError("level map: not beside a noise profile, whose level is another")
    if is_counted(noise):
        raise InputError("level map: counted light has a level of its own; name another noise")
    if isinstance(given, GivenLevel):
        return given
    if isinstance(given, str | Path):
        from gibbsdiff.io.level_map import read_map

        return GivenLevel.of(read_map(given), kind, absolute, str(given))
    return GivenLevel.of(given, kind, absolute)


def with_map(family: NoiseModel) -> StationaryNoise:
    """The family with a level that is given, in place of one that goes with brightness."""
    own = family.family if isinstance(family, LevelledNoise) else family
    if not isinstance(own, StationaryNoise):
        raise InputError(f"{family}: a level map is for noise with a spectrum")
    return LevelledNoise(own, curve=AS_GIVEN)


def light_of_map(log_sd: Tensor, hidden: Tensor | None) -> Light:
    """log sd (H, W) as what g goes with."""
    return Light.of(log_sd[None, None], None if hidden is None else ~hidden)


def under_map(
    family: NoiseModel, known: dict[str, float], light: Light, absolute: bool
) -> tuple[StationaryNoise, dict[str, float]]:
    """The family under a map, and what is known of it: σ too, if the map is meant as it stands."""
    noise = with_map(family)
    if not absolute:
        return noise, known
    if "sigma" not in noise.names:
        raise InputError(f"{noise}: an absolute level map needs a family that has a sigma")
    none = torch.zeros(1, 0, dtype=torch.float64)
    sigma = float(torch.exp(AS_GIVEN.log_mean_level(none, light.whole)))  # g has mean square 1
    return noise, {**known, "sigma": sigma}


def evened(y: Tensor, light: Light) -> Tensor:
    """y (1, C, H, W) with the deviations from its median over g: what quiet places are found in."""
    level = light.map - AS_GIVEN.log_mean_level(torch.zeros(1, 0).double(), light.whole)
    middle = y.median()
    return middle + (y - middle) / torch.exp(level).to(y)
