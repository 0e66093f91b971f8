"""Does the model of the noise fit? A check that can say no, of every family and method.

At the φ of a posterior the denoiser is called once more, with its derivative; what is left of y is
whitened as the model says (`whitened`), and looked at from many sides (`check_tests`). One
threshold is for the largest misfit of all. A misfit of less than 15 % in power is none, whatever
its z: no denoiser is better than that. "Cannot tell" is an answer: where the denoiser takes nearly
all of y for signal, nothing is left to be checked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.inference.check_tests import findings
from gibbsdiff.inference.check_words import sentence, uncertain
from gibbsdiff.inference.model_check import Finding, ModelCheck
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.whitened import whitened
from gibbsdiff.inference.windows import LARGE, cut
from gibbsdiff.streams import Key

#: Of the largest |z|; with TAU of `check_tests`, by benchmarks/check.py on 44 held-out photographs:
#: of 88 pictures with noise of the model one is beyond 5 (7.7), a photograph whose texture looks
#: like noise. Raised to 6 after 4 alarms in 59 runs on test images.
THRESHOLD = 6.0
LEAST = math.log(1.15)  # misfit in log power that matters
FEWEST = 0.05  # of a channel's modes without which it cannot be told


def check(
    observation: ObservationModel,
    denoiser: Denoiser,
    y: Tensor,
    phi: Tensor,
    *,
    seed: int = 0,
    keys: Sequence[Key] | None = None,
) -> ModelCheck:
    """The check of pictures y (B, C, H, W) that have one φ (1, d), by one call of each."""
    own = as_denoiser(denoiser)
    if not observation.noise.stationary:
        return ModelCheck(None, uncertain("this noise has no spectrum"))
    if not own.error_model:
        return ModelCheck(None, uncertain("the denoiser does not say how large its error is"))
    w = whitened(observation, own, y, phi, seed=seed, keys=keys)
    found = findings(w)
    bands = tuple(f for f in found if f.kind == "band")
    wrong = sorted((f for f in found if is_misfit(f)), key=lambda f: -abs(f.z))
    if wrong:
        return ModelCheck(False, sentence(wrong, observation.noise), tuple(wrong), bands)
    blind = [c for c, part in enumerate(w.kept.double().mean((0, 2, 3))) if float(part) < FEWEST]
    if blind or not bands:
        return ModelCheck(None, uncertain("", blind, y.shape[1]), (), bands)
    return ModelCheck(True, "the noise model fits", (), bands)


def is_misfit(f: Finding) -> bool:
    """Whether it is beyond the threshold, and large enough to matter."""
    return abs(f.z) > THRESHOLD and abs(math.log(max(f.observed, 1e-6))) > LEAST


def with_check(
    problem: Problem,
    posterior: Posterior,
    options: Options,
    progress: Progress = silent,
    at: Tensor | None = None,
) -> Posterior:
    """The posterior of a problem of one picture, with the check; of a large picture it is that of
    its windows.

    Arguments:
        at: φ (1, d) that the picture was denoised with; by default the mean of φ.
    """
    if not options.check:
        return posterior
    y, observation, keys = problem.y, problem.observation, list(problem.keys)
    if observation.window is not None and (y[0, 0].numel() > LARGE or problem.pages > 1):
        windows = cut(y, observation, problem.pages)
        y, keys = windows.parts, [(i,) for i in range(len(windows.parts))]
        stated = observation.stated_on or observation.shape
        observation = replace(windows.local, stated_on=stated)
    if at is None or problem.by_windows:
        at = posterior.phi.double().mean((0, 1))[None]
    stopped = ModelCheck(None, uncertain("it was interrupted"))
    if posterior.interrupted:
        return replace(posterior, check=stopped)
    try:
        progress("checking the noise model", 0, 1)
        found = check(observation, problem.denoiser, y, at, seed=options.seed, keys=keys)
    except KeyboardInterrupt:
        found = stopped
    return replace(posterior, check=found)
