"""Methods that calibration can be asked about, and problems that it knows by name."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal

from torch import Tensor

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.diffusion.solvers import Sampler, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.sbc import Configuration, Method, Outcome, Problem, settled
from gibbsdiff.inference.gibbs import Gibbs, Settings
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.noise import PowerLawNoise, StationaryNoise, WhiteNoise
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Streams


def by_gibbs(
    noise: NoiseModel,
    denoiser: Denoiser,
    settings: Settings | None = None,
    sampler: Sampler | None = None,
    longer: int = 1,
) -> Method:
    """Gibbs chains from draws of the prior, all observations in one batch.

    Those that have not converged are run once more, from new draws of the prior, with `longer`
    times as many iterations: weak noise mixes many times more slowly than strong noise.
    """
    first = settings or Settings()
    second = replace(first, iterations=longer * first.iterations, burn_in=longer * first.burn_in)

    def method(y: Tensor, rng: Streams) -> Outcome:
        draws, spent = _gibbs(y, noise, denoiser, first, sampler, rng.fold(0))
        calls = [spent] * len(y)
        slow = [i for i, chains in enumerate(draws) if not settled(chains)]
        if slow and longer > 1:
            # Runs now have different numbers of draws: the others are kept as they are.
            again, more = _gibbs(y[slow], noise, denoiser, second, sampler, rng.rows(slow).fold(1))
            for i, chains in zip(slow, again, strict=True):
                draws[i] = chains
                calls[i] += more
        return Outcome(draws, calls)

    return method


def _gibbs(
    y: Tensor,
    noise: NoiseModel,
    denoiser: Denoiser,
    settings: Settings,
    sampler: Sampler | None,
    rng: Streams,
) -> tuple[list[Tensor], int]:
    run = Gibbs(y, noise, denoiser, settings, sampler)
    # Keyed by the run instead of the place in the batch.
    keys = [(*key, chain) for key in rng.keys for chain in range(settings.chains)]
    run.streams = Streams(rng.seed, keys)
    chains = run.begin()
    while not run.finished(chains):
        run.step(chains)
    return [p.phi for p in run.posteriors(chains)], chains.calls // len(y)


def by_marginal(
    noise: StationaryNoise, denoiser: Denoiser, draws: int = 400, chains: int = 4
) -> Method:
    """Independent draws by the marginal method, one observation after the other."""

    def method(y: Tensor, rng: Streams) -> Outcome:
        found, fine, calls = [], [], []
        seeds = rng.integers(0, 2**62)
        for row, seed in zip(y, seeds.tolist(), strict=True):
            marginal = Marginal(row[None], noise, denoiser)
            mode = marginal.mode()
            found.append(marginal.draws(mode, draws // chains, seed, chains=chains)[0])
            fine.append(bool(mode.converged.all()))
            calls.append(marginal.calls)
        return Outcome(found, calls, fine)

    return method


def gaussian(
    size: int = 32,
    sigma: tuple[float, float] = (0.1, 1.0),
    method: Literal["gibbs", "marginal"] = "gibbs",
    noise: Literal["power-law", "white"] = "power-law",
    channels: int = 1,
    iterations: int = 200,
    burn_in: int = 60,
    longer: int = 6,
    warm_up: int = 100,
) -> Problem:
    """A Gaussian signal with the spectrum of photographs: every conditional is exact, eq. (10).

    What calibration finds here is the method's own fault.
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
    # One channel has the spectrum of the luminance.
    spectrum = (NATURAL.amplitude[:channels], NATURAL.slope[:channels])
    denoiser = GaussianDenoiser(PowerLawSignal(*spectrum, NATURAL.mean))
    signal = partial(_prior, denoiser, size, channels)
    if method == "gibbs":
        settings = Settings(
            chains=4,
            iterations=iterations,
            burn_in=burn_in,
            transitions=2,
            warm_up=warm_up,
            stop_when_converged=False,
        )
        one_call = partial(few_step, calls=1)
        return Problem(model, signal, by_gibbs(model, denoiser, settings, one_call, longer))
    if method != "marginal":
        raise InputError(f"method {method}: gibbs or marginal")
    return Problem(model, signal, by_marginal(model, denoiser))


def _prior(denoiser: GaussianDenoiser, size: int, channels: int, rng: Streams) -> Tensor:
    return denoiser.prior((size, size), rng, channels)


def gaussian_configuration(seed: int = 0, batch: int = 50, **arguments: object) -> Configuration:
    """The problem above, by name."""
    return Configuration(
        "gibbsdiff.evidence.calibration.methods:gaussian", dict(arguments), seed, batch
    )
