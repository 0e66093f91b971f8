r"""Simulation-based calibration of any noise model, signal and method.

Each run draws φ ~ p(φ), x ~ p(x) and y = x + ε, lets the method infer φ from y, and notes the rank
of the true φ among thinned draws. A run is keyed by (seed, run), a configuration is plain data, and
`block` is a pure function of the two: it can be mapped over processes or a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.ranks import rank_fraction, thinned
from gibbsdiff.evidence.calibration.store import read, write
from gibbsdiff.inference.posterior import RHAT, Summary, summarise
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Streams

PHI, SIGNAL, NOISE, METHOD, TIES = range(5)  # what the streams of a run are for
FEWEST = 50  # effective draws below which a rank is too coarse to be called converged


class Outcome(NamedTuple):
    """Draws of φ (chain, draw, d) for every observation, or all of them as (B, chain, draw, d);
    network calls of each, or of all alike; and which the method itself calls converged.
    """

    draws: Tensor | Sequence[Tensor]
    calls: int | Sequence[int] = 0
    converged: Sequence[bool] | None = None


Method = Callable[[Tensor, Streams], Outcome | Tensor]


@dataclass(frozen=True)
class Problem:
    """What is calibrated: y = x + ε with ε from `noise`, its prior box included; x from `signal`,
    one image (C, H, W) for every stream; `method` takes y (B, C, H, W) and a stream for each.
    """

    noise: NoiseModel
    signal: Callable[[Streams], Tensor]
    method: Method


@dataclass(frozen=True)
class Configuration:
    """A problem by name: `problem` is "module:function", `arguments` its keyword arguments, plain
    JSON values. Runs are worked on `batch` at a time; ranks are among at most `ranks` draws.
    """

    problem: str
    arguments: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    batch: int = 1
    ranks: int = 99

    def __post_init__(self) -> None:
        if self.seed < 0 or self.batch < 1 or self.ranks < 1:
            raise InputError("seed must not be negative; batch and ranks are at least 1")

    def build(self) -> Problem:
        """The problem itself."""
        module, _, name = self.problem.partition(":")
        try:
            make = getattr(import_module(module), name)
        except (ImportError, AttributeError, ValueError):
            raise InputError(f"problem {self.problem}: no such function") from None
        return make(**self.arguments)


@dataclass(frozen=True)
class Record:
    """One run. Lists have a value per parameter; `u` is the rank as a fraction, see `ranks`."""

    run: int
    truth: list[float]
    mean: list[float]
    sd: list[float]
    u: list[float]
    kept: int
    rhat: list[float]
    ess: list[float]
    calls: int
    converged: bool

    @property
    def z(self) -> list[float]:
        """(truth - mean)/sd; infinite where all draws are equal."""
        both = zip(self.truth, self.mean, self.sd, strict=True)
        return [(t - m) / s if s > 0 else float("inf") for t, m, s in both]


def simulate(problem: Problem, seed: int, runs: Sequence[int], ranks: int = 99) -> list[Record]:
    """The records of these runs, worked on together."""
    rng = Streams(seed, [(run,) for run in runs])
    phi = problem.noise.draw_prior(rng.fold(PHI))
    x = problem.signal(rng.fold(SIGNAL))
    shape, channels = (x.shape[-2], x.shape[-1]), x.shape[1]
    y = x + problem.noise.draw(shape, phi, rng.fold(NOISE), channels).to(x)
    outcome = problem.method(y, rng.fold(METHOD))
    if isinstance(outcome, Tensor):
        outcome = Outcome(outcome)
    if len(outcome.draws) != len(y) or any(c.shape[2:] != phi.shape[1:] for c in outcome.draws):
        shapes = [tuple(c.shape) for c in outcome.draws]
        raise InputError(
            f"the method must give draws ({len(y)}, chain, draw, {phi.shape[1]}), not {shapes}"
        )
    fine = [True] * len(y) if outcome.converged is None else outcome.converged
    spent = outcome.calls
    calls = [spent] * len(y) if isinstance(spent, int) else spent
    ties = rng.fold(TIES).uniform(phi.shape[1])
    return [
        _record(run, phi[i], outcome.draws[i], ties[i], ranks, calls[i], fine[i])
        for i, run in enumerate(runs)
    ]


def settled(draws: Tensor) -> bool:
    """R-hat ≤ 1.05 and at least 50 effective draws, for every parameter of (chain, draw, d)."""
    return _settled(summarise(draws, [""] * draws.shape[-1]), len(draws))


def _settled(rows: Sequence[Summary], chains: int) -> bool:
    """NaN, from chains that never moved, fails; one chain has no R-hat."""
    return all((chains == 1 or r.rhat <= RHAT) and r.ess_bulk >= FEWEST for r in rows)


def _record(
    run: int, truth: Tensor, draws: Tensor, ties: Tensor, ranks: int, calls: int, fine: bool
) -> Record:
    rows = summarise(draws, [""] * len(truth))
    # Chains that never moved have no ESS: one draw is all that they are worth.
    slowest = min(r.ess_bulk if r.ess_bulk >= 1 else 1.0 for r in rows)
    kept = min(ranks, int(slowest), draws[..., 0].numel())
    values = draws.double().numpy()
    u = [
        rank_fraction(float(t), thinned(values[..., i], kept), float(tie))
        for i, (t, tie) in enumerate(zip(truth, ties, strict=True))
    ]
    return Record(
        run,
        truth.tolist(),
        [r.mean for r in rows],
        [r.sd for r in rows],
        u,
        kept,
        [r.rhat for r in rows],
        [r.ess_bulk for r in rows],
        calls,
        fine and _settled(rows, len(draws)),
    )


def one(configuration: Configuration, run: int) -> Record:
    """One run by itself: equal to the same run of a configuration with batch 1."""
    return simulate(configuration.build(), configuration.seed, [run], configuration.ranks)[0]


def block(configuration: Configuration, index: int) -> list[Record]:
    """Runs index·batch to (index + 1)·batch - 1, always the whole batch.

    Rounding in a batch depends on its size, and HMC makes much of a rounding error: whole batches
    give the same records whoever asks, in whatever order.
    """
    first = index * configuration.batch
    runs = range(first, first + configuration.batch)
    return simulate(configuration.build(), configuration.seed, runs, configuration.ranks)


Mapper = Callable[[Callable[[int], list[Record]], Iterable[int]], Iterable[list[Record]]]


def calibrate(
    configuration: Configuration,
    runs: int,
    path: str | Path | None = None,
    *,
    mapper: Mapper = map,
    watch: Callable[[int], None] | None = None,
) -> list[Record]:
    """Records 0..runs-1, in order.

    With a `path`, those that the file holds are not computed again, and it is replaced after every
    batch; a file of another configuration is refused and kept. `mapper` is `map`, or anything that
    applies a picklable function to numbers and gives its results in any order, as a pool does.
    `watch` is told how many runs there are so far.
    """
    if runs < 1:
        raise InputError(f"runs: at least 1 is needed, not {runs}")
    found: dict[int, Record] = {}
    if path is not None and Path(path).exists():
        found = _found(path, configuration)
    blocks = -(-runs // configuration.batch)
    wanted = [b for b in range(blocks) if b * configuration.batch not in found]
    for records in _watched(mapper(partial(block, configuration), wanted), found, runs, watch):
        found.update({record.run: record for record in records})
        if path is not None:
            write(path, asdict(configuration), [asdict(found[run]) for run in sorted(found)])
    return [found[run] for run in range(runs)]


def _found(path: str | Path, configuration: Configuration) -> dict[int, Record]:
    """What a file holds, by run."""
    records = {}
    for number, line in enumerate(read(path, asdict(configuration)), 2):
        try:
            record = Record(**line)
            wellformed = len(record.z) == len([float(u) for u in record.u]) > 0
        except (TypeError, ValueError):
            wellformed = False
        if not wellformed:
            raise InputError(f"{path}: line {number} is not a record of a run")
        records[record.run] = record
    return records


def _watched(
    results: Iterable[list[Record]],
    found: dict[int, Record],
    runs: int,
    watch: Callable[[int], None] | None,
) -> Iterable[list[Record]]:
    for records in results:
        yield records
        if watch is not None:
            watch(sum(run < runs for run in found))
