"""Noise that is known: nothing is left to infer but x."""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.drawing import best_mean, draw_samples, image_at
from gibbsdiff.inference.posterior import Posterior, mean_noise_power
from gibbsdiff.inference.problem import IDLE, Options, Problem
from gibbsdiff.inference.progress import Progress


def with_known_noise(problem: Problem, options: Options, progress: Progress) -> list[Posterior]:
    """x | y, φ at one φ: the mean and its error in one call, and samples."""
    assert problem.known is not None
    if isinstance(options.weights, Tensor):
        raise InputError("weights: the noise is known, and nothing is left to infer but x")
    if idle := options.given(IDLE):
        raise InputError(f"{idle[0]}: the noise is known, and nothing is left to infer but x")
    phi = problem.known.expand(options.chains, options.draws, -1)
    posteriors = []
    for b in range(len(problem.y)):
        one = problem.rows([b])
        progress("denoising with the given noise", 0, 1)
        mean, sd = image_at(one, problem.known, options.seed)
        if options.best:
            mean = best_mean(one, problem.known, options.seed)
        sampler = options.draw_x(problem.denoiser, problem.process)
        samples = draw_samples(
            one, phi, problem.denoiser, sampler, options.samples, options.seed, progress
        )
        note = "no uncertainty map: the denoiser says nothing of the error in a pixel"
        posteriors.append(
            Posterior(
                problem.noise.names,
                phi,
                problem.y[b],
                mean,
                sd,
                samples=samples.x,
                noise_power=mean_noise_power(problem.observation, phi, problem.y.dtype),
                box=torch.stack([problem.noise.low, problem.noise.high]),
                method="known noise",
                calls=1 + 8 * options.best + samples.calls,
                interrupted=samples.interrupted,
                notes=() if sd is not None else (note,),
            )
        )
        if samples.interrupted:
            break
    return posteriors
