r"""The Gibbs sampler of the paper: x | y, φ by a diffusion model, φ | y - x by HMC.

Many images × many chains in one batch. Every draw is keyed by (seed, image, chain, iteration),
so a result depends neither on the batch nor on where a run was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.diffusion.solvers import Draw, Sampler, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of
from gibbsdiff.inference.chains import Chains
from gibbsdiff.inference.fingerprint import callable_digest, fingerprint
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.phi_steps import PhiStep
from gibbsdiff.inference.posterior import Posterior, mean_noise_power
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.summary import converged
from gibbsdiff.mcmc import OURS, Adaptation, run, warm_up
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Key, Streams

FREE = ("iterations", "stop_when_converged", "memory")  # may change when a run goes on
ROW_FLOATS = 150  # what a call holds in memory, in images' worth of numbers per image
STAGE = "Gibbs chains"


@dataclass(frozen=True)
class Settings:
    """How long and how. The paper's own setting is 16 chains, 40 iterations, 20 of them kept.

    `transitions` of HMC in each iteration, after a warm-up of `warm_up` iterations in the first one
    and, if the `adaptation` says so, after the burn-in. `memory` in bytes bounds the batch that the
    denoiser is shown.
    """

    chains: int = 4
    iterations: int = 60
    burn_in: int = 20
    transitions: int = 10
    warm_up: int = 300
    adaptation: Adaptation = OURS
    keep_samples: int = 0
    stop_when_converged: bool = True
    memory: float = 2e9
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < 1 or self.transitions < 1:
            raise InputError("chains and transitions must be at least 1")
        if not 0 <= self.burn_in < self.iterations:
            raise InputError(
                f"burn-in {self.burn_in} must be shorter than the run of {self.iterations}"
            )


class Gibbs:
    """A run that can be stepped, watched, interrupted and continued.

    `keys` name the images' random streams, (i,) by default; chain c of an image has (*key, c).
    """

    def __init__(
        self,
        y: Any,
        noise: NoiseModel,
        denoiser: Denoiser,
        settings: Settings | None = None,
        sampler: Sampler | None = None,
        observation: ObservationModel | None = None,
        phi_step: PhiStep | None = None,
        keys: Sequence[Key] | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.y = as_images(y, "observation")
        self.noise, self.denoiser, self.phi_step = noise, as_denoiser(denoiser), phi_step
        self.sampler: Sampler = sampler or partial(few_step, calls=12)
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.observation = observation or ObservationModel(noise, self.shape)
        chains = self.settings.chains
        self.owner = torch.arange(len(self.y)).repeat_interleave(chains)
        images = [(i,) for i in range(len(self.y))] if keys is None else keys
        rows = [(*key, chain) for key in images for chain in range(chains)]
        self.streams = Streams(self.settings.seed, rows)

    def begin(self, start: Tensor | None = None) -> Chains:
        """φ₀ given, (images, chains, d), or from the prior; x₀ ~ q(x | y, φ₀)."""
        began = time.perf_counter()
        if start is None:
            phi = self.noise.draw_prior(self.streams.fold(0, 2))
        else:
            wanted = (len(self.y), self.settings.chains, len(self.noise.parameters))
            if tuple(start.shape) != wanted:
                raise InputError(f"starts need the shape {wanted}, not {tuple(start.shape)}")
            phi = self.noise.check(start.flatten(0, 1))
        draw = self._draw(phi, 0)
        chains = Chains(phi, draw.x, calls=int(draw.calls.sum()))
        chains.divergences = torch.zeros(len(phi), dtype=torch.int64)
        chains.seconds = time.perf_counter() - began
        return chains

    def step(self, chains: Chains) -> None:
        """One iteration: φ ~ q(φ | y - x), then x ~ q(x | y, φ)."""
        began = time.perf_counter()
        # What is interrupted half-way leaves the chains as they were.
        now = replace(chains, iteration=chains.iteration + 1)
        self._draw_phi(now)
        draw = self._draw(now.phi, now.iteration)
        now.x = draw.x
        now.calls += int(draw.calls.sum())
        if now.iteration > self.settings.burn_in:
            self._note(now, draw)
        now.seconds += time.perf_counter() - began
        chains.__dict__.update(now.__dict__)

    def _draw_phi(self, chains: Chains) -> None:
        """φ ~ p(φ | y - x), by HMC or by the φ-step given."""
        s = self.settings
        rng = self.streams.fold(chains.iteration, 1)
        residual = self.y[self.owner] - chains.x
        statistic = self.observation.statistic(residual, self.owner)
        if self.phi_step is not None:
            chains.phi = self.noise.check(self.phi_step(self.noise, statistic, chains.phi, rng))
            return
        density = self.noise.log_posterior(statistic)
        phi = chains.phi
        # Adapt where the chains start and, beyond the paper, again after the burn-in.
        if chains.tuning is None or (s.adaptation.again and chains.iteration == s.burn_in + 1):
            phi, chains.tuning = warm_up(
                density,
                phi,
                self.noise.low,
                self.noise.high,
                rng,
                iterations=s.warm_up,
                tuning=chains.tuning,
                adaptation=s.adaptation,
            )
        moved, info = run(density, phi, chains.tuning, rng, transitions=s.transitions)
        chains.phi = moved[-1]
        assert chains.divergences is not None
        chains.divergences = chains.divergences + info.diverged.sum(0)

    def posteriors(self, chains: Chains) -> list[Posterior]:
        """What the chains say so far, image by image."""
        if not chains.draws:
            raise InputError("no draws yet: the chains are still in their burn-in")
        assert chains.sum_x is not None
        assert chains.sum_x2 is not None
        assert chains.sum_mean is not None
        assert chains.divergences is not None
        n = chains.count
        average = chains.sum_x / n
        variance = (chains.sum_x2 - n * average**2).clamp(min=0) / max(n - 1, 1)
        phi = self._draws(chains)
        images = len(self.y)
        divergences = chains.divergences.reshape(images, -1).sum(1)
        kept = torch.stack(chains.samples, 1) if chains.samples else None
        return [
            Posterior(
                self.noise.names,
                phi[i],
                self.y[i],
                (chains.sum_mean[i] / n).to(self.y),
                variance[i].sqrt().to(self.y) if n > 1 else None,
                average=average[i].to(self.y),
                samples=None if kept is None else kept[i].to(self.y),
                noise_power=mean_noise_power(self.observation, phi[i], self.y.dtype),
                box=torch.stack([self.noise.low, self.noise.high]),
                method="gibbs",
                calls=chains.calls // images,
                seconds=chains.seconds / images,
                divergences=int(divergences[i]),
            )
            for i in range(images)
        ]

    def finished(self, chains: Chains) -> bool:
        """Whether the limit is reached, or every image has converged."""
        s = self.settings
        if chains.iteration >= s.iterations:
            return True
        if not s.stop_when_converged or len(chains.draws) < 10 or chains.iteration % 5:
            return False
        return all(converged(phi) for phi in self._draws(chains))

    def name(self) -> str:
        """The fingerprint of this run: all that its draws depend on, but for how long it runs."""
        settings = {k: v for k, v in asdict(self.settings).items() if k not in FREE}
        parts = {
            "denoiser": self.denoiser.digest(),
            "noise": self.noise.digest(),
            "sampler": callable_digest(self.sampler),
            "φ-step": callable_digest(self.phi_step),
            "observation model": self.observation.digest(),
            "settings": digest_of(settings),
        }
        return fingerprint(self.y, parts)

    def _draws(self, chains: Chains) -> Tensor:
        """(images, chain, draw, d)."""
        draws = torch.stack(chains.draws, 1)
        return draws.reshape(len(self.y), self.settings.chains, *draws.shape[1:])

    def _draw(self, phi: Tensor, iteration: int) -> Draw:
        """x | y, φ for all rows, as many at a time as fit into the memory."""
        rng = self.streams.fold(iteration, 0)
        row = 4 * ROW_FLOATS * self.y[0].numel()
        parts = []
        for rows in _chunks(len(phi), max(1, int(self.settings.memory // row))):
            covariance = self.observation.covariance(phi[rows], self.y.dtype, self.owner[rows])
            stream = rng.rows(rows)
            shown = self.observation.show(self.y[self.owner[rows]], covariance, stream)
            x, mean, calls = self.sampler(self.denoiser, shown, covariance, stream)
            parts.append((self.observation.take(x), self.observation.take(mean), calls))
        return Draw(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _note(self, chains: Chains, draw: Draw) -> None:
        """Add the draws of this iteration to the moments, and keep what is asked for."""
        s = self.settings
        x = draw.x.double().unflatten(0, (len(self.y), s.chains))
        mean = draw.mean.double().unflatten(0, (len(self.y), s.chains)).sum(1)
        sums = (x.sum(1), x.square().sum(1), mean)
        if chains.sum_x is None:
            chains.sum_x, chains.sum_x2, chains.sum_mean = sums
        else:
            assert chains.sum_x2 is not None
            assert chains.sum_mean is not None
            chains.sum_x = chains.sum_x + sums[0]
            chains.sum_x2 = chains.sum_x2 + sums[1]
            chains.sum_mean = chains.sum_mean + sums[2]
        chains.count += s.chains
        chains.draws = [*chains.draws, chains.phi]
        if len(chains.samples) < s.keep_samples:
            # From the chains in turn: successive draws of one chain are alike.
            chains.samples = [*chains.samples, x[:, len(chains.samples) % s.chains]]


def gibbs(
    y: Any,
    noise: NoiseModel,
    denoiser: Denoiser,
    *,
    settings: Settings | None = None,
    sampler: Sampler | None = None,
    start: Tensor | None = None,
    observation: ObservationModel | None = None,
    phi_step: PhiStep | None = None,
    keys: Sequence[Key] | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress = silent,
) -> list[Posterior]:
    """p(x, φ | y) by Gibbs diffusion, one Posterior per image of y (B, C, H, W).

    Stops at the limit of iterations, or once R-hat and ESS are good. Ctrl-C after the burn-in
    returns what is there, marked as interrupted. With a `checkpoint` file the chains are written
    there every minute and when it stops, and go on from there if it exists.
    """
    work = Gibbs(y, noise, denoiser, settings, sampler, observation, phi_step, keys)
    file = None if checkpoint is None else Path(checkpoint)
    name = "" if file is None else work.name()
    chains, interrupted, total = None, False, work.settings.iterations
    written = time.monotonic()
    try:
        progress(STAGE, 0, total)
        chains = (
            Chains.load(file, name) if file is not None and file.exists() else work.begin(start)
        )
        while not work.finished(chains):
            progress(STAGE, chains.iteration, total)
            work.step(chains)
            if file is not None and time.monotonic() - written > 60:
                chains.save(file, name)
                written = time.monotonic()
        progress(STAGE, total, total)
    except KeyboardInterrupt:
        interrupted = True
        if chains is None or not chains.draws:
            raise
    finally:
        if file is not None and chains is not None:
            chains.save(file, name)
    return [replace(p, interrupted=interrupted) for p in work.posteriors(chains)]


def _chunks(total: int, size: int) -> Iterator[Tensor]:
    for first in range(0, total, size):
        yield torch.arange(first, min(first + size, total))
