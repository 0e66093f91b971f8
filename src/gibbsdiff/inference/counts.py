r"""Counted light: pictures whose noise has the variance gain · l + c, in the data's own units.

The gain is what one more unit of light adds to the variance. A pedestal p and read noise of
variance v are one number, c = v - gain · p: they are told apart only where the pedestal is given.
Most of such pictures are dark; they are stretched until their 99.9 % quantile is 1, where networks
for photographs know pictures.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from gibbsdiff.inference.counted_law import is_white, line_over_curve
from gibbsdiff.inference.encoding import Encoding, Given, observation
from gibbsdiff.inference.line import Line
from gibbsdiff.inference.observation import stationary
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Problem
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.level_curves import BY_COUNTS, ByCounts
from gibbsdiff.noise.stationary import StationaryNoise

WHITE, COLOURED, PHOTOGRAPHED = "poisson-gaussian", "counts", "photo"
COUNTED = (WHITE, COLOURED)
BRIGHT, DIM = 0.999, 0.05  # the quantile that becomes 1, and the least that it is taken for
SURELY, SURELY_NOT = 3.0, 20.0  # by how much log p of a line is higher, or lower
ENOUGH = 1_000_000  # pixels that the quantile is taken over
SCALED = ("observed", "mean", "sd", "average", "samples")


def stretched(given: Given) -> tuple[Given, float]:
    """The picture s · values whose 99.9 % quantile is 1, and s: at least 1."""
    seen = given.values[torch.isfinite(given.values)]
    if not len(seen):
        return given, 1.0
    some = seen[:: max(1, len(seen) // ENOUGH)].double()
    s = 1 / min(1.0, max(DIM, float(torch.quantile(some, BRIGHT))))
    shared = given.shared
    if shared is not None:
        shared = shared._replace(light=s * shared.light)
    return given._replace(values=s * given.values, full=s * given.full, shared=shared), s


def is_counted(family: str | NoiseModel) -> bool:
    """Whether a family, or one by its name, is of counted light."""
    if isinstance(family, str):
        return family in COUNTED
    return isinstance(family, StationaryNoise) and isinstance(family.level_curve, ByCounts)


def stretched_known(known: dict[str, float], s: float) -> dict[str, float]:
    """Parameters as they are on the stretched picture."""
    change = {"sigma": lambda v: s * v, "log_sigma": lambda v: v + math.log(s)}
    return {n: change[n](v) if n in change else v for n, v in known.items()}


def as_given(posterior: Posterior, s: float) -> Posterior:
    """A posterior of the stretched picture as one of the picture."""
    if s == 1:
        return posterior
    maps: dict[str, Any] = {n: getattr(posterior, n) for n in SCALED}
    changed: dict[str, Any] = {n: None if v is None else v / s for n, v in maps.items()}
    shift = torch.tensor([math.log(s) * (n == "log_sigma") for n in posterior.names]).double()
    scale = torch.tensor([s if n == "sigma" else 1.0 for n in posterior.names]).double()
    power, error = posterior.noise_power, posterior.model_error
    mode = None if posterior.mode is None else torch.tensor(posterior.mode).double()
    return replace(
        posterior,
        phi=(posterior.phi - shift) / scale,
        box=None if posterior.box is None else (posterior.box - shift) / scale,
        mode=None if mode is None else tuple(((mode - shift) / scale).tolist()),
        model_error=None if error is None else error / scale / scale[:, None],
        noise_power=None if power is None else power / s**2,
        **changed,
    )


def line_of(
    posterior: Posterior, problem: Problem, encoding: Encoding, s: float, offset: float | None
) -> Line | None:
    """The line of the noise's variance, in the file's units, with the network's own error."""
    light = problem.observation.light
    if light is None or not is_counted(problem.noise):
        return None
    noise = stationary(problem.noise)
    assert isinstance(noise.level_curve, ByCounts)
    form = noise.level_curve.on(light.whole)
    phi = posterior.widened().phi.flatten(0, 1).double()
    # Of the quantiles alone: a map for every draw would be large, and the curve is all that counts.
    level = noise.lit(light.part(light.whole.view(1, 1, 1, -1))).level_map(phi)
    assert level is not None
    assert level.curve is not None
    bins = noise.grouping(problem.observation.shape)
    N = noise.log_spectra(bins.k, phi).exp().mean(1)
    variance = (N * bins.k.fraction).sum(-1)
    gain, c = form.line(level.curve[:, 0], variance)
    gain, c = encoding.unit / s * gain, (encoding.unit / s) ** 2 * c
    c = c - gain * encoding.zero
    read = None
    if offset is not None:
        read = float((c + gain * offset).clamp(min=0).sqrt().mean())
    spread = [float(v.std()) if len(v) > 1 else 0.0 for v in (gain, c)]
    return Line(float(gain.mean()), spread[0], float(c.mean()), spread[1], read)


def kind_of(given: Given) -> str:
    """Which family the noise of a picture is of, by its quiet places: that of photographs, or that
    of counts, whose level is a line; and if of counts, whether it is white. Colour pictures of 8
    bits are photographs. Grey noise that has a spectrum, and is alike in all places, is a
    detector's, unless its level surely is no line: the score would take much of it for texture.
    """
    if len(given.values) > 1 and given.encoding.dtype == "uint8":
        return PHOTOGRAPHED
    y, missing = observation(stretched(given)[0].values)
    seen = torch.ones(y.shape[-2:], dtype=torch.bool) if missing is None else ~missing
    better = line_over_curve(y, seen)
    quiet = None if better < -SURELY_NOT else quiet_patches(y, seen, BY_COUNTS)
    if quiet is None:
        return PHOTOGRAPHED
    if better > SURELY:
        return WHITE if is_white(quiet) else COLOURED
    grey = len(given.values) == 1
    return COLOURED if grey and quiet.trusted and not is_white(quiet) else PHOTOGRAPHED
