"""The tables as a figure: what each method gains over the noisy picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gibbsdiff.evidence.benchmark.methods import ROWS
from gibbsdiff.evidence.benchmark.paper import printed
from gibbsdiff.evidence.benchmark.store import BenchmarkRecord
from gibbsdiff.evidence.benchmark.summary import cells_of, pick, rows_of, sets_of, value
from gibbsdiff.plots.style import BLUE, GREEN, GREY, INK, NORMAL, ORANGE, PURPLE, SKY, SMALL, tidy
from gibbsdiff.plots.style import VERMILION as RED

STYLE: dict[str, tuple[str, str]] = {
    "bm3d": (ORANGE, "s"),
    "bm3d-used": (ORANGE, "v"),
    "dncnn": (GREEN, "D"),
    "nlm": (GREY, "v"),
    "known-noise": (INK, "_"),
    "marginal-first": (SKY, "o"),
    "marginal": (BLUE, "o"),
    "gibbs-sample": (PURPLE, "x"),
    "gibbs-average": (PURPLE, "o"),
    "gibbs-tweedie": (RED, "o"),
}
#: Rows of the paper next to the row of ours that they are to be compared with.
PRINTED = {"bm3d": "bm3d", "dncnn": "dncnn", "sample": "gibbs-sample", "mean": "gibbs-tweedie"}


def chart(records: Sequence[BenchmarkRecord]) -> Figure:
    """PSNR + 20 log₁₀ σ, the gain over y, a panel for each set; hollow signs are the paper's."""
    sets = sets_of(records)
    page = Figure(figsize=(10.5, 0.6 + 3.4 * len(sets)), layout="constrained")
    axes = page.subplots(len(sets), 1, squeeze=False)[:, 0]
    for axis, dataset in zip(axes, sets, strict=True):
        panel(axis, pick(records, set=dataset), dataset)
    handles, labels = axes[0].get_legend_handles_labels()
    page.legend(handles, labels, loc="outside right upper", fontsize=SMALL, frameon=False)
    return page


def panel(axis: Axes, records: Sequence[BenchmarkRecord], dataset: str) -> None:
    """One set: a column for each cell."""
    tidy(axis)
    cells = cells_of(records)
    rows = [row for row in rows_of(records) if row in STYLE]
    for j, row in enumerate(rows):
        colour, marker = STYLE[row]
        x, y, error = [], [], []
        for i, (sigma, phi) in enumerate(cells):
            own = [r["psnr"] for r in pick(records, row=row, sigma=sigma, phi=phi)]
            if own:
                v = value(own)
                x.append(i + 0.7 * ((j + 0.5) / len(rows) - 0.5))
                y.append(v.mean + 20 * math.log10(sigma))
                error.append(v.error if v.n > 1 else 0.0)
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 4}
        axis.errorbar(x, y, error, linestyle="", elinewidth=0.8, label=ROWS[row], **style)
    for name, row in PRINTED.items():
        colour, marker = STYLE[row]
        theirs = [(i, printed("psnr", dataset, *cell, name)) for i, cell in enumerate(cells)]
        points = [
            (i + 0.4, v.mean + 20 * math.log10(cells[i][0])) for i, v in theirs if v is not None
        ]
        if points:
            fill: dict[str, Any] = {} if marker in "x_" else {"markerfacecolor": "none"}
            axis.plot(*zip(*points, strict=True), marker, color=colour, markersize=4,
                      label=f"printed: {name}", **fill)  # fmt: skip
    for i in range(1, len(cells)):
        axis.axvline(i - 0.5, color=GREY, linewidth=0.3)
    axis.set_xticks(range(len(cells)), [f"σ {s:g}\nφ {p:g}" for s, p in cells], fontsize=SMALL)
    axis.set_ylabel("gain over y, dB", fontsize=NORMAL)
    axis.set_title(dataset, fontsize=NORMAL)
