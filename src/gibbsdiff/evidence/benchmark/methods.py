"""Who takes part: from one observation to one or several estimates of x, with what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import bm3d_as_used, bm3d_told, load_dncnn, non_local_means
from gibbsdiff.evidence.baselines.dncnn import DnCNN
from gibbsdiff.inference.denoise import FIRST, denoise
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.starts import regression_start, spread
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.pretrained import find, load_model
from gibbsdiff.streams import Streams


@dataclass(frozen=True)
class Chains:
    """A Gibbs run: how many chains, iterations in all, and how many of them are burn-in.

    `starts`: "marginal" is around the mode that the marginal method finds, over-dispersed;
    "paper" takes σ from a regression on y and φ from the prior.
    """

    chains: int = 2
    iterations: int = 20
    burn_in: int = 5
    starts: str = "marginal"


#: 16 chains of 40 iterations, the last 20 kept.
PAPER = Chains(16, 40, 20, "paper")


@dataclass(frozen=True)
class Options:
    """What methods need to know: files, and how the Gibbs sampler runs.

    `digests` are those of the files here: a worker elsewhere must have the same.
    """

    model: str = "natural"
    dncnn: str | None = None
    gibbs: Chains = field(default_factory=Chains)
    calls: int = 12
    digests: tuple[tuple[str, str], ...] = ()

    def with_digests(self) -> Options:
        """The same, files read once: missing or foreign ones are found before any work."""
        seen = [("model", file_digest(find(self.model)))]
        load_model(self.model)
        if self.dncnn is not None:
            load_dncnn(self.dncnn)
            seen.append(("dncnn", file_digest(self.dncnn)))
        return replace(self, digests=tuple(seen))

    def digest(self, name: str) -> str:
        """The digest of a file."""
        return dict(self.digests).get(name, "")


@dataclass(frozen=True)
class Estimate:
    """x̂ (C, H, W), seconds on the clock and of the processor, and network calls.

    φ is as found: means and standard deviations over the posterior, for blind methods.
    """

    x: Tensor
    seconds: float = 0.0
    processor: float = 0.0
    calls: int = 0
    phi: tuple[float, ...] | None = None
    sd: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Observation:
    """y (1, C, H, W), the noise's true covariance for those who are told, and a seed."""

    y: Tensor
    noise: SpectralCovariance
    seed: int


Group = Callable[[Observation, Options], dict[str, Estimate]]


def noisy(seen: Observation, options: Options) -> dict[str, Estimate]:
    """y itself."""
    return {"noisy": Estimate(seen.y[0])}


def baseline(name: str, seen: Observation, options: Options) -> dict[str, Estimate]:
    """One of the package's baselines, by name."""
    if name == "dncnn":
        method: Any = dncnn(_path(options), options.digest("dncnn"))
    else:
        method = {"bm3d": bm3d_told, "bm3d-used": bm3d_as_used, "nlm": non_local_means}[name]
    calls = 1 if name == "dncnn" else 0
    return {name: _timed(lambda: Estimate(method(seen.y[0], seen.noise), calls=calls))}


def told(seen: Observation, options: Options) -> dict[str, Estimate]:
    """D(y, N) at the true φ: what the weights can do at best."""
    denoiser = network(options.model, options.digest("model"))

    def run() -> Estimate:
        with torch.no_grad():
            return Estimate(denoiser(seen.y, seen.noise).mean[0], calls=1)

    return {"told": _timed(run)}


def marginal(seen: Observation, options: Options, *, both: bool) -> dict[str, Estimate]:
    """E[x | y, φ̂] at the mode of p(φ | y): by its first stage alone, or by both."""
    denoiser = network(options.model, options.digest("model"))

    def run() -> Estimate:
        posterior = denoise(
            seen.y[0],
            model=denoiser,
            method="marginal",
            boundary="periodic",
            second_stage=both,
            calls=options.calls,
            samples=0,
            seed=seen.seed,
        )
        return _estimate(posterior, posterior.mean)

    return {"marginal" if both else "marginal-first": _timed(run)}


def gibbs_rows(seen: Observation, options: Options) -> dict[str, Estimate]:
    """One sample x̂, and E[x | y] by averaging the draws and by Tweedie; one run for all three."""
    found: list[Posterior] = []

    def run() -> Estimate:
        found.append(chains(seen, options))
        return _estimate(found[0], found[0].mean)

    tweedie = _timed(run)
    (posterior,) = found
    assert posterior.samples is not None
    assert posterior.average is not None
    return {
        "gibbs-sample": replace(tweedie, x=posterior.samples[0]),
        "gibbs-average": replace(tweedie, x=posterior.average),
        "gibbs-tweedie": tweedie,
    }


