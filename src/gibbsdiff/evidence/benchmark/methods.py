"""Who takes part: from one observation to one or several estimates of x, with what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import (
    bm3d_as_used,
    bm3d_with_spectrum,
    load_dncnn,
    non_local_means,
)
from gibbsdiff.evidence.baselines.dncnn import DnCNN
from gibbsdiff.evidence.benchmark.chains import ChainLength
from gibbsdiff.evidence.complete import infer_completely
from gibbsdiff.evidence.weights import WeightsName, weights_named
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import MODEL, denoiser_for, with_preset
from gibbsdiff.inference.problem import Mean, Options
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.pretrained import find, load_for_pictures


@dataclass(frozen=True)
class Setup:
    """What methods need to know: files, how the Gibbs sampler runs, and where networks do.

    `weights` of places in the score of φ: where the network is "sure", or "none". `digests` are
    those of the files here: a worker elsewhere must have the same.
    """

    model: str = MODEL
    dncnn: str | None = None
    gibbs: ChainLength = field(default_factory=ChainLength)
    calls: int = 12
    device: str = "cpu"
    weights: WeightsName = "sure"
    digests: tuple[tuple[str, str], ...] = ()

    def with_digests(self) -> Setup:
        """The same, files read once: missing or foreign ones are found before any work. Chains with
        a model that has no error model start from the prior.
        """
        seen = [("model", file_digest(find(self.model)))]
        able, gibbs = network(self.model, seen[0][1], self.device).error_model, self.gibbs
        if not able and gibbs.starts == "marginal":
            gibbs = replace(gibbs, starts="prior")
        if self.dncnn is not None:
            load_dncnn(self.dncnn)
            seen.append(("dncnn", file_digest(self.dncnn)))
        return replace(self, gibbs=gibbs, digests=tuple(seen))

    def digest(self, name: str) -> str:
        """The digest of a file."""
        return dict(self.digests).get(name, "")


@dataclass(frozen=True)
class Attempt:
    """x̂ (C, H, W), seconds on the clock and of the processor, and network calls.

    Blind methods also have φ as found: means over the posterior, standard deviations given the
    network, and those with the network's own error, eq. (12).
    """

    x: Tensor
    seconds: float = 0.0
    processor: float = 0.0
    calls: int = 0
    phi: tuple[float, ...] | None = None
    sd: tuple[float, ...] | None = None
    total_sd: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Observation:
    """y (1, C, H, W), the noise's true covariance and parameters (σ, φ) for methods that are not
    blind, and a seed.
    """

    y: Tensor
    noise: SpectralCovariance
    phi: tuple[float, float]
    seed: int


Group = Callable[[Observation, Setup], dict[str, Attempt]]
BASELINES = {"bm3d": bm3d_with_spectrum, "bm3d-used": bm3d_as_used, "nlm": non_local_means}


def noisy(seen: Observation, setup: Setup) -> dict[str, Attempt]:
    """y itself."""
    return {"noisy": Attempt(seen.y[0])}


def baseline(name: str, seen: Observation, setup: Setup) -> dict[str, Attempt]:
    """One of the package's baselines, by name."""
    if name == "dncnn":
        method: Any = dncnn(_path(setup), setup.digest("dncnn"), setup.device)
    else:
        method = BASELINES[name]
    calls = 1 if name == "dncnn" else 0
    return {name: _timed(lambda: Attempt(method(seen.y[0], seen.noise), calls=calls))}


def known_noise(seen: Observation, setup: Setup) -> dict[str, Attempt]:
    """D(y, N) at the true φ: what the weights can do at best."""
    known = dict(zip(PowerLawNoise().names, seen.phi, strict=True))

    def run() -> Attempt:
        found = inferred(seen, setup, Options(samples=0, seed=seen.seed), known)
        return Attempt(found.mean, calls=found.calls)

    return {"known-noise": _timed(run)}


def marginal(seen: Observation, setup: Setup, *, both: bool) -> dict[str, Attempt]:
    """E[x | y, φ̂] at the mode of p(φ | y): by its first stage alone, or by both."""
    options = Options("marginal", calls=setup.calls, second_stage=both, samples=0, seed=seen.seed)
    name = "marginal" if both else "marginal-first"
    return {name: _timed(lambda: _attempt(inferred(seen, setup, options)))}


