"""Draws of φ: corner plot and traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import NDArray
from scipy.stats import gaussian_kde
from torch import Tensor

from gibbsdiff.plots.arithmetic import mass_levels
from gibbsdiff.plots.style import CHAINS, GREY, INK, NORMAL, SMALL, chain_colours, label, tidy

#: Contours enclose these shares of the draws, the outer one first.
MASSES = (0.95, 0.68)
#: As many points are drawn, and used for densities: more cost time and show no more.
POINTS, KERNELS = 1500, 600
GRID = 50
Array = NDArray[Any]


def corner(
    axes: Any, phi: Tensor, names: Sequence[str], truth: Sequence[float] | None = None
) -> None:
    """Histograms of p(φ_i | y) on the diagonal, draws with 68 and 95 % contours below it.

    `axes` is a (d, d) array of axes and `phi` (chain, draw, d). Chains have their own colours;
    a cross of dashed lines marks the truth where it is known.
    """
    draws = phi.detach().double().numpy()
    ranges = [_range(draws[..., i], None if truth is None else truth[i]) for i in range(len(names))]
    for row, name in enumerate(names):
        for column in range(len(names)):
            axis = axes[row, column]
            if column > row:
                axis.set_axis_off()
                continue
            tidy(axis)
            if row == column:
                _histogram(axis, draws[..., row], ranges[row])
                axis.set_yticks([])
                axis.spines["left"].set_visible(False)
            else:
                _cloud(axis, draws[..., column], draws[..., row])
                axis.set_ylim(*ranges[row])
                _ticks(axis, "y", len(names))
            axis.set_xlim(*ranges[column])
            _ticks(axis, "x", len(names))
            if truth is not None:
                style: dict[str, Any] = {"color": INK, "linewidth": 0.9, "linestyle": (0, (4, 2))}
                axis.axvline(truth[column], **style)
                if row != column:
                    axis.axhline(truth[row], **style)
            if row == len(names) - 1:
                axis.set_xlabel(label(names[column]), fontsize=NORMAL)
            else:
                axis.tick_params(labelbottom=False)
            if column == 0 and row > 0:
                axis.set_ylabel(label(name), fontsize=NORMAL)
            elif column > 0:
                axis.tick_params(labelleft=False)


def corner_key(chains: int, contours: bool, known: bool) -> list[Line2D]:
    """Handles for a corner plot's legend."""
    colours = chain_colours(chains)
    dot: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 3}
    handles = [
        Line2D([], [], color=c, label=f"chain {i + 1}" if chains > 1 else "draws", **dot)
        for i, c in enumerate(colours)
    ]
    if chains > len(CHAINS):
        handles = [Line2D([], [], color=colours[0], label=f"{chains} chains", **dot)]
    if contours:
        handles.append(Line2D([], [], color=INK, linewidth=1.0, label="68 and 95 %"))
    if known:
        handles.append(
            Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (4, 2)), label="truth")
        )
    return handles


