"""From records to figures: means, standard errors, and where we lose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gibbsdiff.evidence.benchmark.methods import ROWS
from gibbsdiff.evidence.benchmark.paper import PAPER_ROWS, PRINTED, QualityMetric, SigmaPhi, printed
from gibbsdiff.evidence.benchmark.store import BenchmarkRecord

METRICS: tuple[QualityMetric, ...] = ("psnr", "ssim")
BLIND = ("gibbs-tweedie", "marginal", "marginal-first")  # the first of these is our blind mean
PARAMETERS = ("sigma", "phi")


@dataclass(frozen=True)
class Value:
    """A mean over n images and its standard error."""

    mean: float
    error: float
    n: int


def value(numbers: Iterable[float]) -> Value:
    """Mean and standard error; the error of a single number is not known."""
    x = np.array(list(numbers), dtype=float)
    error = float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("nan")
    return Value(float(x.mean()), error, len(x))


def sets_of(records: Sequence[BenchmarkRecord]) -> list[str]:
    """Names of the sets, in order of appearance."""
    return list(dict.fromkeys(r["set"] for r in records))


def cells_of(records: Sequence[BenchmarkRecord]) -> list[SigmaPhi]:
    """The (σ, φ) that occur, sorted."""
    return sorted({(r["sigma"], r["phi"]) for r in records})


def rows_of(records: Sequence[BenchmarkRecord]) -> list[str]:
    """The rows that occur, in the order of the tables."""
    there = {r["row"] for r in records}
    return [row for row in ROWS if row in there]


def pick(records: Sequence[BenchmarkRecord], **wanted: Any) -> list[BenchmarkRecord]:
    """The records with these values."""
    return [r for r in records if all(r[key] == v for key, v in wanted.items())]


def common(records: Sequence[BenchmarkRecord]) -> list[BenchmarkRecord]:
    """Only those images of a set that every row has in every cell: a fair comparison."""
    kept = []
    for dataset in sets_of(records):
        mine = pick(records, set=dataset)
        seen: dict[tuple[Any, ...], set[int]] = {}
        for r in mine:
            seen.setdefault((r["row"], r["sigma"], r["phi"]), set()).add(r["index"])
        whole = len(rows_of(mine)) * len(cells_of(mine)) == len(seen)
        shared = set.intersection(*seen.values()) if whole else set()
        kept += [r for r in mine if r["index"] in shared]
    return kept


def paired(
    records: Sequence[BenchmarkRecord], first: str, second: str, metric: QualityMetric
) -> Value | None:
    """first - second on the images that both have, in one cell of one set."""
    a, b = ({r["index"]: r[metric] for r in records if r["row"] == row} for row in (first, second))
    both = sorted(set(a) & set(b))
    return value(a[i] - b[i] for i in both) if both else None


def blind_row(records: Sequence[BenchmarkRecord]) -> str | None:
    """The row of our blind mean: Gibbs by Tweedie if there, else the marginal method's."""
    there = {r["row"] for r in records}
    return next((row for row in BLIND if row in there), None)


def accuracy(records: Sequence[BenchmarkRecord]) -> dict[str, dict[str, Value]]:
    """For blind rows: σ̂/σ - 1 and φ̂ - φ, by row and parameter."""
    out: dict[str, dict[str, Value]] = {}
    for row in rows_of(records):
        found = [r for r in pick(records, row=row) if r.get("found")]
        if found:
            out[row] = {
                "sigma": value(r["found"][0] / r["sigma"] - 1 for r in found),
                "phi": value(r["found"][1] - r["phi"] for r in found),
            }
    return out


def losses(records: Sequence[BenchmarkRecord], dataset: str) -> list[str]:
    """What is worse than others, and than the paper: a line each, in PSNR."""
    mine = pick(records, set=dataset)
    lines = []
    for cell in cells_of(mine):
        here = pick(mine, sigma=cell[0], phi=cell[1])
        ours = blind_row(here)
        if ours is None:
            continue
        where = f"σ = {cell[0]:g}, φ = {cell[1]:g}"
        for other in ("bm3d", "dncnn"):
            gap = paired(here, ours, other, "psnr")
            if gap is not None and gap.mean < 0:
                error = f" ± {gap.error:.2f}" if gap.n > 1 else ""
                lines.append(
                    f"{where}: {-gap.mean:.2f}{error} dB below {ROWS[other]} ({gap.n} images)"
                )
        theirs = printed("psnr", dataset, *cell, "mean")
        own = value(r["psnr"] for r in here if r["row"] == ours)
        if theirs is not None and own.mean < theirs.mean:
            lines.append(
                f"{where}: {theirs.mean - own.mean:.1f} dB below the paper's printed "
                f"{PAPER_ROWS['mean']} (other images: {own.n} of ours, 50 of theirs)"
            )
    return lines


def summarised(records: Sequence[BenchmarkRecord]) -> dict[str, Any]:
    """Everything in the tables as plain data."""
    out: dict[str, Any] = {}
    for dataset in sets_of(records):
        mine = pick(records, set=dataset)
        cells = []
        for sigma, phi in cells_of(mine):
            here = pick(mine, sigma=sigma, phi=phi)
            found = accuracy(here)
            rows: dict[str, Any] = {}
            for row in rows_of(here):
                own = pick(here, row=row)
                rows[row] = {
                    **{m: _plain(value(r[m] for r in own)) for m in METRICS},
                    "processor_seconds": float(np.mean([r["processor"] for r in own])),
                    "seconds": float(np.mean([r["seconds"] for r in own])),
                    "calls": float(np.mean([r["calls"] for r in own])),
                    **{f"bias_{p}": _plain(v) for p, v in found.get(row, {}).items()},
                }
            theirs = {
                m: {
                    row: list(v)
                    for row, v in PRINTED[m].get(dataset, {}).get((sigma, phi), {}).items()
                }
                for m in METRICS
            }
            cells.append({"sigma": sigma, "phi": phi, "rows": rows, "printed_in_the_paper": theirs})
        out[dataset] = {"cells": cells, "losses": losses(records, dataset)}
    return out


def _plain(v: Value) -> dict[str, float | int | None]:
    error = v.error if np.isfinite(v.error) else None
    return {"mean": v.mean, "standard_error": error, "n": v.n}
