"""A posterior of one picture, once its noise is found or told: what `blind` chooses from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Sampler, few_step
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal, Mode
from gibbsdiff.inference.model_error import with_model_error
from gibbsdiff.inference.observation import View
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.starts import spread
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.streams import Streams

Method = Literal["auto", "marginal", "gibbs"]


@dataclass(frozen=True)
class Options:
    """How to infer; see `gibbsdiff.denoise`."""

    method: Method = "auto"
    chains: int = 4
    draws: int = 50
    calls: int = 12
    second_stage: bool = True
    samples: int = 1
    seed: int = 0
    progress: bool = False


def by_marginal(marginal: Marginal, mode: Mode, sampler: Sampler, options: Options) -> Posterior:
    """The posterior of one picture from its mode: φ with model error, x by one call, samples."""
    raw = mode.covariance[0].diagonal().sqrt()
    mode = with_model_error(marginal, mode)
    phi = marginal.draws(mode, options.draws, options.seed, points=0, chains=options.chains)[0]
    view, y, noise = marginal.view, marginal.y, marginal.noise
    denoiser = marginal.drawing(mode.phi) if options.samples else marginal.denoiser
    samples, calls = _samples(y, phi, view, denoiser, sampler, options)
    found = bool(mode.converged.all())
    return Posterior(
        noise.names,
        phi,
        y[0],
        mode.seen.mean[0],
        mode.seen.sd[0],
        samples=samples,
        method="marginal, two stages" if options.second_stage else "marginal, first stage",
        calls=marginal.calls + calls,
        raw_sd=tuple(raw.tolist()),
        noise_power=noise.power(view.shape, mode.phi)[0, 0].to(y),
        found=found,
        notes=() if found else ("the search for the mode did not end",),
    )


def told(y: Tensor, phi: Tensor, view: View, denoiser: Denoiser, options: Options) -> Posterior:
    """x | y, φ at one φ (1, d): the mean and its error in one call, and samples."""
    covariance = view.covariance(phi, y.dtype)
    with torch.no_grad():
        shown = view.show(y, covariance, Streams(options.seed, [(0, 1)]))
        mean, error = denoiser(shown, covariance)
        sd = pixel_sd(view, error, shown.shape[1])[0]
    draws = phi.expand(options.chains, options.draws, -1)
    sampler = partial(few_step, calls=options.calls)
    samples, calls = _samples(y, draws, view, denoiser, sampler, options)
    noise = view.noise
    assert isinstance(noise, StationaryNoise)
    return Posterior(
        noise.names,
        draws,
        y[0],
        view.take(mean)[0],
        sd,
        samples=samples,
        method="known noise",
        calls=1 + calls,
        noise_power=noise.power(view.shape, phi)[0, 0].to(y),
    )


def _samples(
    y: Tensor, phi: Tensor, view: View, denoiser: Denoiser, sampler: Sampler, options: Options
) -> tuple[Tensor | None, int]:
    """x | y, φ for some of the draws (chain, draw, d) of φ."""
    if not options.samples:
        return None, 0
    flat = phi.flatten(0, 1)
    kept, calls = [], 0
    for i in range(options.samples):
        rng = Streams(options.seed, [(0, 2, i)])
        covariance = view.covariance(flat[i % len(flat)][None], y.dtype)
        draw = sampler(denoiser, view.show(y, covariance, rng), covariance, rng)
        kept.append(view.take(draw.x)[0])
        calls += int(draw.calls.sum())
    return torch.stack(kept), calls


def by_gibbs(
    marginal: Marginal,
    mode: Mode,
    options: Options,
    sampler: Sampler | None = None,
    around: tuple[Tensor, Tensor] | None = None,
) -> Posterior:
    """Gibbs from over-dispersed starts around the mode, or around another mean (1, d) and
    covariance (1, d, d).
    """
    rng = Streams(options.seed, [(0, 3, c) for c in range(options.chains)])
    mean, covariance = around or (mode.phi, mode.covariance)
    start = spread(mean[0], covariance[0], marginal.noise, rng)
    burn_in = max(2, options.draws // 5)
    settings = Settings(
        chains=options.chains,
        iterations=burn_in + options.draws,
        burn_in=burn_in,
        keep_samples=options.samples,
        seed=options.seed,
    )
    (result,) = gibbs(
        marginal.y,
        marginal.noise,
        marginal.drawing(mode.phi),
        settings=settings,
        sampler=sampler or partial(few_step, calls=options.calls),
        start=start[None],
        view=marginal.view,
        progress=options.progress,
    )
    notes = result.notes
    wide = with_model_error(marginal, mode)
    if wide is not mode:
        added = (wide.covariance - mode.covariance)[0].diagonal().clamp(min=0)
        drawn = result.phi.flatten(0, 1).var(0)
        told = ", ".join(
            f"{name} {sd:.2g}"
            for name, sd in zip(result.names, (drawn + added).sqrt().tolist(), strict=True)
        )
        notes = (*notes, f"sd with the network's own error added, eq. (12): {told}")
    return replace(result, calls=result.calls + marginal.calls, notes=notes)
