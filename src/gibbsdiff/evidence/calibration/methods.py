"""The package's own inference as a method to calibrate, and the problem "gaussian"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.composed import composed_ddpm
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.sbc import (
    CalibrationMethod,
    CalibrationProblem,
    Outcome,
    settled,
)
from gibbsdiff.evidence.complete import infer_completely
from gibbsdiff.evidence.weights import WeightsName, random_map, weights_named
from gibbsdiff.inference.fit import check_fit
from gibbsdiff.inference.laplace import Density
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import denoiser_for, with_preset
from gibbsdiff.inference.problem import Method, Options, Problem, SamplerName, Starts, WarmUp
from gibbsdiff.noise import PowerLawNoise, StationaryNoise, WhiteNoise
from gibbsdiff.streams import Key, Streams

DRAWS, CHAINS = 100, 4  # of the marginal method: as many draws as the two together

ProblemOf = Callable[[Tensor, tuple[Key, ...]], Problem]
"""y (B, C, H, W) and a key for each -> what `gibbsdiff.infer` is given."""


def inference_method(
    problem_of: ProblemOf,
    options: Options,
    *,
    longer: int = 1,
    rounds: int = 1,
    paired: bool = False,
) -> CalibrationMethod:
    """`gibbsdiff.infer` with these options, random streams keyed by the runs.

    Chains that have not converged are run once more, from the start, with `longer` times as many
    iterations: weak noise mixes many times more slowly than strong noise. With more `rounds` this
    goes on until all have converged, and every outcome says how many iterations it took. `paired`
    outcomes have every parameter twice, for `PairedParameters`: as drawn, and with the network's
    own error, eq. (12), by `Posterior.widened`.
    """

    def method(y: Tensor, rng: Streams) -> list[Outcome]:
        problem = problem_of(y, rng.fold(0).keys)
        now = replace(options, seed=rng.seed)
        found = infer_completely(problem, now)
        calls, took = [p.calls for p in found], [_length(now)] * len(found)
        for i in range(1, 1 + rounds if longer > 1 else 1):
            slow = [j for j, p in enumerate(found) if p.is_chains and not settled(p.phi)]
            if not slow:
                break
            burn_in = None if now.burn_in is None else longer * now.burn_in
            now = replace(now, draws=longer * now.draws, burn_in=burn_in)
            again = replace(problem.rows(slow), keys=rng.rows(slow).fold(i).keys)
            for j, p in zip(slow, infer_completely(again, now), strict=True):
                found[j], took[j] = p, _length(now)
                calls[j] += p.calls
        if rounds > 1:
            found = [replace(p, how=(*p.how, n)) for p, n in zip(found, took, strict=True)]
        seeds = rng.fold(2).integers(0, 2**31 - 1).tolist()
        return [
            outcome(p, spent, seed if paired else None)
            for p, spent, seed in zip(found, calls, seeds, strict=True)
        ]

    return method


def _length(options: Options) -> str:
    return f"{options.draws + (options.burn_in or 0)} iterations"


def outcome(posterior: Posterior, calls: int, seed: int | None = None) -> Outcome:
    """A posterior as calibration takes it; with a `seed`, every parameter twice: raw, and widened
    by eq. (12).
    """
    p = posterior
    draws = p.phi if seed is None else torch.cat([p.phi, p.widened(seed).phi], -1)
    how = f"{p.method} ({', '.join(p.how)})" if p.how else p.method
    return Outcome(draws, calls, not p.is_chains, p.is_chains or p.ended, how)


def chain_options(
    iterations: int,
    burn_in: int,
    *,
    preset: str | None = None,
    weights: WeightsName = "sure",
    **others: Any,
) -> Options:
    """Gibbs chains of a given length, for evidence: they do not stop when they have converged, and
    no x is kept. What is given, and not None, wins over a preset.
    """
    if not 0 <= burn_in < iterations:
        raise InputError(f"burn-in {burn_in} must be shorter than the run of {iterations}")
    given = {"draws": iterations - burn_in, "burn_in": burn_in, **others}
    fixed: dict[str, Any] = {"method": "gibbs", "samples": 0, "stop_when_converged": False}
    fixed["weights"] = weights_named(weights)
    return Options(**with_preset(preset, given, "sbc") | fixed)


def marginal_options(weights: WeightsName = "sure", **others: Any) -> Options:
    """The marginal method, for evidence: 400 draws of φ, and no x is kept."""
    named = weights_named(weights)
    return Options("marginal", CHAINS, DRAWS, samples=0, weights=named, **others)


def gaussian_denoiser(channels: int) -> GaussianDenoiser:
    """Of the problem "gaussian". One channel has the spectrum of the luminance."""
    spectrum = (NATURAL.amplitude[:channels], NATURAL.slope[:channels])
    return GaussianDenoiser(PowerLawSignal(*spectrum, NATURAL.mean))


def gaussian(
    size: int = 32,
    sigma: tuple[float, float] = (0.1, 1.0),
    method: Method = "gibbs",
    noise: Literal["power-law", "white"] = "power-law",
    channels: int = 1,
    iterations: int = 200,
    burn_in: int = 60,
    longer: int = 6,
    warm_up: int | None = None,
    density: Density = "laplace",
    preset: str | None = None,
    starts: Starts | None = None,
    sampler: SamplerName | None = None,
    adaptation: WarmUp | None = None,
    rounds: int = 1,
    step_by_step: bool = False,
    random_weights: bool = False,
) -> CalibrationProblem:
    """A Gaussian signal with the spectrum of photographs: every conditional is exact, eq. (10), so
    that what calibration finds is the method's own fault. Chains start from draws of the prior,
    with `warm_up` 100 (300 of the paper's `adaptation`); a preset has its own starts and warm-up,
    and D without its error. Draws of x by "ddpm" have the law of its steps, by `composed_ddpm`;
    `step_by_step` takes the steps themselves. `random_weights`: the marginal method's score has
    weights of places by one random map, the same in all runs; coverage must be nominal for any
    weights that are given, eq. (14).
    """
    if size < 8 or channels not in (1, 3):
        raise InputError(f"size {size}, channels {channels}: at least 8, and 1 or 3, are needed")
    low, high = sigma
    model: StationaryNoise
    if noise == "white":
        model = WhiteNoise((low, high))
    elif noise == "power-law":
        model = PowerLawNoise((low, high))
    else:
        raise InputError(f"noise {noise}: power-law or white")
    if random_weights and method == "gibbs":
        raise InputError("random_weights: they are of the marginal method, not of Gibbs chains")
    denoiser = gaussian_denoiser(channels)
    if method == "gibbs":
        # One call is an exact draw of x, and costs next to nothing: few transitions for each.
        parts = {"starts": starts, "sampler": sampler, "adaptation": adaptation}
        given: dict[str, Any] = {"warm_up": warm_up, **parts}
        if preset is None:
            brief = warm_up or (None if adaptation == "paper" else 100)
            given |= {"starts": starts or "prior", "transitions": 2, "warm_up": brief}
            given["calls"] = None if sampler == "ddpm" else 1
        steps = sampler == "ddpm" or (preset is not None and sampler is None)
        if steps and not step_by_step:
            given["sampler"] = composed_ddpm(denoiser)
        options = chain_options(iterations, burn_in, preset=preset, **given)
    elif preset is not None:
        raise InputError(f"preset {preset}: it is of Gibbs chains, not of the {method} method")
    elif method == "marginal":
        options = marginal_options(density=density)
        if random_weights:
            options = replace(options, weights=random_map(size))
    else:
        raise InputError(f"method {method}: gibbs or marginal")
    observation = ObservationModel(model, (size, size))
    shown = denoiser_for(preset, denoiser)

    def problem_of(y: Tensor, keys: tuple[Key, ...]) -> Problem:
        return Problem(y, model, shown, observation, keys=keys)

    check_fit(problem_of(torch.zeros(1, channels, size, size), ()), options)
    return CalibrationProblem(
        model,
        partial(_prior, denoiser, size, channels),
        inference_method(problem_of, options, longer=longer, rounds=rounds),
    )


def _prior(denoiser: GaussianDenoiser, size: int, channels: int, rng: Streams) -> Tensor:
    return denoiser.prior((size, size), rng, channels)
