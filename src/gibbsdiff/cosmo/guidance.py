r"""Guided draws of dust, the paper's appendix: DPS and ΠGDM with a network told white noise.

A mixture of known φ is separated by each sampler. For a draw x of p(x | y, φ) the residual y - x
has the CMB's spectrum, and x that of the dust, up to their scatter:

    residual  Σ |ŷ - x̂|² / Σ N      dust  Σ |x̂|² / Σ |x̂_true|²      over the modes of a band

Both are 1 for a draw of the posterior. What an overflow leaves is no map, and is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import DustModel, options_for, patch_problem
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.solvers import Draw, Sampler
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import dps, pigdm
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.inference import pipeline
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.summary import Summary
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams

#: Upper ends of the bands of |k|: 32, 8 and 4 pixels.
EDGES = (1 / 31.9, 1 / 8, 1 / 4)
BANDS = ("≥ 32 px", "8-32 px", "4-8 px", "< 4 px")
#: What is tried for the strength of ΠGDM, and for v in r_t² = v t²/(v + t²) of the modified one.
STRENGTHS = (10.0, 3.0, 1.0, 0.1, 0.01)
VARIANCES = (0.1, 1.0, 10.0, 100.0)
LEAST = 0.004  # where guidance ends with a network that knows all levels down to 0


@dataclass(frozen=True)
class Score:
    """One sampler on one mixture: rms errors in units of the dust's sd, of a draw and of the mean
    of all draws; ratios of power by band; moments of the pixels. `overflow` is the call that was
    given a map with numbers that are none, 0 if there was no such call. Where something is
    optimised, `value` is what was tried, and `best` marks the one that was nearest to the truth.
    """

    name: str
    calls: int
    overflow: int
    error: float = math.nan
    mean_error: float = math.nan
    residual: tuple[float, ...] = ()
    dust: tuple[float, ...] = ()
    skewness: float = math.nan
    kurtosis: float = math.nan
    value: float = math.nan
    best: bool = False


class Found(NamedTuple):
    """A score, and the draws (n, 1, H, W) that it is of; none after an overflow."""

    score: Score
    draws: Tensor | None


def guided_levels(found: DustModel) -> tuple[float, float]:
    """The lowest and the highest level of white noise that the network was trained at."""
    if not found.white:
        raise InputError("guidance needs a network trained under white noise: [noise] family")
    if isinstance(found.denoiser, EpsilonDenoiser):
        return LEAST, found.denoiser.process.highest
    low, high = found.card["config"]["noise"]["level"]
    return float(low), float(high)


class _OverflowError(Exception):
    """A map with numbers that are none."""


class _Counted(Denoiser):
    """D that counts its calls, and goes no further with a map that is no longer one."""

    def __init__(self, inner: Denoiser) -> None:
        self.inner, self.calls = inner, 0

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """As the denoiser whose calls it counts."""
        self.calls += 1
        if not bool(torch.isfinite(z).all()):
            raise _OverflowError
        return self.inner(z, noise)


def measure(
    name: str, sampler: Sampler, denoiser: Denoiser, mixture: Mixture, draws: int, seed: int = 0
) -> Found:
    """Draw dust `draws` times at the true φ, and compare with the truth."""
    assert mixture.truth is not None
    assert mixture.dust is not None
    phi = torch.tensor([mixture.truth] * draws, dtype=torch.float64)
    noise = CMBNoise().covariance(mixture.shape, phi, mixture.y.dtype)
    y, counted = mixture.y.expand(draws, -1, -1, -1), _Counted(denoiser)
    try:
        x = sampler(counted, y, noise, Streams(seed, [(2, i) for i in range(draws)])).x
        if not bool(torch.isfinite(x).all()):
            raise _OverflowError
    except _OverflowError:
        return Found(Score(name, counted.calls, counted.calls), None)
    truth = mixture.dust.double()
    return Found(_score(name, counted.calls, x.double(), y.double(), truth, noise), x)


def _score(
    name: str, calls: int, x: Tensor, y: Tensor, truth: Tensor, noise: SpectralCovariance
) -> Score:
    off = x - truth
    standard = (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True)
    return Score(
        name,
        calls,
        0,
        float(off.square().mean().sqrt()),
        float(off.mean(0).square().mean().sqrt()),
        by_band(power(y - x), noise.power.double()),
        by_band(power(x), power(truth[None])),
        float(standard.pow(3).mean()),
        float(standard.pow(4).mean()) - 3,
    )


def by_band(P: Tensor, expected: Tensor) -> tuple[float, ...]:
    """Σ P / Σ expected over the modes of each band and the rows: (B, 1, H, W//2+1) each."""
    height, half = P.shape[-2:]
    k = half_plane((height, 2 * (half - 1)))
    band = torch.bucketize(k.k, torch.tensor(EDGES, dtype=torch.float64))
    ratios = []
    for j in range(len(BANDS)):
        weight = (k.weight * (band == j)).reshape(height, half)
        ratios.append(float((P * weight).sum() / (expected.expand_as(P) * weight).sum()))
    return tuple(ratios)


@dataclass(frozen=True)
class Guidance:
    """How guidance is run: `steps` calls of D from the highest level that it knows to the lowest;
    `draws` of each sampler, and `tries` for each value when something is optimised.
    """

    steps: int = 100
    draws: int = 4
    tries: int = 1
    seed: int = 0

    def samplers(self, white: DustModel) -> dict[str, Callable[..., Draw]]:
        """DPS, and ΠGDM in its two forms, their strength or v left open."""
        floor, highest = guided_levels(white)
        run: dict[str, Any] = {"steps": self.steps, "highest": highest, "floor": floor}
        run["signal"] = white.signal
        return {
            "dps": partial(dps, **run),
            "pigdm": partial(pigdm, weight="adaptive", variance=1.0, **run),
            "modified": partial(pigdm, **run),
        }


def compare(
    mixture: Mixture,
    ours: Mapping[str, tuple[Sampler, Denoiser]],
    white: DustModel,
    how: Guidance,
    watch: Callable[[int], None] = lambda _: None,
) -> list[Found]:
    """All samplers on one mixture: ours, both methods at their standard strength, ΠGDM with the
    strength and the modified ΠGDM with the v whose draws are nearest to the truth.
    """
    made, D = how.samplers(white), white.denoiser
    done, rows = 0, []

    def one(name: str, sampler: Sampler, denoiser: Denoiser, draws: int) -> Found:
        nonlocal done
        found = measure(name, sampler, denoiser, mixture, draws, how.seed)
        done += 1
        watch(done)
        return found

    for name, (sampler, denoiser) in ours.items():
        rows.append(one(name, sampler, denoiser, how.draws))
    rows.append(one("DPS as published, ζ = 1", made["dps"], D, how.draws))
    rows.append(one("DPS, weight of the score", partial(made["dps"], weight="score"), D, how.draws))
    rows.append(one("ΠGDM as published", made["pigdm"], D, how.draws))
    for form, option, values, words in (
        ("pigdm", "strength", STRENGTHS, "ΠGDM, strength {:g}"),
        ("modified", "variance", VARIANCES, "modified ΠGDM, v = {:g}"),
    ):
        tried = [
            one(words.format(value), partial(made[form], **{option: value}), D, how.tries)
            for value in values
        ]
        best = nearest([found.score for found in tried])
        again = partial(made[form], **{option: values[best]})
        tried[best] = one(words.format(values[best]) + ", the best", again, D, how.draws)
        rows += [
            Found(replace(found.score, value=value, best=i == best), found.draws)
            for i, (found, value) in enumerate(zip(tried, values, strict=True))
        ]
    return rows


def comparisons(ours: int) -> int:
    """How many measurements `compare` makes."""
    return ours + 5 + len(STRENGTHS) + len(VARIANCES)


def nearest(scores: Sequence[Score]) -> int:
    """The score whose draws are nearest to the truth; one that overflowed is no candidate."""
    errors = [math.inf if s.overflow else s.error for s in scores]
    return errors.index(min(errors))


def chains(
    mixture: Mixture,
    found: DustModel,
    sampler: Sampler | None = None,
    *,
    chains: int,
    iterations: int,
    seed: int = 0,
    progress: Progress = silent,
) -> list[Summary]:
    """Gibbs with a sampler of dust inside, or with ours, from the prior: σ, H0 and ω_b, with their
    R-hat. A third of the iterations is burn-in; chains do not end early.
    """
    noise, burn_in = CMBNoise(), iterations // 3
    options = Options(
        "gibbs",
        chains,
        iterations - burn_in,
        1 if sampler is None else None,
        samples=0,
        burn_in=burn_in,
        starts="prior",
        sampler=sampler,
        stop_when_converged=False,
        seed=seed,
    )
    problem = patch_problem(mixture.y[None], found.denoiser, found.signal, noise, found.moments)
    (posterior,) = pipeline.infer(problem, options_for(found, noise, options), progress)
    return posterior.rows


def with_network(sampler: Sampler, white: DustModel) -> Sampler:
    """A guided sampler for a pipeline whose own network knows the CMB: it asks another one."""

    def draw(_: Denoiser, y: Tensor, noise: NoiseCovariance, rng: Streams) -> Draw:
        return sampler(white.denoiser, y, noise, rng)

    return draw


def as_json(rows: Sequence[Found]) -> list[dict[str, Any]]:
    """The scores as plain values; what is none is null."""
    plain = [asdict(found.score) for found in rows]
    return [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        for row in plain
    ]
