"""`gibbsdiff cmb check`: mocks over the whole prior box, each inferred and judged by its truth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import qmc
from torch import Tensor

from gibbsdiff.cosmo.bands import BandSpectra, compare
from gibbsdiff.cosmo.gaussian import gaussian_sd
from gibbsdiff.cosmo.infer import SURE, DustModel, dust_model, infer, options_of
from gibbsdiff.cosmo.mock import Mixture, held_out, mock
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.ranks import rank_fraction
from gibbsdiff.evidence.calibration.store import read, write
from gibbsdiff.evidence.cluster import Mapper, serial
from gibbsdiff.evidence.weights import WeightsName
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Mean, Method, Options, SamplerName, Starts, WarmUp
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams


@dataclass(frozen=True)
class MockRun:
    """How mocks are made and inferred: plain data that every record depends on. The digests are
    those of the file of maps, and of the model and the moment network beside it.
    """

    dust: str
    dust_digest: str
    model: str | None
    model_digest: str
    size: int = 128
    method: Method = "gibbs"
    chains: int = 4
    draws: int = 400
    calls: int | None = None
    chain_calls: int | None = None
    samples: int = 16
    seed: int = 0
    device: str = "cpu"
    burn_in: int | None = None
    preset: str | None = None
    starts: Starts | None = None
    sampler: SamplerName | None = None
    adaptation: WarmUp | None = None
    mean: Mean | None = None
    weights: WeightsName | None = None
    weighted_chains: bool | None = None

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise InputError(f"samples: spectra need at least 2, not {self.samples}")

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on. Not the device: it changes rounding alone."""
        known = {k: v for k, v in asdict(self).items() if k == "model" or v is not None}
        return {"check": "cmb", **{k: v for k, v in known.items() if k != "device"}}

    def options(self, seed: int) -> Options:
        """How a mock is inferred."""
        facts = ("dust", "dust_digest", "model", "model_digest", "size", "seed", "device")
        other = (*facts, "weights")
        chosen = {name: value for name, value in asdict(self).items() if name not in other}
        return options_of(**chosen, seed=seed)


@dataclass(frozen=True)
class MockRecord:
    """One mock. Lists have a value for each of (σ, H0, ω_b).

    Attributes:
        mean, total_sd, u: Mean, sd and rank of the truth by draws with the network's own error,
            eq. (12).
        sd: Of the draws given the network.
        gaussian_sd: What the sd would be if dust were Gaussian, at the same truth.
        rhat, ess: Of chains; None for independent draws.
        ended: Whether the marginal method's search ended.
        mse_mean: MSE of the posterior mean, in dB below the dust's variance.
        mse_known, mse_wiener: The same of D and of the Wiener filter given the true parameters.
        dust, cmb: Spectra of samples.
    """

    mock: int
    source: str
    truth: list[float]
    mean: list[float]
    sd: list[float]
    total_sd: list[float]
    u: list[float]
    gaussian_sd: list[float]
    rhat: list[float] | None
    ess: list[float] | None
    ended: bool
    draws: int
    calls: int
    seconds: float
    mse_mean: float
    mse_known: float
    mse_wiener: float
    dust: BandSpectra
    cmb: BandSpectra

    @property
    def z(self) -> list[float]:
        """(truth - mean)/total sd."""
        return [
            (t - m) / s if s > 0 else math.inf
            for t, m, s in zip(self.truth, self.mean, self.total_sd, strict=True)
        ]

    @property
    def width(self) -> list[float]:
        """The total sd over that of Gaussian dust at the same truth, in the same box."""
        return [s / g for s, g in zip(self.total_sd, self.gaussian_sd, strict=True)]


def truth_of(index: int, noise: CMBNoise, seed: int) -> tuple[float, float, float]:
    """The truth of a mock: a scrambled Halton sequence in the prior box."""
    sequence = qmc.Halton(len(noise.parameters), seed=np.random.default_rng(seed))
    u = torch.from_numpy(sequence.random(index + 1)[-1])
    sigma, h0, omega_b = (noise.low + u * (noise.high - noise.low)).tolist()
    return sigma, h0, omega_b