def chains(seen: Observation, options: Options) -> Posterior:
    """The Gibbs sampler as the options say, on periodic power-law noise."""
    how, noise = options.gibbs, PowerLawNoise()
    denoiser: Denoiser = network(options.model, options.digest("model"))
    rng = Streams(seen.seed, [(0, 3, chain) for chain in range(how.chains)])
    start, calls = regression_start(seen.y, noise), 0
    if how.starts == "marginal":
        search = Marginal(seen.y, noise, denoiser, seed=seen.seed)
        mode = search.mode(start, most=FIRST - 1 - len(noise.parameters))
        starts = spread(mode.phi[0], mode.covariance[0], noise, rng)
        denoiser, calls = search.drawing(mode.phi), search.calls
    else:
        starts = noise.draw_prior(rng)
        starts[:, 0] = start[:, 0]
    settings = Settings(
        chains=how.chains,
        iterations=how.iterations,
        burn_in=how.burn_in,
        keep_samples=1,
        stop_when_converged=False,
        seed=seen.seed,
    )
    sampler = partial(few_step, calls=options.calls)
    (posterior,) = gibbs(
        seen.y, noise, denoiser, settings=settings, sampler=sampler, start=starts[None]
    )
    return replace(posterior, calls=posterior.calls + calls)


GROUPS: dict[str, Group] = {
    "noisy": noisy,
    "bm3d": partial(baseline, "bm3d"),
    "bm3d-used": partial(baseline, "bm3d-used"),
    "dncnn": partial(baseline, "dncnn"),
    "nlm": partial(baseline, "nlm"),
    "told": told,
    "marginal-first": partial(marginal, both=False),
    "marginal": partial(marginal, both=True),
    "gibbs": gibbs_rows,
}

#: Rows of the tables, in their order, and what they are called there.
ROWS = {
    "noisy": "noisy",
    "bm3d": "BM3D, told the spectrum",
    "bm3d-used": "BM3D as used, σ estimated",
    "dncnn": "DnCNN, blind",
    "nlm": "non-local means, σ estimated",
    "told": "ours, told the truth",
    "marginal-first": "ours, blind: marginal mean, first stage",
    "marginal": "ours, blind: marginal mean, both stages",
    "gibbs-sample": "ours, blind: one Gibbs sample x̂",
    "gibbs-average": "ours, blind: Gibbs mean, averaged",
    "gibbs-tweedie": "ours, blind: Gibbs mean, Tweedie",
}
ROWS_OF = {
    **{name: (name,) for name in GROUPS},
    "gibbs": ("gibbs-sample", "gibbs-average", "gibbs-tweedie"),
}


def setting(group: str, options: Options) -> dict[str, Any]:
    """What a group's results depend on besides the observation."""
    ours: dict[str, Any] = {"model": options.digest("model")}
    known: dict[str, dict[str, Any]] = {
        "dncnn": {"dncnn": options.digest("dncnn")},
        "told": ours,
        "marginal-first": ours,
        "marginal": {**ours, "calls": options.calls},
        "gibbs": {**ours, "calls": options.calls, **asdict(options.gibbs)},
    }
    return known.get(group, {})


@lru_cache(maxsize=2)
def network(model: str, expected: str) -> SpectralDenoiser:
    """The model, loaded once in every process."""
    _same(find(model), expected)
    return load_model(model)


@lru_cache(maxsize=2)
def dncnn(path: str, expected: str) -> DnCNN:
    """DnCNN, loaded once in every process."""
    _same(Path(path), expected)
    return load_dncnn(path)


def _same(path: Path, expected: str) -> None:
    if expected and file_digest(path) != expected:
        raise InputError(f"{path}: not the same file on every machine of the cluster")


def _path(options: Options) -> str:
    if options.dncnn is None:
        raise InputError("method dncnn: give the file of its weights with --dncnn")
    return options.dncnn


def _estimate(posterior: Posterior, x: Tensor) -> Estimate:
    rows = posterior.rows
    means, sds = tuple(r.mean for r in rows), tuple(r.sd for r in rows)
    return Estimate(x, calls=posterior.calls, phi=means, sd=sds)


def _timed(run: Callable[[], Estimate]) -> Estimate:
    clock, processor = time.perf_counter(), time.process_time()
    estimate = run()
    return replace(
        estimate,
        seconds=time.perf_counter() - clock,
        processor=time.process_time() - processor,
    )
