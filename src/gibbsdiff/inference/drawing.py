"""Images of the posterior at given φ: the mean with its map, and draws of x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.inference.matched import matched
from gibbsdiff.inference.posterior import Posterior, mean_noise_power
from gibbsdiff.inference.problem import Options, Problem
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.streams import Streams

STAGE = "drawing pictures"
DOUBTFUL = 2.0  # times the weakest noise, where the model of it does not fit


class Samples(NamedTuple):
    """Draws of x (n, C, H, W) or None, the calls made, and whether it was stopped early."""

    x: Tensor | None
    calls: int
    interrupted: bool


@torch.no_grad()
def image_at(problem: Problem, phi: Tensor, seed: int) -> tuple[Tensor, Tensor | None]:
    """D(y, N_φ) of one image and the sd of x around it, (C, H, W) each, by one call at φ (1, d)."""
    observation, y = problem.observation, problem.y
    covariance = observation.covariance(phi, y.dtype)
    shown = observation.show(y, covariance, Streams(seed, [(*problem.keys[0], 1)]))
    mean, error = problem.denoiser(shown, covariance)
    sd = pixel_sd(observation, error, shown.shape[1])
    return observation.take(mean)[0], None if sd is None else sd[0]


@torch.no_grad()
def best_mean(problem: Problem, phi: Tensor, seed: int) -> Tensor:
    """The mean of D over the 8 symmetries of the square, (C, H, W): D of the turned picture, turned
    back. What the network was not taught to do alike averages out.
    """
    turned = []
    for transposed, flips in product((False, True), ((), (-1,), (-2,), (-2, -1))):

        def turn(x: Tensor, transposed: bool = transposed, flips: Any = flips) -> Tensor:
            x = x.flip(flips) if flips else x
            return x.mT if transposed else x

        own = problem.observation
        shape = own.shape[::-1] if transposed else own.shape
        stated = own.stated_on[::-1] if own.stated_on and transposed else own.stated_on
        light = None if own.light is None else own.light.part(turn(own.light.map))
        there = replace(own, shape=shape, stated_on=stated, light=light, window=None)
        mean, _ = image_at(replace(problem, y=turn(problem.y), observation=there), phi, seed)
        mean = mean.mT if transposed else mean
        turned.append(mean.flip(flips) if flips else mean)
    return torch.stack(turned).mean(0)


def given_back(posterior: Posterior, least: float) -> Posterior:
    """The posterior, or the picture as it is where its noise is weaker than `least`; or than twice
    that, if the model of the noise does not fit: there is less to win than to lose.
    """
    level, doubtful = posterior.level, posterior.check is not None and not posterior.check.fits
    if not level < (DOUBTFUL * least if doubtful else least):
        return posterior
    why = f"weaker than any that the network knows ({least:g})"
    if level >= least:
        why = "too weak to be taken away by a model that does not fit"
    note = f"noise of {level:.2g}, {why}: the picture is given back as it is"
    y = posterior.observed
    sd = torch.full_like(y, level)
    return replace(posterior, mean=y, sd=sd, returned=True, notes=(*posterior.notes, note))


def at_once(problem: Problem, options: Options) -> Posterior | None:
    """The picture as it is, where it says by itself that it has no noise; None where it does not,
    or where its noise has no level that could be next to nothing.
    """
    noise = problem.noise
    levels = [i for i, name in enumerate(noise.names) if name in ("sigma", "log_sigma")]
    if not problem.noiseless or not levels or len(problem.y) > 1:
        return None
    phi = (noise.low + noise.high)[None] / 2
    phi[:, levels] = noise.low[levels]
    phi = phi.expand(options.chains, options.draws, -1)
    y = problem.y[0]
    note = "most neighbouring pixels are equal, there is no noise between them: "
    return Posterior(
        noise.names,
        phi,
        y,
        y,
        torch.full_like(y, problem.least_level),
        noise_power=mean_noise_power(problem.observation, phi, y.dtype),
        box=torch.stack([noise.low, noise.high]),
        method="marginal",
        how=("no search",),
        returned=True,
        notes=(note + "the picture is given back as it is",),
    )


def draw_samples(
    problem: Problem,
    phi: Tensor,
    denoiser: Denoiser,
    sampler: Sampler,
    count: int,
    seed: int,
    progress: Progress = silent,
) -> Samples:
    """x | y, φ of one image for `count` of the draws (chain, draw, d) of φ."""
    flat, observation = phi.flatten(0, 1), problem.observation
    kept: list[Tensor] = []
    calls, interrupted = 0, False
    try:
        for i in range(count):
            progress(STAGE, i, count)
            rng = Streams(seed, [(*problem.keys[0], 2, i)])
            covariance = observation.covariance(flat[i % len(flat)][None], problem.y.dtype)
            draw = sampler(denoiser, observation.show(problem.y, covariance, rng), covariance, rng)
            kept.append(observation.take(draw.x)[0])
            calls += int(draw.calls.sum())
    except KeyboardInterrupt:
        interrupted = True
    return Samples(torch.stack(kept) if kept else None, calls, interrupted)


def samples_around(
    problem: Problem,
    phi: Tensor,
    centre: Tensor,
    denoiser: Denoiser,
    options: Options,
    progress: Progress = silent,
) -> Samples:
    """x of one image for some of the draws (chain, draw, d) of φ, which lie around `centre` (1, d):
    there the sampler is matched to the moments of one call, if the options say so.
    """
    sampler, spent = options.draw_x(denoiser, problem.process), 0
    if options.trials > 0 and options.samples > 0 and options.calls != 1:
        observation, key = problem.observation, problem.keys[0]
        covariance = observation.covariance(centre, problem.y.dtype)
        shown = observation.show(problem.y, covariance, Streams(options.seed, [(*key, 1)]))
        trials = Streams(options.seed, [(*key, 4, i) for i in range(options.trials)])
        try:
            progress("trial draws", 0, 1)
            sampler, spent = matched(sampler, denoiser, shown, covariance, trials)
        except KeyboardInterrupt:
            return Samples(None, 0, interrupted=True)
    found = draw_samples(problem, phi, denoiser, sampler, options.samples, options.seed, progress)
    return found._replace(calls=found.calls + spent)


def drawn_again(
    posteriors: Sequence[Posterior],
    problem: Problem,
    denoiser: Denoiser,
    options: Options,
    progress: Progress = silent,
) -> list[Posterior]:
    """Posteriors of chains with samples of x drawn again at draws of φ that are far apart, from the
    chains in turn. Where it is interrupted the chains' own samples stay.
    """
    out, stopped = [], any(p.interrupted for p in posteriors)
    for b, p in enumerate(posteriors):
        if stopped or options.samples == 0:
            out.append(replace(p, interrupted=p.interrupted or stopped))
            continue
        which = torch.arange(options.samples)
        chains, draws = p.phi.shape[:2]
        phi = p.phi[which % chains, which * draws // options.samples][None]
        centre = p.phi.mean((0, 1))[None]
        found = samples_around(problem.rows([b]), phi, centre, denoiser, options, progress)
        stopped = found.interrupted
        x = p.samples if stopped else found.x
        out.append(replace(p, samples=x, calls=p.calls + found.calls, interrupted=stopped))
    return out
