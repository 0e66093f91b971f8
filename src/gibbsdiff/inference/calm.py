"""Level maps that jump by more than a network has seen: where the noise is weak, the picture is
denoised as if the places where it is strong were missing. They would tell next to nothing there.

Levels that rise by and by stay as they are, such as those of counts around a star: what is cut off
there belongs to a source, and would be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from gibbsdiff.inference.given_level import GivenLevel
from gibbsdiff.inference.posterior import Posterior

LOUD = 3.0  # sd over that of the quietest tenth: such a pixel has a ninth of the weight, or less
BETWEEN, FEW = 1.5, 0.1  # a jump: a tenth as many pixels, at most, between this and `LOUD`
ENOUGH = 0.25  # of the picture must be calm
SAMPLE = 1_000_000  # pixels that tell the quantile


def calm_part(level: GivenLevel) -> GivenLevel | None:
    """The map without its loud places; None if there are none, too little is left, or levels rise
    to them without a jump.
    """
    seen = level.sd[torch.isfinite(level.sd)]
    quiet = torch.quantile(seen[:: 1 + len(seen) // SAMPLE], 0.1)
    calm = level.sd <= LOUD * quiet
    loud, between = (int((seen > bound * quiet).sum()) for bound in (LOUD, BETWEEN))
    if between - loud > FEW * loud or loud == 0 or float(calm.double().mean()) < ENOUGH:
        return None
    return replace(level, sd=torch.where(calm, level.sd, torch.nan))


def calmed(
    posterior_of: Callable[[GivenLevel | None], Posterior], level: GivenLevel | None
) -> Posterior:
    """The posterior under a map, and that of its calm part where the picture is calm; φ is told by
    the whole. Draws of x are of the whole map, and stay so.
    """
    found = posterior_of(level)
    whole = level is None or found.samples is not None or found.interrupted or found.returned
    calm = None if level is None or whole else calm_part(level)
    if calm is None:
        return found
    part = posterior_of(calm)
    if part.interrupted or part.returned:
        return found
    there = torch.isfinite(calm.sd)
    mean = torch.where(there, part.mean, found.mean)
    sd = found.sd if part.sd is None or found.sd is None else torch.where(there, part.sd, found.sd)
    calls, seconds = found.calls + part.calls, found.seconds + part.seconds
    return replace(found, mean=mean, sd=sd, calls=calls, seconds=seconds)
