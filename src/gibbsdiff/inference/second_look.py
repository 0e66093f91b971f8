"""A second look at noise that the check refuses, where the network is sure, eq. (14).

A search of many parameters listens to all places alike, and may end where texture is taken for
noise. Where the network is sure there is none, and the check, which looks there, says so. Noise
that a camera has processed is weaker in flat places, and is not looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gibbsdiff.inference.first_stage import Search
from gibbsdiff.inference.model_check import ModelCheck
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options, Problem


def refused(
    problem: Problem, options: Options, found: Search, posteriors: Sequence[Posterior]
) -> bool:
    """Whether the check says no to a search of the whole posterior, beside quiet places, of noise
    that is alike in all places.
    """
    check, own = posteriors[0].check, problem.denoiser
    alike = found.shares is not None and found.told and problem.raised[0] == 0
    listens = problem.listening is not None and options.weights == "sure"
    quiet = problem.quiet is not None and problem.quiet.believed
    able = own.differentiable and not own.exact and not options.second_stage
    no = check is not None and check.fits is False and not posteriors[0].interrupted
    return len(posteriors) == 1 and no and alike and listens and quiet and able


def better(first: Posterior, second: Posterior) -> Posterior:
    """The one whose worst misfit is smaller; the first where the second was interrupted."""
    if second.interrupted:
        return replace(first, interrupted=True)
    return second if worst(second) < worst(first) else first


def worst(posterior: Posterior) -> float:
    """The largest |z| of the check's misfits."""
    check: ModelCheck | None = posterior.check
    return max((abs(f.z) for f in check.misfits), default=0.0) if check is not None else 0.0