def traces(
    axes: Sequence[Axes], phi: Tensor, names: Sequence[str], truth: Sequence[float] | None = None
) -> None:
    """Each φ_i against the number of the kept draw, a line for each chain."""
    draws = phi.detach().double().numpy()
    chains, count = draws.shape[:2]
    for i, (axis, name) in enumerate(zip(axes, names, strict=True)):
        tidy(axis)
        for chain, colour in zip(draws[..., i], chain_colours(chains), strict=True):
            steps = np.arange(1, count + 1)
            marker = "." if count == 1 else ""
            axis.plot(steps, chain, color=colour, linewidth=0.7, alpha=0.85, marker=marker)
        known = None if truth is None else truth[i]
        if known is not None:
            axis.axhline(known, color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
        axis.set_ylim(*_range(draws[..., i], known))
        axis.set_xlim(0.5, count + 0.5)
        _ticks(axis, "y", len(names))
        axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axis.set_ylabel(label(name), fontsize=NORMAL)
        if i < len(names) - 1:
            axis.tick_params(labelbottom=False)
        else:
            axis.set_xlabel("draw", fontsize=NORMAL)


def _range(draws: Array, known: float | None) -> tuple[float, float]:
    """All draws and the truth, with a margin; never empty."""
    low, high = float(draws.min()), float(draws.max())
    if known is not None:
        low, high = min(low, known), max(high, known)
    size = max(abs(low), abs(high), 1e-12)
    margin = 0.08 * (high - low) if high - low > 1e-9 * size else 0.05 * size
    return low - margin, high + margin


def _ticks(axis: Axes, which: str, parameters: int) -> None:
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_locator(
        MaxNLocator(4 if parameters <= 3 else 3 if parameters <= 5 else 2, prune="both")
    )
    # An offset such as "1e-5 + 0.1" is misread; plain numbers are longer and clear.
    side.set_major_formatter(ScalarFormatter(useOffset=False))
    if which == "x":
        axis.tick_params(axis="x", labelrotation=35 if parameters > 2 else 0)


def _spread(draws: Array) -> bool:
    return bool(np.ptp(draws) > 1e-9 * np.abs(draws).max())


def _histogram(axis: Axes, draws: Array, limits: tuple[float, float]) -> None:
    pooled = draws.ravel()
    if not _spread(pooled):
        axis.axvline(float(pooled[0]), color=chain_colours(1)[0], linewidth=1.4)
        axis.text(0.97, 0.95, "fixed", transform=axis.transAxes, ha="right", va="top",
                  fontsize=SMALL, color=GREY)  # fmt: skip
        axis.set_ylim(0, 1)
        return
    count = int(np.clip(2 * len(pooled) ** (1 / 3), 8, 40))
    edges = np.linspace(pooled.min(), pooled.max(), count + 1).tolist()
    width = edges[1] - edges[0]
    axis.hist(pooled, edges, weights=np.full(len(pooled), 1 / (len(pooled) * width)),
              color="#d9d9d9", edgecolor="none")  # fmt: skip
    if 1 < len(draws) <= len(CHAINS):
        for chain, colour in zip(draws, chain_colours(len(draws)), strict=True):
            axis.hist(chain, edges, weights=np.full(len(chain), 1 / (len(chain) * width)),
                      histtype="step", color=colour, linewidth=0.8)  # fmt: skip
    low, high = np.quantile(pooled, [0.05, 0.95])
    axis.set_title(_credible(float(pooled.mean()), float(low), float(high)), fontsize=SMALL)
    axis.set_xlim(*limits)


def _credible(mean: float, low: float, high: float) -> str:
    """Mean and central 90 % interval, with two digits of the interval's width."""
    digits = int(np.clip(1 - np.floor(np.log10(max(high - low, 1e-12))), 0, 8))
    above, below = high - mean, mean - low
    return f"${mean:.{digits}f}^{{+{above:.{digits}f}}}_{{-{below:.{digits}f}}}$"


def _cloud(axis: Axes, first: Array, second: Array) -> None:
    chains, count = first.shape
    step = max(1, chains * count // POINTS)
    colours = chain_colours(chains)
    size = 4.5 if chains * count < 600 else 3.0
    for x, y, colour in zip(first[:, ::step], second[:, ::step], colours, strict=True):
        axis.plot(x, y, ".", color=colour, markersize=size, alpha=0.5, markeredgewidth=0)
    points = np.stack([first[:, ::step].ravel(), second[:, ::step].ravel()])
    contours = _contours(points)
    if contours is not None:
        x, y, density, levels = contours
        axis.contour(x, y, density, levels=levels, colors=INK, linewidths=(0.6, 1.0))


def _contours(points: Array) -> tuple[Array, Array, Array, list[float]] | None:
    """A kernel density of (2, n) draws on a grid, and the levels that enclose MASSES of them.

    Levels are set by the draws' own densities and not by the smoothed density's mass: smoothing
    widens a density, and contours of its mass would enclose too much.
    """
    if points.shape[1] < 20 or not (_spread(points[0]) and _spread(points[1])):
        return None
    if abs(np.corrcoef(points)[0, 1]) > 1 - 1e-9:
        return None
    centre, scale = points.mean(1, keepdims=True), points.std(1, keepdims=True)
    standard = (points - centre) / scale
    kernel = gaussian_kde(standard[:, :: max(1, standard.shape[1] // KERNELS)])
    at_draws = torch.from_numpy(kernel(standard))
    levels = mass_levels(at_draws, MASSES, torch.ones_like(at_draws))
    low, high = standard.min(1) - 1, standard.max(1) + 1
    x, y = (np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True))
    grid = np.stack([g.ravel() for g in np.meshgrid(x, y)])
    density = kernel(grid).reshape(GRID, GRID)
    if not 0 < levels[0] < levels[1] < density.max():
        return None
    return x * scale[0] + centre[0], y * scale[1] + centre[1], density, levels
