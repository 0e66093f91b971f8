"""The one way from an observation to its posterior:

    start → search → refine or chains → model error → draws → posterior → check

`denoise`, large pictures, the cosmology, calibration and the benchmark all call `infer`, so that
what is measured is what ships.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.correlated import Correlated
from gibbsdiff.errors import InputError
from gibbsdiff.inference.check import with_check
from gibbsdiff.inference.curves import curves_of
from gibbsdiff.inference.drawing import (
    best_mean,
    drawn_again,
    given_back,
    image_at,
    samples_around,
)
from gibbsdiff.inference.first_stage import Search, search, search_where_sure
from gibbsdiff.inference.fit import check_fit
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.known import with_known_noise
from gibbsdiff.inference.laplace import draw_phi
from gibbsdiff.inference.model_error import model_error
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.posterior import Posterior, mean_noise_power
from gibbsdiff.inference.problem import (
    Options,
    Problem,
    Starts,
    how_chains,
)
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.search import without_weights
from gibbsdiff.inference.second_look import better, refused
from gibbsdiff.inference.second_stage import refine
from gibbsdiff.inference.starts import paper_starts, spread
from gibbsdiff.inference.told import told_by
from gibbsdiff.inference.windows import scale_to_whole
from gibbsdiff.inference.words import doubts
from gibbsdiff.mcmc import OURS, PAPER
from gibbsdiff.streams import Streams

TEXTURE = "no quiet place: noise cannot be told from texture here, and less of both was taken away"


def infer(
    problem: Problem, options: Options | None = None, progress: Progress = silent
) -> list[Posterior]:
    """p(x, φ | y), one Posterior for each image.

    Ctrl-C, or a KeyboardInterrupt from `progress`, gives what is there, marked as interrupted.
    """
    options = options or Options()
    check_fit(problem, options)
    if len(problem.y) > 1 and problem.denoiser.adaptable:
        # One by one: the denoiser is corrected for each image.
        found: list[Posterior] = []
        for i in range(len(problem.y)):
            found += infer(problem.rows([i]), options, progress)
            if found[-1].interrupted:
                break
        return found
    begun, at, searched = time.perf_counter(), None, None
    if problem.known is not None:
        found = with_known_noise(problem, options, progress)
    elif options.method == "marginal":
        searched = search(problem, options, progress)
        found = _by_marginal(problem, options, searched, progress)
        at = None if options.second_stage else searched.mode.called
    else:
        found = _by_chains(problem, options, progress)
    found = [
        with_check(problem.rows([b]), p, options, progress, None if at is None else at[b : b + 1])
        for b, p in enumerate(found)
    ]
    if searched is not None and refused(problem, options, searched, found):
        try:
            again = search_where_sure(problem, searched, progress)
            other = _by_marginal(problem, options, again, progress)
            found = [better(found[0], with_check(problem, other[0], options, progress))]
        except KeyboardInterrupt:
            found = [replace(found[0], interrupted=True)]
    seconds = (time.perf_counter() - begun) / len(found)
    return [given_back(replace(p, seconds=seconds), problem.least_level) for p in found]


def _by_marginal(
    problem: Problem, options: Options, found: Search, progress: Progress, interrupted: bool = False
) -> list[Posterior]:
    """φ from the density around the mode, x at the mode."""
    marginal, mode, calls = found.marginal, found.mode, found.calls
    if options.second_stage and not interrupted:
        try:
            mode = refine(
                marginal,
                mode,
                found.denoiser,
                options.draw_x(found.denoiser, problem.process),
                seed=options.seed,
                progress=progress,
            )
        except KeyboardInterrupt:
            interrupted = True
        calls += mode.calls - found.mode.calls
    error = model_error(marginal, mode) if mode.model_error is None else mode.model_error
    drawn = draw_phi(marginal, mode, options.draws, options.chains, options.seed, options.density)
    calls += drawn.calls
    stages = "two stages" if mode is not found.mode else "first stage"
    posteriors = []
    for b in range(len(problem.y)):
        one, phi = problem.rows([b]), drawn.phi[b]
        box = box_of_search = torch.stack([problem.noise.low, problem.noise.high])
        own = None if error is None else error[b]
        how = [
            stages,
            f"{drawn.densities[b]} density",
            *_by_whom(found, options, problem.told is not None),
        ]
        mean, sd, stated, extra = mode.mean[b], mode.sd[b], phi, 0
        there = mode.phi[b]
        if found.windows is not None:
            one = replace(one, observation=found.windows.whole)
            progress("denoising the whole picture", 0, 1)
            mean, whole_sd = image_at(one, mode.phi, options.seed)
            assert whole_sd is not None
            sd, extra = whole_sd, 1
            scale = scale_to_whole(found.windows, mode.phi)
            stated, own = phi * scale, None if own is None else own * scale[:, None] * scale
            box, there = box * scale, there * scale
            height, width = found.windows.local.shape
            how.append(f"φ from {len(found.windows.parts)} windows of {height}×{width}")
        at = mode.phi[b : b + 1] if mode.called is None else mode.called[b : b + 1]
        if problem.correlated:
            one = replace(one, denoiser=Correlated(one.denoiser))
            how.append("luma by what chroma tells of its noise")
        if options.best:
            mean, extra = best_mean(one, at, options.seed), extra + 8 * (1 + problem.correlated)
        elif problem.correlated:
            mean, own_sd = image_at(one, at, options.seed)
            sd, extra = sd if own_sd is None else own_sd, extra + 1
        drawing = options if not interrupted else replace(options, samples=0)
        samples = samples_around(one, phi, mode.phi[b : b + 1], found.denoiser, drawing, progress)
        interrupted = interrupted or samples.interrupted  # those of the next image, too
        # Of many parameters a mean over draws is no spectrum of the family.
        at = mode.phi[b : b + 1, None] if problem.whole else phi
        posteriors.append(
            Posterior(
                problem.noise.names,
                stated,
                problem.y[b],
                mean,
                sd,
                samples=samples.x,
                noise_power=mean_noise_power(one.observation, at, problem.y.dtype),
                curves=curves_of(problem.noise, problem.y.shape[-2:], mode, b),
                model_error=own,
                box=box,
                method="marginal",
                how=tuple(how),
                calls=calls + extra + samples.calls,
                ended=bool(mode.ended[b]),
                interrupted=interrupted,
                mode=tuple(there.tolist()),
                notes=(
                    *(() if found.told else (TEXTURE,)),
                    *doubts(problem.noise.names, mode.phi[b], phi, box_of_search),
                ),
            )
        )
    return posteriors


def _by_whom(found: Search, options: Options, told: bool) -> list[str]:
    """Where the search listened, or who told it how much."""
    if told:
        return ["known from quiet places alone"]
    who = [] if found.shares is None else [told_by(found.shares)]
    if found.marginal.observation.weights is None:
        return who
    sure = isinstance(options.weights, str)
    return [*who, "where the network is sure" if sure else "by the weights given"]


def _by_chains(problem: Problem, options: Options, progress: Progress) -> list[Posterior]:
    """Gibbs; from around the marginal mode where there is one."""
    if options.starts == "marginal" and not problem.searchable:
        raise InputError("starts: around the marginal mode needs a denoiser with an error model")
    starts = options.starts or ("marginal" if problem.searchable else "prior")
    improves = problem.denoiser.adaptable or problem.denoiser.scatter is not None
    found = None
    if problem.searchable and (starts == "marginal" or improves):
        found = search(problem, options, progress)
    burn_in = max(2, options.draws // 5) if options.burn_in is None else options.burn_in
    settings = Settings(
        chains=options.chains,
        iterations=burn_in + options.draws,
        burn_in=burn_in,
        transitions=options.transitions,
        warm_up=options.warm_up,
        adaptation=PAPER if options.adaptation == "paper" else OURS,
        keep_samples=options.samples,
        stop_when_converged=options.stop_when_converged,
        seed=options.seed,
    )
    try:
        drawn = gibbs(
            problem.y,
            problem.noise,
            problem.denoiser if found is None else found.denoiser,
            settings=settings,
            sampler=options.draw_in_chains(problem.denoiser, problem.process),
            start=_starts(problem, options, starts, found),
            observation=_likelihood_of(problem, options, found),
            phi_step=options.phi_step,
            keys=problem.keys,
            checkpoint=options.checkpoint,
            progress=progress,
        )
    except KeyboardInterrupt:
        if found is None:
            raise
        brief = Options("marginal", options.chains, options.draws, samples=0, seed=options.seed)
        note = "interrupted before the chains had draws: this is the marginal method's result"
        left = _by_marginal(problem, brief, found, progress, interrupted=True)
        return [replace(p, notes=(*p.notes, note)) for p in left]
    if options.draws_again:
        denoiser = problem.denoiser if found is None else found.denoiser
        drawn = drawn_again(drawn, problem, denoiser, options, progress)
    error, calls = None, 0
    if found is not None:
        calls = found.calls
        if found.mode.model_error is not None:
            error = found.mode.model_error
        elif options.weighted_chains or found.marginal is found.plain:
            error = model_error(found.marginal, found.mode)
        else:
            error = model_error(found.plain, without_weights(found.plain, found.mode))
            calls += found.plain.cost
    return [
        replace(
            p,
            calls=p.calls + calls,
            mean=p.mean if options.mean == "tweedie" or p.average is None else p.average,
            how=how_chains(options, starts),
            model_error=None if error is None else error[b],
        )
        for b, p in enumerate(drawn)
    ]


def _likelihood_of(problem: Problem, options: Options, found: Search | None) -> ObservationModel:
    """What chains take of y - x: all of it, or what the weights of the search leave, whitened by
    the noise at the mode.
    """
    if not options.weighted_chains:
        return problem.observation
    weights = None if found is None else found.marginal.observation.weights
    if weights is None:
        raise InputError("weighted_chains: there was no weighted search that they could be from")
    assert found is not None
    N = found.mode.at.N
    rule = problem.listening
    name = rule.name if rule is not None and isinstance(options.weights, str) else None
    return replace(problem.observation, weights=weights._replace(N=N, modes=None, name=name))


def _starts(
    problem: Problem, options: Options, starts: Starts, found: Search | None
) -> Tensor | None:
    """(images, chains, d); None is the prior."""
    if starts == "prior":
        return None
    rows = []
    centre = None
    if starts == "marginal":
        assert found is not None
        mode = found.mode
        centre = problem.centre(problem.y, mode) if problem.centre else (mode.phi, mode.covariance)
    for b, key in enumerate(problem.keys):
        rng = Streams(options.seed, [(*key, 3, chain) for chain in range(options.chains)])
        if centre is not None:
            rows.append(spread(centre[0][b], centre[1][b], problem.noise, rng))
        elif problem.paper_starts is not None:
            rows.append(problem.paper_starts(problem.y[b : b + 1], rng))
        else:
            rows.append(paper_starts(problem.y[b : b + 1], problem.noise, rng))
    return torch.stack(rows)
