"""Images of the posterior at given φ: the mean with its map, and draws of x."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.inference.problem import Problem
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.streams import Streams

STAGE = "drawing pictures"


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