def gibbs_rows(seen: Observation, setup: Setup) -> dict[str, Attempt]:
    """One sample x̂, and E[x | y] by averaging the draws and by Tweedie; one run for all three."""
    found: list[Posterior] = []

    def run() -> Attempt:
        found.append(chains(seen, setup, mean="tweedie"))
        return _attempt(found[0])

    tweedie = _timed(run)
    (posterior,) = found
    assert posterior.samples is not None
    assert posterior.average is not None
    return {
        "gibbs-sample": replace(tweedie, x=posterior.samples[0]),
        "gibbs-average": replace(tweedie, x=posterior.average),
        "gibbs-tweedie": tweedie,
    }


def chains(seen: Observation, setup: Setup, mean: Mean | None = None) -> Posterior:
    """The Gibbs sampler of the length that the set-up says, by its preset if it has one."""
    how = setup.gibbs
    given = {
        "chains": how.chains,
        "draws": how.iterations - how.burn_in,
        "calls": setup.calls if how.few_step else None,
        "burn_in": how.burn_in,
        "starts": how.starts,
        "sampler": how.sampler,
        "adaptation": how.adaptation,
        "mean": mean or how.mean,
        "weighted_chains": how.weighted_chains,
        "stop_when_converged": False,
        "seed": seen.seed,
    }
    return inferred(seen, setup, Options(**with_preset(how.preset, given)))


def inferred(
    seen: Observation, setup: Setup, options: Options, known: dict[str, float] | None = None
) -> Posterior:
    """The posterior as `gibbsdiff.denoise` finds it, on periodic power-law noise."""
    denoiser = network(setup.model, setup.digest("model"), setup.device)
    denoiser = denoiser_for(options.preset, denoiser)
    options = replace(options, weights=weights_named(setup.weights))
    problem, _ = picture_problem(seen.y[0], PowerLawNoise(), known or {}, denoiser, "periodic")
    (posterior,) = infer_completely(problem, options)
    return posterior


GROUPS: dict[str, Group] = {
    "noisy": noisy,
    "bm3d": partial(baseline, "bm3d"),
    "bm3d-used": partial(baseline, "bm3d-used"),
    "dncnn": partial(baseline, "dncnn"),
    "nlm": partial(baseline, "nlm"),
    "known-noise": known_noise,
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
    "known-noise": "ours, told the truth",
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


def setting(group: str, setup: Setup) -> dict[str, Any]:
    """What a group's results depend on besides the observation."""
    ours: dict[str, Any] = {"model": setup.digest("model")}
    known_parts = asdict(replace(setup.gibbs, mean=None))  # all rows are made, whichever is shown
    chains = {k: v for k, v in known_parts.items() if v is not None and v is not False}
    if setup.gibbs.few_step:
        chains["calls"] = setup.calls
    blind = ours | {"weights": setup.weights}
    known: dict[str, dict[str, Any]] = {
        "dncnn": {"dncnn": setup.digest("dncnn")},
        "known-noise": ours,
        "marginal-first": blind,
        "marginal": {**blind, "calls": setup.calls},
        "gibbs": {**(blind if setup.gibbs.preset is None else ours), **chains},
    }
    return known.get(group, {})


@lru_cache(maxsize=2)
def network(model: str, expected: str, device: str = "cpu") -> Denoiser:
    """The model, loaded once in every process; it computes on the device."""
    _same(find(model), expected)
    return on_device(load_for_pictures(model), device)


@lru_cache(maxsize=2)
def dncnn(path: str, expected: str, device: str = "cpu") -> DnCNN:
    """DnCNN, loaded once in every process; it computes on the device."""
    _same(Path(path), expected)
    return load_dncnn(path).to(device)


def _same(path: Path, expected: str) -> None:
    if expected and file_digest(path) != expected:
        raise InputError(f"{path}: not the same file on every machine of the cluster")


def _path(setup: Setup) -> str:
    if setup.dncnn is None:
        raise InputError("method dncnn: give the file of its weights with --dncnn")
    return setup.dncnn


def _attempt(posterior: Posterior) -> Attempt:
    rows = posterior.rows
    return Attempt(
        posterior.mean,
        calls=posterior.calls,
        phi=tuple(r.mean for r in rows),
        sd=tuple(r.sd for r in rows),
        total_sd=tuple(r.total_sd for r in rows),
    )


def _timed(run: Callable[[], Attempt]) -> Attempt:
    clock, processor = time.perf_counter(), time.process_time()
    attempt = run()
    return replace(
        attempt,
        seconds=time.perf_counter() - clock,
        processor=time.process_time() - processor,
    )