def mixture_of(run: MockRun, index: int) -> tuple[Mixture, int]:
    """A mock, and the seed of its inference. All maps have their turn before one comes again."""
    maps, names = _maps(run.dust, run.size, run.model)
    order = np.random.default_rng(run.seed).permutation(len(maps))
    which = int(order[index % len(maps)])
    seed = int(Streams(run.seed, [(index,)]).integers(0, 2**31 - 1))
    noise = CMBNoise()
    truth = truth_of(index, noise, run.seed)
    return mock(truth, maps[which], noise, seed, source=names[which]), seed


def examine(run: MockRun, index: int) -> MockRecord:
    """Infer one mock and note what came out: a pure function of plain data."""
    found, noise = _model(run.size, run.model), CMBNoise()
    mixture, seed = mixture_of(run, index)
    listening = SURE if run.weights == "sure" else None
    posterior = infer(
        mixture, found, noise, run.options(seed), device=run.device, listening=listening
    )
    if posterior.interrupted:  # half a posterior would spoil the table
        raise KeyboardInterrupt
    return judge(index, mixture, posterior, found, noise, seed)


def judge(
    index: int,
    mixture: Mixture,
    posterior: Posterior,
    found: DustModel,
    noise: CMBNoise,
    seed: int = 0,
) -> MockRecord:
    """The record of a posterior whose truth is known; the seed is that of `Posterior.widened`."""
    assert mixture.truth is not None
    assert mixture.dust is not None
    assert mixture.cmb is not None
    assert posterior.samples is not None
    truth = torch.tensor(mixture.truth, dtype=torch.float64)
    wide = posterior.widened(seed)
    rows, values = posterior.rows, wide.phi.double().numpy()
    shape, y, x = mixture.shape, mixture.y[None], mixture.dust
    known = noise.covariance(shape, truth[None], y.dtype)
    signal = found.signal
    with torch.no_grad():
        means = [d(y, known).mean[0] for d in (found.denoiser, GaussianDenoiser(signal))]
    chains = posterior.is_chains
    return MockRecord(
        mock=index,
        source=mixture.source,
        truth=truth.tolist(),
        mean=[r.mean for r in wide.rows],
        sd=[r.sd for r in rows],
        total_sd=[r.sd for r in wide.rows],
        u=[rank_fraction(float(t), values[..., i].ravel(), 0.5) for i, t in enumerate(truth)],
        gaussian_sd=gaussian_sd(truth, signal, noise, shape).tolist(),
        rhat=[r.rhat for r in rows] if chains else None,
        ess=[min(r.ess_bulk, r.ess_tail) for r in rows] if chains else None,
        ended=posterior.ended,
        draws=posterior.phi.shape[1],
        calls=posterior.calls,
        seconds=posterior.seconds,
        mse_mean=_decibels(posterior.mean, x),
        mse_known=_decibels(means[0], x),
        mse_wiener=_decibels(means[1], x),
        dust=compare(posterior.samples, x),
        cmb=compare(mixture.y - posterior.samples, mixture.cmb),
    )


def check(
    run: MockRun,
    mocks: int,
    path: Path,
    mapper: Mapper = serial,
    watch: Callable[[int], None] = lambda _: None,
) -> list[MockRecord]:
    """Records 0..mocks-1. Those that the file holds are not made again, and it is replaced after
    every mock; a file of another run is refused and kept.
    """
    lines = read(path, run.identity) if path.exists() else []
    records = {record.mock: record for record in (_record(path, line) for line in lines)}
    wanted = [i for i in range(mocks) if i not in records]
    watch(mocks - len(wanted))
    for record in mapper(partial(examine, run), wanted):
        records[record.mock] = record
        write(path, run.identity, [asdict(records[i]) for i in sorted(records)])
        watch(sum(i < mocks for i in records))
    return [records[i] for i in range(mocks)]


def _record(path: Path, line: dict[str, Any]) -> MockRecord:
    try:
        spectra = {name: BandSpectra(**line[name]) for name in ("dust", "cmb")}
        return MockRecord(**{**line, **spectra})
    except (TypeError, KeyError):
        raise InputError(f"{path}: holds a line that is not a record of a mock") from None


@lru_cache(maxsize=1)
def _model(size: int, model: str | None) -> DustModel:
    return dust_model(size, model)


@lru_cache(maxsize=1)
def _maps(dust: str, size: int, model: str | None) -> tuple[Tensor, list[str]]:
    return held_out(dust, size, _model(size, model).card)


def _decibels(estimate: Tensor, x: Tensor) -> float:
    """MSE in dB below 1, the variance of the training maps."""
    return -10 * math.log10(float((estimate - x).double().square().mean()))
