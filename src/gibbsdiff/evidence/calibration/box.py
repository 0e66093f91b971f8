"""Runs of a calibration over the prior box: convergence as the paper shows it, and bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gibbsdiff.evidence.calibration.sbc import RankRecord
from gibbsdiff.plots.style import NORMAL, SMALL, label, tidy

RELATIVE = ("sigma",)  # parameters whose error is a fraction of the truth


def box_figure(records: Sequence[RankRecord], names: Sequence[str], title: str = "") -> Figure:
    """The error of each parameter, at the truth of the first parameter and of this one (of the
    second, for the first); for chains, R-hat and effective draws before it.
    """
    chains = all(r.rhat is not None for r in records)
    columns = 3 if chains else 1
    page = Figure(figsize=(10.5 if chains else 4.6, 0.6 + 2.9 * len(names)), layout="constrained")
    axes = page.subplots(len(names), columns, squeeze=False)
    truth = np.array([r.truth for r in records])
    for i, name in enumerate(names):
        other = max(i, 1)
        plane, shown = truth[:, [0, other]], (names[0], names[other])
        if chains:
            rhat = np.array([r.rhat for r in records])[:, i]
            ess = np.array([r.ess for r in records])[:, i]
            _scatter(axes[i, 0], plane, rhat, shown, f"R-hat of {label(name)}", (1.0, 1.2))
            _scatter(axes[i, 1], plane, ess, shown, f"effective draws of {label(name)}", None)
        error = errors(records, i, name)
        most = float(np.quantile(np.abs(error), 0.95)) or 1.0
        relative = " / truth" if name in RELATIVE else ""
        words = f"(mean - truth){relative}, {label(name)}"
        _scatter(axes[i, -1], plane, error, shown, words, (-most, most), "RdBu_r")
    if title:
        page.suptitle(title, fontsize=NORMAL)
    return page


def errors(records: Sequence[RankRecord], parameter: int, name: str) -> np.ndarray:
    """Posterior mean less truth, as a fraction of the truth for an amplitude."""
    truth = np.array([r.truth[parameter] for r in records])
    mean = np.array([r.mean[parameter] for r in records])
    return (mean - truth) / truth if name in RELATIVE else mean - truth


def bias_lines(records: Sequence[RankRecord], names: Sequence[str]) -> list[str]:
    """Mean error with its standard error, the median, and the middle 90 %: a line each."""
    lines = []
    for i, name in enumerate(names):
        error = errors(records, i, name)
        unit, factor = ("%", 100.0) if name in RELATIVE else ("", 1.0)
        digits = 2 if unit else 4
        low, middle, high = factor * np.quantile(error, [0.05, 0.5, 0.95])
        se = factor * error.std(ddof=1) / np.sqrt(len(error))
        lines.append(
            f"bias of {name}: {factor * error.mean():+.{digits}f} ± {se:.{digits}f}{unit}, median "
            f"{middle:+.{digits}f}{unit}, "
            f"90 % of runs {low:+.{digits}f} to {high:+.{digits}f}{unit}"
        )
    return lines


def _scatter(
    axis: Axes,
    truth: np.ndarray,
    values: np.ndarray,
    names: Sequence[str],
    title: str,
    limits: tuple[float, float] | None,
    colours: str = "viridis",
) -> None:
    tidy(axis)
    low, high = limits or (0.0, float(np.nanmax(values)) if np.isfinite(values).any() else 1.0)
    drawn = axis.scatter(
        truth[:, 0], truth[:, 1], c=values, s=9, cmap=colours, vmin=low, vmax=high, linewidths=0
    )
    figure = axis.get_figure()
    assert figure is not None
    bar = figure.colorbar(drawn, ax=axis, extend="both" if colours == "RdBu_r" else "max")
    bar.ax.tick_params(labelsize=SMALL)
    axis.set_xlabel(label(names[0]), fontsize=SMALL)
    axis.set_ylabel(label(names[1]), fontsize=SMALL)
    axis.set_title(title, fontsize=NORMAL)
