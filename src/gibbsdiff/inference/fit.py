"""Whether the method, the noise and the denoiser fit together: seen before any work."""

from __future__ import annotations

from functools import partial
from itertools import product

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.problem import Options, Problem

FEW = 4  # parameters up to which every corner of the prior box is looked at


def check_fit(problem: Problem, options: Options) -> None:
    """Refuse what cannot be inferred with this denoiser: by its error model, and by its levels."""
    if problem.known is None and not problem.denoiser.error_model:
        if options.method == "marginal":
            raise InputError("the marginal method needs a denoiser that models its own error")
        if options.starts == "marginal":
            raise InputError(
                "starts: around the marginal mode needs a denoiser with an error model"
            )
    if options.second_stage and problem.observation.levelled:
        raise InputError("second_stage: not for noise whose level goes with the brightness")
    check_levels(problem, options)


def check_levels(problem: Problem, options: Options) -> None:
    """Refuse a prior box that goes beyond b(1)/a(1), eq. (2), before any work.

    What a chain would meet there, after hours perhaps, is an observation above the end of the
    process, which has no t*.
    """
    sampler = options.draw_x(problem.denoiser, problem.process)
    bound = sampler.keywords.get("process") if isinstance(sampler, partial) else None
    ends = [p.highest for p in (problem.denoiser.process, bound) if p is not None]
    if not ends:
        return
    level, end = highest_level(problem), min(ends)
    if level > end * (1 + 1e-6):
        what = "is" if problem.known is not None else "may be by its prior"
        hint = "" if problem.known is not None else ": cut the prior"
        raise InputError(
            f"noise: the level that the denoiser sees {what} {level:.4g}, above "
            f"b(1)/a(1) = {end:.4g}, the highest of the process{hint}"
        )


def highest_level(problem: Problem) -> float:
    """The highest level over the corners of the prior box, or that of the noise known."""
    phi = corners(problem.noise.low, problem.noise.high)
    levels = [
        problem.observation.covariance(one[None], torch.float64).level
        for one in (phi if problem.known is None else problem.known)
    ]
    return float(torch.cat(levels).max())


def corners(low: Tensor, high: Tensor) -> Tensor:
    """(n, d): all 2^d corners of a box of few parameters, the lowest and highest of others."""
    d = len(low)
    sides = product((False, True), repeat=d) if d <= FEW else [(False,) * d, (True,) * d]
    return torch.stack([torch.where(torch.tensor(side), high, low) for side in sides])
