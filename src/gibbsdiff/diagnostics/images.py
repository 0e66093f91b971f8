r"""Calibration on photographs: crops of test images, the network, and periodic power-law noise.

Unlike a Gaussian signal, photographs are no draws of the network's own prior: what is found here is
the method's fault and the network's together. Every run is judged twice, by the posterior as it is
and with the network's own error added, eq. (12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.benchmark.images import files_for_tests
from gibbsdiff.benchmark.methods import digest, network
from gibbsdiff.blind import FIRST
from gibbsdiff.data.images import PROTOCOL_SIDE, protocol_images
from gibbsdiff.diagnostics.sbc import Configuration, Method, Outcome, Problem, Record
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.gibbs import Gibbs, Settings
from gibbsdiff.initial import regression_start, spread
from gibbsdiff.marginal import Marginal, Mode
from gibbsdiff.model_error import with_model_error
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.base import NoiseModel, Parameter
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.pretrained import find
from gibbsdiff.streams import Streams

PARAMETERS = ("sigma", "phi")
DRAWS, CHAINS = 100, 4  # of the marginal method


class Twice(NoiseModel):
    """Power-law noise whose φ stands twice in a row: judged raw, and with the model's error."""

    def __init__(self, single: PowerLawNoise) -> None:
        self.single = single
        second = [Parameter(f"{p.name} with model error", p.low, p.high) for p in single.parameters]
        super().__init__([*single.parameters, *second])

    def draw_prior(self, rng: Streams, candidates: int = 4096) -> Tensor:
        """(B, 4): σ, φ, σ, φ."""
        return self.single.draw_prior(rng, candidates).repeat(1, 2)

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> NoiseCovariance:
        """That of the first two."""
        return self.single.covariance(shape, phi[:, : len(PARAMETERS)], dtype)

    def statistic(self, noise: Any) -> Any:
        """That of the noise itself."""
        return self.single.statistic(noise)

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """That of the first two."""
        return self.single.log_likelihood(phi[..., : len(PARAMETERS)], statistic)


def photographs(
    data: str,
    size: int = 64,
    sigma: tuple[float, float] = (0.01, 1.0),
    method: Literal["gibbs", "marginal"] = "gibbs",
    stages: int = 2,
    chains: int = 4,
    iterations: int = 60,
    burn_in: int = 30,
    calls: int = 12,
    starts: Literal["marginal", "prior"] = "marginal",
    model: str = "natural",
    model_digest: str = "",
    hold_out_every: int = 0,
    selection: int = 0,
) -> Problem:
    """Random crops of size² from a folder's test images by the paper's protocol, at 256².

    Gibbs: the paper has 4 chains, 60 iterations, 30 of them burn-in. `starts`: around the mode of
    the marginal method, or from the prior. Marginal: one `stages` or two, as `gibbsdiff.denoise`.
    """
    if not 16 <= size <= PROTOCOL_SIDE:
        raise InputError(f"size: {size} pixels; crops have 16 to {PROTOCOL_SIDE}")
    if stages not in (1, 2) or starts not in ("marginal", "prior"):
        raise InputError(f"stages {stages}, starts {starts}: 1 or 2, marginal or prior")
    low, high = sigma
    noise = PowerLawNoise((low, high))
    denoiser = network(model, model_digest)
    signal = partial(crops, data, size, hold_out_every, selection)
    signal(Streams(0, []))  # a folder that is not there is found before any work
    if method == "marginal":
        return Problem(Twice(noise), signal, by_marginal(noise, denoiser, stages, calls))
    if method != "gibbs":
        raise InputError(f"method {method}: gibbs or marginal")
    settings = Settings(chains, iterations, burn_in, stop_when_converged=False)
    return Problem(
        Twice(noise), signal, by_chains(noise, denoiser, settings, calls, starts == "marginal")
    )


@lru_cache(maxsize=2)
def _images(data: str, hold_out_every: int, selection: int) -> Tensor:
    return protocol_images(files_for_tests(data, hold_out_every, selection))


def crops(data: str, size: int, hold_out_every: int, selection: int, rng: Streams) -> Tensor:
    """A crop for each stream: (B, 3, size, size)."""
    images = _images(data, hold_out_every, selection)
    room = PROTOCOL_SIDE - size
    which = rng.integers(0, len(images) - 1).tolist()
    places = zip(rng.integers(0, room).tolist(), rng.integers(0, room).tolist(), strict=True)
    out = [
        images[i, :, top : top + size, left : left + size]
        for i, (top, left) in zip(which, places, strict=True)
    ]
    return torch.stack(out) if out else images[:0, :, :size, :size]


