"""The marginal method's second stage: moments of x | y, φ from draws instead of one call."""

from __future__ import annotations

from dataclasses import replace

import torch

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.score import sum_by_owner
from gibbsdiff.inference.search import Mode
from gibbsdiff.noise.stationary import Statistic
from gibbsdiff.streams import Streams

STAGE = "searching for the noise by draws of x"


@torch.no_grad()
def refine(
    marginal: Marginal,
    mode: Mode,
    denoiser: Denoiser,
    sampler: Sampler,
    *,
    iterations: int = 5,
    chains: int = 2,
    seed: int = 0,
    progress: Progress = silent,
) -> Mode:
    """The mode with E[P | y, φ] from draws of x in place of the one-call moments.

    u ← u + H⁻¹ ḡ/i, with ḡ the score of the mean power of y - x over the chains and H the
    information at the mode: Robbins-Monro, so the noise of single draws averages out. What bias
    is left is that of the sampler.
    """
    m, observation = marginal, marginal.observation
    H = torch.linalg.inv(mode.inverse / m.width[:, None] / m.width)
    u = (mode.phi - m.noise.low) / m.width
    rows, owner = m.rows(len(u))
    rows, owner = rows.repeat_interleave(chains), owner.repeat_interleave(chains)
    rng = Streams(seed, [(*key, chain) for key in m.keys for chain in range(chains)])
    calls = 0
    for i in range(1, iterations + 1):
        progress(STAGE, i - 1, iterations)
        covariance = observation.covariance(m.phi(u)[owner], m.y.dtype, rows)
        stream = rng.fold(i)
        shown = observation.show(m.y[rows], covariance, stream)
        draw = sampler(denoiser, shown, covariance, stream)
        calls += int(sum_by_owner(draw.calls, owner, len(u)).max())
        spectrum = covariance.spectrum()
        N = None if spectrum is None else observation.take_power(spectrum)
        drawn = observation.statistic(m.y[rows] - observation.take(draw.x), rows, N=N)
        share = torch.ones_like(drawn.P) if drawn.share is None else drawn.share
        mean = Statistic(drawn.k, drawn.P / chains, drawn.channels, share / chains)
        g = m.gradient(m.phi(u), owner, mean)
        u = (u + torch.linalg.solve(H, g) / i).clamp(0, 1)
    progress(STAGE, iterations, iterations)
    last = m.score(u).at
    calls += mode.calls + m.cost
    return replace(mode, phi=m.phi(u), at=last, calls=calls, called=None)
