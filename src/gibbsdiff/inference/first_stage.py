"""The first stage: where p(φ | y) has its mode, and by which score."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.matrices import raised_to
from gibbsdiff.inference.newton import climb_from_both_ends, climb_whole
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_start import start_of
from gibbsdiff.inference.search import Mode, climb, listen, mode_at, mode_by_steps
from gibbsdiff.inference.told import QuietData
from gibbsdiff.inference.windows import Windows, cut


@dataclass(frozen=True)
class Search:
    """The mode of p(φ | y), the denoiser corrected for the image there, and the calls made.

    `marginal` is the score that found the mode, `plain` the same without weights. `shares` (3, d),
    of a search of the whole posterior: how much of what is known of each parameter came from the
    network, from quiet places and from the prior. `told`: noise could be told from texture.
    """

    marginal: Marginal
    plain: Marginal
    mode: Mode
    denoiser: Denoiser
    calls: int
    windows: Windows | None
    shares: Tensor | None = None
    told: bool = True


def _whole(
    problem: Problem, options: Options, plain: Marginal, start: Tensor, progress: Progress
) -> tuple[Mode, Tensor, bool]:
    """Of many parameters: the mode of the whole posterior."""
    if isinstance(options.weights, Tensor):
        raise InputError("weights: not for noise with so many parameters")
    quiet, most = problem.quiet, problem.most_steps
    if quiet is None or not quiet.believed:
        return climb_from_both_ends(plain, start, most, progress)
    beside = QuietData(quiet, problem.raised)
    return *climb_whole(plain, beside, start, most, progress=progress), True


def search_where_sure(problem: Problem, found: Search, progress: Progress = silent) -> Search:
    """The search of a whole posterior, gone on from its mode with the score where the network is
    sure there, eq. (14): texture that it took for noise is where it is not.
    """
    rule, quiet = problem.listening, problem.quiet
    assert rule is not None
    assert quiet is not None
    weighted = listening(found.plain, rule, found.mode.phi)
    beside = QuietData(quiet, problem.raised)
    mode, shares = climb_whole(weighted, beside, found.mode.phi, problem.most_steps, progress)
    calls = found.calls + found.plain.cost + mode.calls
    return replace(found, marginal=weighted, mode=mode, shares=shares, calls=calls)


def _as_told(plain: Marginal, phi: Tensor, covariance: Tensor) -> Mode:
    """φ as y tells it without a network, and what one call says there."""
    at = plain.score((phi - plain.noise.low) / plain.width, probe=False).at
    around = plain.around(phi, probe=False)
    ended = torch.ones(len(phi), dtype=torch.bool)
    error = torch.zeros_like(covariance)
    return Mode(phi, covariance, covariance, at, around, 2, ended, model_error=error)


def _few(
    problem: Problem,
    options: Options,
    plain: Marginal,
    weighted: Marginal,
    start: Tensor | None,
    progress: Progress,
) -> tuple[Marginal, Mode]:
    """Of few parameters: by the score alone, where the network is sure or by the weights given."""
    own, most = problem.denoiser, problem.most_steps
    rule = problem.listening if own.differentiable and not own.exact else None
    if rule is not None and isinstance(options.weights, str):
        marginal, there = listen(plain, rule, start, max(1, 2 * most // 3), progress)
        mode = mode_by_steps(marginal, there)
    else:
        marginal, there = weighted, climb(weighted, start, most, progress=progress)
        mode = mode_at(marginal, there)
    above = _above(plain, mode) if problem.picture and not plain.shared else None
    if above is None:
        return marginal, mode
    there = climb(plain, above, most, progress=progress)
    if _at_the_floor(plain, there.phi):
        return marginal, mode
    found = mode_at(plain, there)
    return plain, replace(found, calls=found.calls + mode.calls)


def _at_the_floor(marginal: Marginal, phi: Tensor) -> bool:
    """Whether the amplitude of one image is at its lower wall: the network keeps all of y there,
    and the score says nothing.
    """
    noise = marginal.noise
    if len(phi) > 1 or noise.amplitude not in noise.names:
        return False
    i = noise.names.index(noise.amplitude)
    return bool(phi[0, i] <= noise.low[i] * (1 + 1e-6))


def _above(marginal: Marginal, mode: Mode) -> Tensor | None:
    """Another start for a search that ended at the floor: what quiet places tell, if it is more."""
    if not _at_the_floor(marginal, mode.phi) or marginal.y.shape[1] not in (1, 3):
        return None
    quiet = quiet_patches(marginal.y)
    if quiet is None or not quiet.trusted or not marginal.noise.isotropic:
        return None
    start = start_of(marginal.noise, quiet)
    return None if _at_the_floor(marginal, start) else start


def search(problem: Problem, options: Options, progress: Progress = silent) -> Search:
    """The mode of p(φ | y): of every image, or of all windows of one."""
    windows = None
    if problem.by_windows:
        windows = cut(problem.y, problem.observation, problem.pages)
    y, observation, keys = problem.y, problem.observation, list(problem.keys)
    if windows is not None:
        y, observation = windows.parts, windows.local
        keys = [(i,) for i in range(len(y))]
    score = partial(
        Marginal,
        y,
        problem.noise,
        problem.denoiser,
        observation,
        shared=windows is not None,
        seed=options.seed,
        keys=keys,
    )
    start = None if problem.start is None else problem.start(y)
    if start is not None and windows is not None:
        start = start.median(0, keepdim=True).values
    plain, shares, told = score(), None, True
    if problem.told is not None:
        marginal, mode = plain, _as_told(plain, *problem.told)
    elif problem.whole:
        assert start is not None
        marginal, (mode, shares, told) = plain, _whole(problem, options, plain, start, progress)
    else:
        given = options.weights if isinstance(options.weights, Tensor) else None
        if given is not None and windows is not None:
            raise InputError("weights: a map is for pictures up to 512²; φ of this is from windows")
        weighted = plain if given is None else score(weights=given)
        marginal, mode = _few(problem, options, plain, weighted, start, progress)
    if problem.least_information is not None:
        least = problem.least_information(mode.phi)
        inverse = torch.linalg.inv(raised_to(torch.linalg.inv(mode.inverse), least))
        change = inverse @ torch.linalg.inv(mode.inverse)
        mode = replace(mode, inverse=inverse, covariance=change @ mode.covariance @ change.mT)
        if marginal.plain:
            mode = replace(mode, covariance=inverse)
    needed = options.method == "gibbs" or options.second_stage or options.samples > 0
    denoiser, more = marginal.adapted(mode.phi) if needed else (problem.denoiser, 0)
    return Search(marginal, plain, mode, denoiser, mode.calls + more, windows, shares, told)
