"""The tables as Markdown and JSON, the paper's printed figures among ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gibbsdiff.evidence.benchmark.methods import ROWS
from gibbsdiff.evidence.benchmark.paper import PAPER_ROWS, QualityMetric, printed
from gibbsdiff.evidence.benchmark.store import BenchmarkRecord
from gibbsdiff.evidence.benchmark.summary import (
    Value,
    accuracy,
    cells_of,
    common,
    losses,
    pick,
    rows_of,
    sets_of,
    summarised,
    value,
)
from gibbsdiff.io.atomic import write_atomically

DIGITS: dict[QualityMetric, tuple[int, int]] = {"psnr": (2, 2), "ssim": (3, 3)}
TITLES: dict[QualityMetric, str] = {"psnr": "PSNR in dB", "ssim": "SSIM"}


def markdown(records: Sequence[BenchmarkRecord], heading: str = "") -> str:
    """All sets: what is worse first, then PSNR, SSIM, what it costs, and how well φ is found."""
    parts = [heading] if heading else []
    for dataset in sets_of(records):
        mine = pick(records, set=dataset)
        worse = losses(records, dataset) or ["nothing, in the rows that are here"]
        parts += [f"## {dataset}", "Worse than others, by our blind mean:\n\n" + _list(worse)]
        parts += [_section(mine, dataset, "")]
        fair = common(mine)
        if fair and len(fair) < len(mine):
            n = len({r["index"] for r in fair})
            parts.append(_section(fair, dataset, f", the {n} images that every row has"))
        parts += [f"### {dataset}: cost of one image", cost_table(mine)]
        if accuracy(mine):
            parts += [f"### {dataset}: σ and φ found blind", accuracy_table(mine)]
    return "\n\n".join(parts) + "\n"


def _section(mine: Sequence[BenchmarkRecord], dataset: str, which: str) -> str:
    both = [(m, quality_table(mine, dataset, m)) for m in DIGITS]
    return "\n\n".join(f"### {dataset}: {TITLES[m]}{which}\n\n{table}" for m, table in both)


def quality_table(records: Sequence[BenchmarkRecord], dataset: str, metric: QualityMetric) -> str:
    """Rows are methods, columns cells; the paper's rows are marked as printed."""
    cells = cells_of(records)
    head = ["", "n", *(f"{sigma:g}, {phi:g}" for sigma, phi in cells)]
    body = []
    for row in rows_of(records):
        own = pick(records, row=row)
        values = [[r[metric] for r in pick(own, sigma=s, phi=p)] for s, p in cells]
        counts = {len(v) for v in values}
        n = "-".join(str(c) for c in sorted({min(counts), max(counts)}))
        body.append([ROWS[row], n, *(_cell(value(v), metric) if v else "" for v in values)])
    for row, name in PAPER_ROWS.items():
        theirs = [printed(metric, dataset, s, p, row) for s, p in cells]
        if any(theirs):
            figures = ("" if v is None else f"{v.mean:g} ± {v.error:g}" for v in theirs)
            body.append([f"*printed in the paper: {name}*", "50", *figures])
    return "Columns are σ, φ.\n\n" + _table(head, body)


def cost_table(records: Sequence[BenchmarkRecord]) -> str:
    """Processor seconds on one thread, and network calls, per image."""
    body = []
    for row in rows_of(records):
        own = pick(records, row=row)
        processor = float(np.mean([r["processor"] for r in own]))
        calls = [r["calls"] for r in own]
        spread = f"{np.mean(calls):.0f}" + (
            "" if min(calls) == max(calls) else f" ({min(calls)} to {max(calls)})"
        )
        body.append([ROWS[row], f"{processor:.2f}", spread])
    return _table(["", "processor seconds", "network calls"], body)


def accuracy_table(records: Sequence[BenchmarkRecord]) -> str:
    """Mean error of posterior means in every cell: σ̂/σ - 1 in per cent, and φ̂ - φ."""
    cells = cells_of(records)
    found = {cell: accuracy(pick(records, sigma=cell[0], phi=cell[1])) for cell in cells}
    rows = [row for row in rows_of(records) if any(row in f for f in found.values())]
    # The three Gibbs rows share their φ.
    rows = [row for row in rows if row not in ("gibbs-sample", "gibbs-average")]
    body = []
    for row in rows:
        of = [f.get(row) for f in found.values()]
        sigma = ("" if f is None else _signed(f["sigma"], 100, 2) for f in of)
        phi = ("" if f is None else _signed(f["phi"], 1, 3) for f in of)
        name = ROWS[row].removeprefix("ours, blind: ").split(",")
        label = name[0].split(" mean")[0] + (f",{name[1]}" if "stage" in name[-1] else "")
        body += [[f"{label}: σ, %", *sigma], [f"{label}: φ", *phi]]
    return _table(["", *(f"{sigma:g}, {phi:g}" for sigma, phi in cells)], body)


def write(records: Sequence[BenchmarkRecord], out: str | Path, heading: str = "") -> list[Path]:
    """OUT/images.md, OUT/images.json and OUT/images.png, each replaced at once."""
    from gibbsdiff.evidence.benchmark.chart import chart
    from gibbsdiff.plots import save

    folder = Path(out)
    files = [folder / f"images{ending}" for ending in (".md", ".json", ".png")]
    write_atomically(files[0], markdown(records, heading))
    write_atomically(files[1], json.dumps(summarised(records), indent=1, ensure_ascii=False) + "\n")
    save(chart(records), files[2])
    return files


def _cell(v: Value, metric: QualityMetric) -> str:
    digits, more = DIGITS[metric]
    error = f" ± {v.error:.{more}f}" if v.n > 1 else ""
    return f"{v.mean:.{digits}f}{error}"


def _signed(v: Value, factor: float, digits: int) -> str:
    error = f" ± {factor * v.error:.{digits}f}" if v.n > 1 else ""
    return f"{factor * v.mean:+.{digits}f}{error}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