def by_marginal(
    noise: PowerLawNoise, denoiser: SpectralDenoiser, stages: int, calls: int
) -> Method:
    """The marginal method as `gibbsdiff.denoise` runs it, one observation after the other."""

    def method(y: Tensor, rng: Streams) -> Outcome:
        found, fine, most = [], [], 0
        for row, seed in zip(y, rng.integers(0, 2**31 - 1).tolist(), strict=True):
            search = Marginal(row[None], noise, denoiser, seed=seed)
            mode = _mode(search)
            if stages == 2:
                sampler = partial(few_step, calls=calls)
                mode = search.refine(mode, sampler, iterations=5, chains=2, seed=seed)
            both = [
                search.draws(m, DRAWS, seed, points=0, chains=CHAINS)[0]
                for m in (mode, _widened(search, mode))
            ]
            found.append(torch.cat(both, -1))
            fine.append(bool(mode.converged.all()))
            most = max(most, search.calls)
        return Outcome(found, most, fine)

    return method


def by_chains(
    noise: PowerLawNoise,
    denoiser: SpectralDenoiser,
    settings: Settings,
    calls: int,
    from_mode: bool,
) -> Method:
    """Gibbs chains, all observations in one batch; their model error is the marginal method's.

    What eq. (12) adds to a covariance is added to the draws as Gaussian noise.
    """
    sampler = partial(few_step, calls=calls)

    def method(y: Tensor, rng: Streams) -> Outcome:
        search = Marginal(y, noise, denoiser)
        mode = _mode(search)
        start = None
        if from_mode:
            columns = []
            for phi, covariance, key in zip(mode.phi, mode.covariance, rng.keys, strict=True):
                own = Streams(rng.seed, [(*key, 3, chain) for chain in range(settings.chains)])
                columns.append(spread(phi, covariance, noise, own))
            start = torch.stack(columns)
        run = Gibbs(y, noise, denoiser, settings, sampler)
        # Keyed by the run instead of the place in the batch.
        keys = [(*key, 0, chain) for key in rng.keys for chain in range(settings.chains)]
        run.streams = Streams(rng.seed, keys)
        chains = run.begin(start)
        while not run.finished(chains):
            run.step(chains)
        draws = torch.stack([p.phi for p in run.posteriors(chains)])
        added = (_widened(search, mode).covariance - mode.covariance).double()
        values, vectors = torch.linalg.eigh((added + added.mT) / 2)
        factor = vectors * values.clamp(min=0).sqrt().unsqueeze(-2)
        z = rng.fold(4).normal(*draws.shape[1:])
        wide = (draws + torch.einsum("bij,bcdj->bcdi", factor, z)).clamp(noise.low, noise.high)
        spent = chains.calls // len(y) + (search.calls if from_mode else 0)
        return Outcome(torch.cat([draws, wide], -1), spent)

    return method


def _mode(search: Marginal) -> Mode:
    start = regression_start(search.y, search.noise)
    return search.mode(start, most=FIRST - 1 - len(PARAMETERS))


def _widened(search: Marginal, mode: Mode) -> Mode:
    denoiser = search.denoiser
    if isinstance(denoiser, SpectralDenoiser) and denoiser.calibration is not None:
        return with_model_error(search, mode, denoiser.calibration.scatter)
    return mode


def photograph_configuration(
    data: str | Path, seed: int = 0, batch: int = 10, model: str = "natural", **arguments: Any
) -> Configuration:
    """The problem above, by name: the folder, and the model's digest, are part of it."""
    known = {"data": str(data), "model": model, "model_digest": digest(find(model)), **arguments}
    return Configuration("gibbsdiff.diagnostics.images:photographs", known, seed, batch)


def halves(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The records of the raw posterior, and of that with the model's error."""
    d = len(PARAMETERS)
    lists = ("truth", "mean", "sd", "u", "rhat", "ess")
    first, second = (
        [replace(r, **{name: getattr(r, name)[part] for name in lists}) for r in records]
        for part in (slice(0, d), slice(d, 2 * d))
    )
    return first, second
