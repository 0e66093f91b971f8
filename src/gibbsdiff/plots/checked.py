"""The check of the noise model as a table: power in bands of |k| over what the model says."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from gibbsdiff.inference.model_check import ModelCheck
from gibbsdiff.plots.style import INK, SMALL, VERMILION


def band_table(axis: Axes, check: ModelCheck) -> None:
    """A row for each opponent channel, a column for each band; misfits are coloured, and a dash
    stands where nothing can be told.
    """
    axis.set_axis_off()
    ends = sorted({(f.low or 0.0, f.high or 0.0) for f in check.bands})
    names = list(dict.fromkeys(f.channel for f in check.bands))
    by_place = {(f.channel, (f.low or 0.0, f.high or 0.0)): f for f in check.bands}
    cells = [[by_place.get((name, end)) for end in ends] for name in names]
    # Not `pyplot`'s table: it does not know how much room a constrained page leaves it.
    rows, left = len(names) + 1, 0.18
    width = (1 - left) / max(len(ends), 1)
    style: dict[str, Any] = {"fontsize": SMALL, "va": "center", "transform": axis.transAxes}

    def height(row: int) -> float:
        return 1 - (row + 0.5) / rows

    axis.text(0, height(0), "noise/model at |k|", ha="left", color=INK, **style)
    for j, (low, high) in enumerate(ends):
        at = left + (j + 0.5) * width
        axis.text(at, height(0), f"{low:.2f}-{high:.2f}", ha="center", color=INK, **style)
    for i, (name, row) in enumerate(zip(names, cells, strict=True), 1):
        axis.text(0, height(i), name or "all", ha="left", color=INK, **style)
        for j, f in enumerate(row):
            wrong = f is not None and f in check.misfits
            axis.text(
                left + (j + 0.5) * width,
                height(i),
                "-" if f is None else f"{f.observed:.2f}",
                ha="center",
                color=VERMILION if wrong else INK,
                weight="bold" if wrong else "normal",
                **style,
            )
