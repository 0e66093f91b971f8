r"""Simulation-based calibration of any noise model, signal and method.

Each run draws φ ~ p(φ), x ~ p(x) and y = x + ε, lets the method infer φ from y, and notes the rank
of the true φ among draws of the posterior. A run is keyed by (seed, run), a configuration is plain
data, and `block` is a pure function of the two: it can be mapped over processes or a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from gibbsdiff import registry
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.ranks import rank_fraction, thinned
from gibbsdiff.evidence.calibration.store import read, write
from gibbsdiff.inference.summary import RHAT, Summary, summarise
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Streams

PROBLEMS = "gibbsdiff.problems"  # the group of entry points that names of problems come from
PHI, SIGNAL, NOISE, METHOD, TIES = range(5)  # what the streams of a run are for
FEWEST = 50  # effective draws below which a rank is too coarse for chains to count as converged


class Outcome(NamedTuple):
    """What a method says of one observation.

    Attributes:
        draws: φ, (chain, draw, d).
        calls: Of the denoiser.
        independent: Whether draws are independent ones, which have neither R-hat nor ESS.
        settled: Whether the method reports success: False, say, for a search that did not end.
            Chains are also judged by R-hat and ESS.
        how: The method in its own words.
    """

    draws: Tensor
    calls: int = 0
    independent: bool = False
    settled: bool = True
    how: str = ""


CalibrationMethod = Callable[[Tensor, Streams], Sequence[Outcome] | Tensor]
"""y (B, C, H, W) and a stream for each -> an outcome for each, or draws (B, chain, draw, d) of
chains.
"""


@dataclass(frozen=True)
class CalibrationProblem:
    """What is calibrated: y = x + ε with ε from `noise`, its prior box included; x from `signal`,
    one image (C, H, W) for every stream; φ found by `method`.
    """

    noise: NoiseModel
    signal: Callable[[Streams], Tensor]
    method: CalibrationMethod


@dataclass(frozen=True)
class CalibrationRun:
    """A problem and how it is run.

    Attributes:
        problem: A name registered in the group "gibbsdiff.problems", or in Python any function that
            returns a `CalibrationProblem`.
        arguments: Its keyword arguments, plain JSON values.
        seed: The same seed gives the same result.
        batch: Runs that are worked on together.
        ranks: The most draws that a truth is ranked among.
    """

    problem: str | Callable[..., CalibrationProblem]
    arguments: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: int = 1
    ranks: int = 99

    def __post_init__(self) -> None:
        if self.seed < 0 or self.batch < 1 or self.ranks < 1:
            raise InputError("seed must not be negative; batch and ranks are at least 1")

    def build(self) -> CalibrationProblem:
        """The problem itself."""
        make = self.problem
        if isinstance(make, str):
            make = registry.find(PROBLEMS, make)
        built: CalibrationProblem = make(**self.arguments)
        return built

    @property
    def identity(self) -> dict[str, Any]:
        """What results depend on, as plain data for their file. The device is left out: it changes
        rounding alone.
        """
        known = {name: value for name, value in self.arguments.items() if name != "device"}
        return {
            "problem": self._name(),
            "arguments": known,
            "seed": self.seed,
            "batch": self.batch,
            "ranks": self.ranks,
        }

    def _name(self) -> str:
        if isinstance(self.problem, str):
            return self.problem
        name = getattr(self.problem, "__name__", "")
        if not name.isidentifier():
            raise InputError("problem: results in a file need a function with a name")
        return name


@dataclass(frozen=True)
class RankRecord:
    """One run. Lists have a value per parameter; `u` is the rank as a fraction, see `ranks`, among
    `kept` draws. `rhat` and `ess` are None for independent draws.
    """

    run: int
    truth: list[float]
    mean: list[float]
    sd: list[float]
    u: list[float]
    kept: int
    rhat: list[float] | None
    ess: list[float] | None
    calls: int
    settled: bool
    how: str = ""

    @property
    def z(self) -> list[float]:
        """(truth - mean)/sd; infinite where all draws are equal."""
        both = zip(self.truth, self.mean, self.sd, strict=True)
        return [(t - m) / s if s > 0 else float("inf") for t, m, s in both]


def simulate(
    problem: CalibrationProblem, seed: int, runs: Sequence[int], ranks: int = 99
) -> list[RankRecord]:
    """The records of these runs, worked on together."""
    rng = Streams(seed, [(run,) for run in runs])
    phi, y = observations(problem, seed, runs)
    found = problem.method(y, rng.fold(METHOD))
    outcomes = [Outcome(draws) for draws in found] if isinstance(found, Tensor) else list(found)
    shapes = [tuple(o.draws.shape) for o in outcomes]
    if len(shapes) != len(y) or any(len(s) != 3 or s[2:] != phi.shape[1:] for s in shapes):
        raise InputError(
            f"the method must give draws ({len(y)}, chain, draw, {phi.shape[1]}), not {shapes}"
        )
    ties = rng.fold(TIES).uniform(phi.shape[1])
    return [_record(run, phi[i], outcomes[i], ties[i], ranks) for i, run in enumerate(runs)]


def observations(
    problem: CalibrationProblem, seed: int, runs: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """φ (B, d) and y (B, C, H, W) of these runs: the same for every method."""
    rng = Streams(seed, [(run,) for run in runs])
    phi = problem.noise.draw_prior(rng.fold(PHI))
    x = problem.signal(rng.fold(SIGNAL))
    shape, channels = (x.shape[-2], x.shape[-1]), x.shape[1]
    return phi, x + problem.noise.draw(shape, phi, rng.fold(NOISE), channels).to(x)


def settled(draws: Tensor) -> bool:
    """Of chains: R-hat ≤ 1.05 and at least 50 effective draws, for every parameter of
    (chain, draw, d).
    """
    return _settled(summarise(draws, [""] * draws.shape[-1]), len(draws))


def _settled(rows: Sequence[Summary], chains: int) -> bool:
    """NaN, from chains that never moved, fails; one chain has no R-hat."""
    return all((chains == 1 or r.rhat <= RHAT) and r.ess_bulk >= FEWEST for r in rows)


def _record(run: int, truth: Tensor, found: Outcome, ties: Tensor, ranks: int) -> RankRecord:
    draws, chains = found.draws, not found.independent
    rows = summarise(draws, [""] * len(truth), chains=chains)
    kept = min(ranks, draws[..., 0].numel())
    if chains:
        # Chains that never moved have no ESS: one draw is all that they are worth.
        kept = min(kept, int(min(r.ess_bulk if r.ess_bulk >= 1 else 1.0 for r in rows)))
    values = draws.double().numpy()
    u = [
        rank_fraction(float(t), thinned(values[..., i], kept), float(tie))
        for i, (t, tie) in enumerate(zip(truth, ties, strict=True))
    ]
    return RankRecord(
        run,
        truth.tolist(),
        [r.mean for r in rows],
        [r.sd for r in rows],
        u,
        kept,
        [r.rhat for r in rows] if chains else None,
        [r.ess_bulk for r in rows] if chains else None,
        found.calls,
        found.settled and (found.independent or _settled(rows, len(draws))),
        found.how,
    )


def one(configuration: CalibrationRun, run: int) -> RankRecord:
    """One run by itself: equal to the same run of a configuration with batch 1."""
    return simulate(configuration.build(), configuration.seed, [run], configuration.ranks)[0]


def block(configuration: CalibrationRun, index: int) -> list[RankRecord]:
    """Runs index·batch to (index + 1)·batch - 1, always the whole batch.

    Rounding in a batch depends on its size, and HMC amplifies rounding errors: whole batches
    give the same records whoever asks, in whatever order.
    """
    first = index * configuration.batch
    runs = range(first, first + configuration.batch)
    return simulate(configuration.build(), configuration.seed, runs, configuration.ranks)


BlockMapper = Callable[
    [Callable[[int], list[RankRecord]], Iterable[int]], Iterable[list[RankRecord]]
]


def calibrate(
    configuration: CalibrationRun,
    runs: int,
    path: str | Path | None = None,
    *,
    mapper: BlockMapper = map,
    watch: Callable[[int], None] | None = None,
) -> list[RankRecord]:
    """Records 0..runs-1, in order.

    With a `path`, those that the file holds are not computed again, and it is replaced after every
    batch; a file of another configuration is refused and kept. `mapper` is `map`, or anything that
    applies a picklable function to numbers and gives its results in any order, as a pool does.
    `watch` is called with the number of runs so far.
    """
    if runs < 1:
        raise InputError(f"runs: at least 1 is needed, not {runs}")
    found: dict[int, RankRecord] = {}
    identity = {} if path is None else configuration.identity
    if path is not None and Path(path).exists():
        found = _found(path, identity)
    blocks = -(-runs // configuration.batch)
    wanted = [b for b in range(blocks) if b * configuration.batch not in found]
    for records in mapper(partial(block, configuration), wanted):
        found.update({record.run: record for record in records})
        if path is not None:
            write(path, identity, [asdict(found[run]) for run in sorted(found)])
        if watch is not None:
            watch(sum(run < runs for run in found))
    return [found[run] for run in range(runs)]


def _found(path: str | Path, identity: dict[str, Any]) -> dict[int, RankRecord]:
    """What a file holds, by run."""
    lines = enumerate(read(path, identity), 2)
    return {record.run: record for record in (as_record(path, n, line) for n, line in lines)}


def as_record(path: str | Path, number: int, line: dict[str, Any]) -> RankRecord:
    """A line of a file as a record."""
    try:
        record = RankRecord(**line)
        wellformed = len(record.z) == len([float(u) for u in record.u]) > 0
    except (TypeError, ValueError):
        wellformed = False
    if not wellformed:
        raise InputError(f"{path}: line {number} is not a record of a run")
    return record
