"""From a picture to what is inferred of it: the problem, and options that were left open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.inference.clipped import hidden_places, without_noise, without_outshining
from gibbsdiff.inference.counted_law import spectrum_by_quiet_places, told_by_quiet_places
from gibbsdiff.inference.encoding import Shared, check_range, observation
from gibbsdiff.inference.given_level import evened, light_of_map, under_map
from gibbsdiff.inference.observation import ObservationModel, stationary, taper
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.quiet_start import start_of
from gibbsdiff.inference.quiet_whole import of_the_whole
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.inference.windows import LARGE
from gibbsdiff.io.file_format import JpegSteps
from gibbsdiff.noise import (
    BandedNoise,
    LevelledNoise,
    PhotoNoise,
    PowerLawNoise,
    SmoothNoise,
    WhiteNoise,
)
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.fixed import all_values, with_fixed
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.level_curves import BY_COUNTS
from gibbsdiff.noise.photo import ROUNDING
from gibbsdiff.noise.stationary import StationaryNoise

Boundary = Literal["open", "periodic"]

SURE = Sureness(
    0.06, 60.0, 3.0, 4.0
)  # chosen on held-out images by the mean log score of the truth
FIRST = 12  # calls of the marginal method's first stage, the Laplace covariance included
FEW, MANY = 3, 30  # parameters, and steps of the search for more of them
WHOLE = 8  # steps of a search of the whole posterior
TILE = 1024  # pictures larger than this are shown to the network in tiles
WEAKEST = 1e-3  # σ that the noise of a file may have, a quarter of a level of 8 bits
NO_ROUNDING = 1e-8  # variance of what a float file may have been rounded to
LEAST_LEVEL = 0.003  # of the noise that the networks for pictures were trained on


@dataclass(frozen=True)
class Depth:
    """What the file says of its numbers: the variance of rounding, whether they are clipped to
    [0, full], and to what steps a JPEG's coefficients were rounded.
    """

    rounding: float = NO_ROUNDING
    clipped: bool = False
    full: float = 1.0
    steps: JpegSteps | None = None


#: Families by name, for pictures of some number of channels and depth.
FAMILIES: dict[str, Callable[[int, Depth], NoiseModel]] = {
    "power-law": lambda _, depth: PowerLawNoise(sigma=_levels(depth)),
    "white": lambda _, depth: WhiteNoise(sigma=_levels(depth)),
    "banded": lambda *_: BandedNoise(),
    "photo": lambda c, depth: LevelledNoise(PhotoNoise(c, max(depth.rounding, NO_ROUNDING))),
    "curves": lambda c, _: LevelledNoise(SmoothNoise(c)),
    "poisson-gaussian": lambda _, depth: LevelledNoise(
        WhiteNoise(sigma=_levels(depth)), curve=BY_COUNTS
    ),
    "counts": lambda c, depth: LevelledNoise(
        PhotoNoise(c, max(depth.rounding, NO_ROUNDING)), curve=BY_COUNTS
    ),
}


def family_of(noise: str | NoiseModel, channels: int, depth: Depth | None = None) -> NoiseModel:
    """A family by name, or the noise given."""
    if isinstance(noise, NoiseModel):
        return noise
    if noise not in FAMILIES:
        raise InputError(f"noise {noise!r}: there are {', '.join(FAMILIES)}, or a noise model")
    return FAMILIES[noise](channels, depth or Depth())


def depth_of(dtype: str, full: float = 1.0, steps: JpegSteps | None = None) -> Depth:
    """Of the numbers of a file or array: integers are rounded, and cannot leave their range, whose
    upper end is the value `full`.
    """
    if dtype.startswith("uint"):
        top = 2.0 ** int(dtype.removeprefix("uint")) - 1
        return Depth(ROUNDING * (255 * full / top) ** 2, True, full, steps)
    return Depth()


#: From elsewhere, of a family on a picture of some shape and brightness: the family with another
#: prior, and parameters that are known.
Told = Callable[[NoiseModel, Shape, Light | None], tuple[NoiseModel, dict[str, float]]]


def picture_problem(
    values: Tensor,
    family: NoiseModel,
    known: dict[str, float],
    denoiser: Denoiser,
    boundary: Boundary = "open",
    tile: int | None = None,
    on_unit_range: bool = False,
    depth: Depth | None = None,
    pages: int = 1,
    shared: Shared | None = None,
    told: Told | None = None,
    level: tuple[Tensor, bool] | None = None,
) -> tuple[Problem, Tensor | None]:
    """The problem of one picture (C, H, W), NaN where missing; and where pixels are missing.

    `pages` and `shared` are those of `Given`; `told` is what is known of the noise from elsewhere;
    `level` a map of log sd (H, W), and whether it is absolute.
    """
    if on_unit_range:
        check_range(values)
    y, missing, hidden = seen(values, depth, pages)
    clipped, full = (False, 1.0) if depth is None else (depth.clipped, depth.full)
    mapped = None if level is None else light_of_map(level[0], hidden)
    if on_unit_range and not clipped:
        y, hidden = without_outshining(y, hidden, None if mapped is None else evened(y, mapped))
    if denoiser.dtype is not None:
        y = y.to(denoiser.dtype)
    shape = (y.shape[-2], y.shape[-1])
    grey = y.shape[1] == 1 and denoiser.channels == 3
    if denoiser.channels not in (None, y.shape[1]) and not grey:
        raise InputError(
            f"picture: {y.shape[1]} channels, but the model is for {denoiser.channels}"
        )
    denoiser = _in_tiles(denoiser, tile, shape)
    quiet, window = None, None
    if mapped is not None:
        family, known = under_map(family, known, mapped, level is not None and level[1])
    light = mapped or _light(family, y, hidden, shared)
    if told is not None:
        family, known = told(family, shape, light)
    if family.stationary:
        window = taper(shape, hidden) if boundary == "open" or pages > 1 else None
        if window is None and hidden is not None:
            window = (~hidden)[None, None].double()
    observed = None if missing is None or family.stationary else ~missing
    phi = all_values(family, known)[None]
    everything = set(known) == set(family.names)
    noise = with_fixed(family, known) if known and not everything else family
    d = len(noise.parameters)
    whole = d > FEW and noise.has_gaussian_prior
    counted = isinstance(noise, StationaryNoise) and noise.level_curve == BY_COUNTS
    few = mapped is not None and not whole  # a search knows no levels that differ so much
    asked = (whole or counted or few) and not everything
    if asked and denoiser.error_model and y.shape[1] in (1, 3):
        every = torch.ones(shape, dtype=torch.bool) if clipped else None
        form = noise.level_curve if isinstance(noise, StationaryNoise) and not level else None
        even = y if mapped is None else evened(y, mapped)
        quiet = quiet_patches(even, every if hidden is None else ~hidden, form)
    by_quiet = None
    if quiet is not None and told is None and counted and not known:
        by_quiet = told_by_quiet_places(stationary(noise), y, hidden, quiet)
    elif quiet is not None and told is None and few and quiet.trusted:
        by_quiet = spectrum_by_quiet_places(stationary(noise), quiet)
    raised = (0.0, 0.0)
    if quiet is not None:
        steps = None if depth is None or mapped is not None else depth.steps
        quiet, raised = of_the_whole(quiet, y, whole, clipped, steps, full)
    return Problem(
        y,
        noise,
        denoiser,
        ObservationModel(
            noise,
            shape,
            grey,
            window,
            observed,
            stated_on=None if shared is None else shared.grid,
            light=light,
        ),
        known=phi if everything else None,
        start=_start(noise, quiet, raised, whole),
        # Bands of their own have too few modes to leave any out.
        listening=SURE if d <= FEW or whole else None,
        most_steps=WHOLE if whole else FIRST - 1 - d if d <= FEW else MANY,
        picture=boundary == "open",
        quiet=quiet,
        told=by_quiet,
        raised=raised,
        correlated=raised[0] > 0 and y.shape[1] == 3,
        whole=whole,
        least_level=LEAST_LEVEL if on_unit_range else 0.0,
        noiseless=on_unit_range and clipped and not known and without_noise(y, full),
        pages=pages,
    ), missing


def seen(
    values: Tensor, depth: Depth | None, pages: int = 1
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """y (1, C, H, W) of values (C, H, W), filled; where it is missing, and where it is not to be
    listened to: saturated pixels as well, and the last row of each of several pages.
    """
    y, missing = observation(values)
    hidden = missing
    if depth is not None and depth.clipped:
        hidden = hidden_places(y, missing, depth.full)
    if pages > 1:
        seams = torch.zeros(y.shape[-2:], dtype=torch.bool)
        seams[y.shape[-2] // pages - 1 :: y.shape[-2] // pages] = True
        hidden = seams if hidden is None else hidden | seams
    return y, missing, hidden


def light_of(y: Tensor, hidden: Tensor | None) -> Light:
    """The brightness that the level of the noise goes with."""
    return Light.of(brightness(y), None if hidden is None else ~hidden)


def _in_tiles(denoiser: Denoiser, tile: int | None, shape: Shape) -> Denoiser:
    """The denoiser, in tiles if they are asked for or the picture is large."""
    if not tile and max(shape) <= TILE:
        return denoiser
    in_tiles = denoiser.tiled(tile or TILE)
    if tile and in_tiles is denoiser:
        raise InputError("tile: this denoiser sees whole pictures only")
    return in_tiles


def _light(
    family: NoiseModel, y: Tensor, hidden: Tensor | None, shared: Shared | None
) -> Light | None:
    """The brightness, for a family whose level goes with it."""
    if not isinstance(family, StationaryNoise) or family.level_curve is None:
        return None
    light = light_of(y, hidden)
    return light if shared is None else replace(light, whole=shared.light)


def options_of(
    problem: Problem,
    method: str,
    second_stage: bool | None,
    samples: int | None,
    **others: Any,
) -> tuple[Problem, Options]:
    """The options, with what was left open settled: the marginal method wherever it can be used,
    and φ of a large picture from its windows.
    """
    pixels = problem.y.shape[-2] * problem.y.shape[-1]
    if method == "auto":
        method = "marginal" if problem.searchable and problem.known is None else "gibbs"
        method = "marginal" if others.get("best") else method
    large = method == "marginal" and (pixels > LARGE or problem.pages > 1)
    if problem.pages > 1 and not large and problem.known is None:
        raise InputError("one noise for several pictures is for the marginal method")
    by_search = problem.known is None and problem.told is None
    if large and problem.observation.window is not None and by_search:
        most = problem.most_steps if problem.whole else 20
        problem = replace(problem, by_windows=True, most_steps=most)
    options = Options(
        method="marginal" if method == "marginal" else "gibbs",
        second_stage=bool(second_stage),
        samples=int(method == "gibbs" and problem.known is None) if samples is None else samples,
        **others,
    )
    return problem, options


def _start(
    noise: NoiseModel, quiet: Quiet | None, raised: tuple[float, float], whole: bool
) -> Callable[[Tensor], Tensor]:
    """Where the search begins: at what quiet places tell, or by a regression on y."""
    # Of many parameters nothing better is known than the quietest places, trusted or not.
    if quiet is None or not (quiet.trusted or whole):
        return lambda some: regression_start(some, noise)
    if not isinstance(noise, StationaryNoise) or not noise.isotropic:
        return lambda some: regression_start(some, noise)
    return lambda _: start_of(noise, quiet, raised)


def _levels(depth: Depth) -> tuple[float, float]:
    return (WEAKEST if depth.rounding > NO_ROUNDING else 0.01, 1.0)
