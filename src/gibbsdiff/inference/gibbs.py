r"""The Gibbs sampler of the paper: x | y, φ by a diffusion model, φ | y - x by HMC.

Many images × many chains in one batch. Every draw is keyed by (seed, image, chain, iteration),
so a result depends neither on the batch nor on where a run was interrupted.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Draw, Sampler, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.inference.chains import Chains
from gibbsdiff.inference.observation import View
from gibbsdiff.inference.posterior import Posterior, converged, worst_rhat
from gibbsdiff.mcmc import run, warm_up
from gibbsdiff.noise.base import NoiseModel, StationaryNoise
from gibbsdiff.streams import Streams

FREE = ("iterations", "stop_when_converged", "memory")  # may change when a run goes on
ROW_FLOATS = 150  # what a call holds in memory, in images' worth of numbers per image


@dataclass(frozen=True)
class Settings:
    """How long and how. The paper's own setting is 16 chains, 40 iterations, 20 of them kept."""

    chains: int = 4
    iterations: int = 60
    burn_in: int = 20
    thin: int = 1
    transitions: int = 10
    warm_up: int = 300
    keep_samples: int = 0
    stop_when_converged: bool = True
    memory: float = 2e9
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < 1 or self.thin < 1 or self.transitions < 1:
            raise InputError("chains, thin and transitions must be at least 1")
        if not 0 <= self.burn_in < self.iterations:
            raise InputError(
                f"burn-in {self.burn_in} must be shorter than the run of {self.iterations}"
            )


class Gibbs:
    """A run that can be stepped, watched, interrupted and continued."""

    def __init__(
        self,
        y: Any,
        noise: NoiseModel,
        denoiser: Denoiser,
        settings: Settings | None = None,
        sampler: Sampler | None = None,
        view: View | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.y = as_images(y, "observation")
        self.noise, self.denoiser = noise, denoiser
        self.sampler: Sampler = sampler or partial(few_step, calls=12)
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.view = view or View(noise, self.shape)
        chains = self.settings.chains
        self.owner = torch.arange(len(self.y)).repeat_interleave(chains)
        keys = [(image, chain) for image in range(len(self.y)) for chain in range(chains)]
        self.streams = Streams(self.settings.seed, keys)

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
        s = self.settings
        chains.iteration += 1
        rng = self.streams.fold(chains.iteration, 1)
        residual = self.y[self.owner] - chains.x
        density = self.noise.log_posterior(self.view.statistic(residual, self.owner))
        phi = chains.phi
        # Adapt where the chains start, and again once they are where they belong.
        if chains.tuning is None or chains.iteration == s.burn_in + 1:
            phi, chains.tuning = warm_up(
                density,
                phi,
                self.noise.low,
                self.noise.high,
                rng,
                iterations=s.warm_up,
                tuning=chains.tuning,
            )
        moved, info = run(density, phi, chains.tuning, rng, transitions=s.transitions)
        chains.phi = moved[-1]
        draw = self._draw(chains.phi, chains.iteration)
        chains.x = draw.x
        chains.calls += int(draw.calls.sum())
        assert chains.divergences is not None
        chains.divergences += info.diverged.sum(0)
        if chains.iteration > s.burn_in:
            self._note(chains, draw)
        chains.seconds += time.perf_counter() - began

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
                variance[i].sqrt().to(self.y),
                average[i].to(self.y),
                None if kept is None else kept[i].to(self.y),
                method="gibbs",
                calls=chains.calls // images,
                seconds=chains.seconds / images,
                divergences=int(divergences[i]),
                noise_power=self._noise_power(phi[i]),
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

    def rhat(self, chains: Chains) -> float:
        """The worst R-hat so far, over images and parameters."""
        if len(chains.draws) < 4 or self.settings.chains < 2:
            return float("nan")
        return max(worst_rhat(phi) for phi in self._draws(chains))

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
            covariance = self.view.covariance(phi[rows], self.y.dtype)
            stream = rng.rows(rows)
            shown = self.view.show(self.y[self.owner[rows]], covariance, stream)
            x, mean, calls = self.sampler(self.denoiser, shown, covariance, stream)
            parts.append((self.view.take(x), self.view.take(mean), calls))
        return Draw(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _noise_power(self, phi: Tensor) -> Tensor | None:
        """The mean of N_φ over some draws (chain, draw, d)."""
        if not isinstance(self.noise, StationaryNoise):
            return None
        flat = phi.flatten(0, 1)
        picked = flat[:: max(1, len(flat) // 32)]
        return self.noise.power(self.shape, picked).mean((0, 1)).to(self.y)

    def name(self) -> str:
        """A fingerprint of picture, noise and settings, but for how long to run."""
        settings = {k: v for k, v in asdict(self.settings).items() if k not in FREE}
        told = f"{self.noise} {self.noise.low.tolist()} {self.noise.high.tolist()} {settings}"
        return hashlib.sha256(self.y.numpy().tobytes() + told.encode()).hexdigest()

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
        if (chains.iteration - s.burn_in) % s.thin == 0:
            chains.draws.append(chains.phi)
        if len(chains.samples) < s.keep_samples:
            # Chains in turn: neighbours in time are alike, chains are not.
            chains.samples.append(x[:, len(chains.samples) % s.chains])


def gibbs(
    y: Any,
    noise: NoiseModel,
    denoiser: Denoiser,
    *,
    settings: Settings | None = None,
    sampler: Sampler | None = None,
    start: Tensor | None = None,
    view: View | None = None,
    checkpoint: str | Path | None = None,
    progress: bool = False,
) -> list[Posterior]:
    """p(x, φ | y) by Gibbs diffusion, one Posterior per image of y (B, C, H, W).

    Stops at the limit of iterations, or once R-hat and ESS are good. Ctrl-C after the
    burn-in returns what is there. With a `checkpoint` file the chains are written there every
    minute and when it stops, and go on from there if it exists.
    """
    sampler_run = Gibbs(y, noise, denoiser, settings, sampler, view)
    file = Path(checkpoint) if checkpoint is not None else None
    columns = (
        TextColumn("gibbs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("R-hat {task.fields[rhat]}"),
    )
    with Progress(*columns, disable=not progress) as bar:
        task = bar.add_task("", total=sampler_run.settings.iterations, rhat="…")
        if file is not None and file.exists():
            chains = Chains.load(file, sampler_run.name())
        else:
            chains = sampler_run.begin(start)
        written = time.monotonic()
        try:
            while not sampler_run.finished(chains):
                sampler_run.step(chains)
                rhat = sampler_run.rhat(chains) if progress else float("nan")
                bar.update(task, completed=chains.iteration, rhat=f"{rhat:.3f}")
                if file is not None and time.monotonic() - written > 60:
                    chains.save(file, sampler_run.name())
                    written = time.monotonic()
        except KeyboardInterrupt:
            if not chains.draws:
                raise
        if file is not None:
            chains.save(file, sampler_run.name())
    return sampler_run.posteriors(chains)


def _chunks(total: int, size: int) -> Iterator[Tensor]:
    for first in range(0, total, size):
        yield torch.arange(first, min(first + size, total))
