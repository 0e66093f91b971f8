"""One picture by the families that it may need, and what goes beside its posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from gibbsdiff.inference.calm import calmed
from gibbsdiff.inference.clipped import outshining
from gibbsdiff.inference.counts import as_given, is_counted, kind_of, line_of, stretched
from gibbsdiff.inference.drawing import at_once
from gibbsdiff.inference.encoding import Given
from gibbsdiff.inference.given_level import GivenLevel
from gibbsdiff.inference.pipeline import infer
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.progress import Progress
from gibbsdiff.inference.simpler import AUTO, with_simpler
from gibbsdiff.noise.base import NoiseModel

#: The problem of one picture by a family, stretched by a factor, and where pixels are missing.
Setting = Callable[
    [Given, str | NoiseModel, float, GivenLevel | None], tuple[Problem, Tensor | None]
]


def by_kind(
    given: Given,
    level: GivenLevel | None,
    noise: str | NoiseModel,
    setting: Setting,
    options: Callable[[Problem], tuple[Problem, Options]],
    keep: tuple[float, float],
    offset: float | None,
    progress: Progress,
) -> Posterior:
    """The posterior of one picture, and what goes beside it."""

    def posterior_of(family: str | NoiseModel, level: GivenLevel | None = level) -> Posterior:
        part = given if level is None else level.on(given)[0]
        shown, s = stretched(part) if is_counted(family) else (part, 1.0)
        problem, missing = setting(shown, family, s, level)
        chosen = options(problem)
        found = at_once(*chosen) or infer(*chosen, progress)[0]
        found = outshining(found, shown.values)
        line = None if found.returned else line_of(found, problem, given.encoding, s, offset)
        name = family if isinstance(family, str) and level is None else ""
        found = replace(as_given(found, s), missing=missing, keep=keep, family=name, line=line)
        return _in_its_type(found, given)

    if noise != AUTO:
        return calmed(partial(posterior_of, noise), level)
    return with_simpler(posterior_of, kind_of(given))


def _in_its_type(posterior: Posterior, given: Given) -> Posterior:
    """Maps in the floating-point type of the picture, and how it is given back."""
    kind = given.values.dtype
    maps = ("observed", "mean", "sd", "average", "samples", "noise_power")
    cast: dict[str, Any] = {
        n: None if (v := getattr(posterior, n)) is None else v.to(kind) for n in maps
    }
    return replace(posterior, encoding=given.encoding, unit=given.encoding.unit, **cast)
