"""Draws of φ: corner plot and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from torch import Tensor

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.plots.density import Array, cloud, histogram
from gibbsdiff.plots.style import (
    CHAINS,
    INK,
    NORMAL,
    SMALL,
    TRUTH,
    WIDE_FILLS,
    WIDE_LINE,
    chain_colours,
    label,
    tidy,
)

#: Draws with the model's error that contours are made of, at least; at most COPIES for each draw.
ENOUGH, COPIES = 1500, 8
MANY = 5  # parameters whose axes are small


def with_model_error(posterior: Posterior) -> Tensor | None:
    """Draws (n, d) of φ with the network's own error, eq. (12); None if it has none.

    Every draw is widened several times, so that the contours of a few draws are smooth.
    """
    if posterior.model_error is None:
        return None
    count = min(COPIES, -(-ENOUGH // posterior.phi[..., 0].numel()))
    wide = [posterior.widened(seed).phi for seed in range(count)]
    return torch.cat(wide, 1).flatten(0, 1)


def corner(axes: Any, posterior: Posterior) -> None:
    """Histograms of p(φ_i | y) on the diagonal, draws with 68 and 95 % contours below it.

    `axes` is a (d, d) array of axes. Shown are the draws given the network, each chain in its own
    colour, independent draws in one; filled contours behind them have the network's own error in
    them, eq. (12). A cross of dashed lines marks the truth.
    """
    names, truth = posterior.names, posterior.truth
    draws = posterior.phi.detach().double().numpy()
    if not posterior.is_chains:
        draws = draws.reshape(1, -1, len(names))
    wide = with_model_error(posterior)
    behind = None if wide is None else wide.numpy()
    limits = [
        _range(draws[..., i], None if truth is None else truth[i], _column(behind, i))
        for i in range(len(names))
    ]
    for row, found in enumerate(posterior.rows):
        for column in range(len(names)):
            axis = axes[row, column]
            if column > row:
                axis.set_axis_off()
                continue
            tidy(axis)
            if row == column:
                # Titles of many narrow axes are longer than these: the last must not be cut off.
                place = 0.5 if len(names) < MANY else 1.0
                histogram(axis, draws[..., row], found, _column(behind, row), place)
                axis.set_yticks([])
                axis.spines["left"].set_visible(False)
            else:
                outer = None if behind is None else behind[:, [column, row]].T
                cloud(axis, draws[..., column], draws[..., row], outer)
                axis.set_ylim(*limits[row])
                _ticks(axis, "y", len(names))
            axis.set_xlim(*limits[column])
            _ticks(axis, "x", len(names))
            if truth is not None:
                style: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": TRUTH}
                axis.axvline(truth[column], **style)
                if row != column:
                    axis.axhline(truth[row], **style)
            if row == len(names) - 1:
                axis.set_xlabel(label(names[column]), fontsize=NORMAL)
            else:
                axis.tick_params(labelbottom=False)
            if column == 0 and row > 0:
                axis.set_ylabel(label(found.name), fontsize=NORMAL)
            elif column > 0:
                axis.tick_params(labelleft=False)


def corner_key(posterior: Posterior) -> list[Line2D | Patch]:
    """Handles for a corner plot's legend."""
    count = len(posterior.phi) if posterior.is_chains else 1
    colours = chain_colours(count)
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 3}
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=c, label=f"chain {i + 1}" if count > 1 else "draws", **dot)
        for i, c in enumerate(colours)
    ]
    if count > len(CHAINS):
        handles = [Line2D([], [], color=colours[0], label=f"{count} chains", **dot)]
    if len(posterior.names) > 1:
        handles.append(Line2D([], [], color=INK, linewidth=1.0, label="68 and 95 % of them"))
    if posterior.model_error is not None:
        text = "with the network's\nown error"
        handles.append(Patch(facecolor=WIDE_FILLS[1], edgecolor=WIDE_LINE, label=text))
    if posterior.truth is not None:
        handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=TRUTH, label="truth"))
    return handles


def traces(axes: Sequence[Axes], posterior: Posterior) -> None:
    """Each φ_i against the number of the kept draw, a line for each chain."""
    names, truth = posterior.names, posterior.truth
    draws = posterior.phi.detach().double().numpy()
    chains, count = draws.shape[:2]
    for i, (axis, name) in enumerate(zip(axes, names, strict=True)):
        tidy(axis)
        for chain, colour in zip(draws[..., i], chain_colours(chains), strict=True):
            steps = np.arange(1, count + 1)
            marker = "." if count == 1 else ""
            axis.plot(steps, chain, color=colour, linewidth=0.7, alpha=0.85, marker=marker)
        known = None if truth is None else truth[i]
        if known is not None:
            axis.axhline(known, color=INK, linewidth=0.9, linestyle=TRUTH)
        axis.set_ylim(*_range(draws[..., i], known))
        axis.set_xlim(0.5, count + 0.5)
        _ticks(axis, "y", len(names))
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axis.set_ylabel(label(name), fontsize=NORMAL)
        if i < len(names) - 1:
            axis.tick_params(labelbottom=False)
        else:
            axis.set_xlabel("draw", fontsize=NORMAL)


def corner_axes(part: Any, size: int) -> Any:
    """(d, d) axes at fixed places: a solver of layouts takes seconds over 64 of them."""
    width, height = (length / part.dpi for length in part.bbox.size)
    left, right, below, above = 0.75 / width, 0.1 / width, 0.6 / height, 0.5 / height
    if size == 1:
        right = 1.3 / width  # the legend has no empty corner here
    across, up = (1 - left - right) / size, (1 - below - above) / size
    gap = max(0.14 * up, min(0.17 / height, 0.4 * up))  # room for a line of text
    axes = np.empty((size, size), dtype=object)
    for row in range(size):
        for column in range(size):
            corner_at = (left + column * across, below + (size - 1 - row) * up)
            axes[row, column] = part.add_axes((*corner_at, 0.92 * across, up - gap))
    return axes


def _column(draws: Array | None, i: int) -> Array | None:
    return None if draws is None else draws[..., i]


def _range(draws: Array, known: float | None, wide: Array | None = None) -> tuple[float, float]:
    """All draws and the truth, with a margin; never empty."""
    low, high = float(draws.min()), float(draws.max())
    if wide is not None:
        # Of many more draws: all but the last few.
        ends = np.quantile(wide, [0.002, 0.998]).tolist()
        low, high = min(low, ends[0]), max(high, ends[1])
    if known is not None:
        low, high = min(low, known), max(high, known)
    size = max(abs(low), abs(high), 1e-12)
    margin = 0.08 * (high - low) if high - low > 1e-9 * size else 0.05 * size
    return low - margin, high + margin


def _ticks(axis: Axes, which: Literal["x", "y"], parameters: int) -> None:
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_locator(
        MaxNLocator(4 if parameters <= 3 else 3 if parameters <= 5 else 2, prune="both")
    )
    # An offset such as "1e-5 + 0.1" is misread; plain numbers are longer and clear.
    side.set_major_formatter(ScalarFormatter(useOffset=False))
    if which == "x":
        turn = 0 if parameters < 3 else 35 if parameters < MANY else 60
        axis.tick_params(axis="x", labelrotation=turn)
    if parameters > MANY:
        axis.tick_params(axis=which, labelsize=SMALL - 1)
