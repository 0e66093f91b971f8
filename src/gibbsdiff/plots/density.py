"""Draws of one parameter and of two: histograms, clouds and contours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from gibbsdiff.inference.summary import Summary
from gibbsdiff.plots.arithmetic import mass_levels
from gibbsdiff.plots.style import (
    BLUE,
    CHAINS,
    GREY,
    INK,
    SMALL,
    WIDE_FILLS,
    WIDE_LINE,
    chain_colours,
)

#: Contours enclose these shares of the draws, the outer one first.
MASSES = (0.95, 0.68)
#: As many points are drawn, and used for densities: more cost time and show no more.
POINTS, KERNELS = 1500, 600
GRID = 50
Array = NDArray[Any]


def histogram(
    axis: Axes, draws: Array, found: Summary, wide: Array | None = None, title_at: float = 0.5
) -> None:
    """Draws (chain, draw) of a parameter and, behind them, `wide` ones (n,) with the network's own
    error; above them the mean and both standard deviations, centred or, at 1, to the right.
    """
    pooled = draws.ravel()
    if not _spread(pooled):
        axis.axvline(float(pooled[0]), color=chain_colours(1)[0], linewidth=1.4)
        axis.text(0.97, 0.95, "fixed", transform=axis.transAxes, ha="right", va="top",
                  fontsize=SMALL, color=GREY)  # fmt: skip
        axis.set_ylim(0, 1)
        return
    if wide is not None:
        style = {"facecolor": WIDE_FILLS[1], "edgecolor": WIDE_LINE, "linewidth": 0.7}
        _density(axis, wide, _edges(wide), histtype="stepfilled", **style)
    edges = _edges(pooled)
    fill = {"color": BLUE, "alpha": 0.4} if len(draws) == 1 else {"color": "#c9c9c9", "alpha": 0.85}
    _density(axis, pooled, edges, edgecolor="none", **fill)
    if 1 < len(draws) <= len(CHAINS):
        for chain, colour in zip(draws, chain_colours(len(draws)), strict=True):
            _density(axis, chain, edges, histtype="step", color=colour, linewidth=0.8)
    _title(axis, found, wide is not None, title_at)


def cloud(axis: Axes, first: Array, second: Array, wide: Array | None = None) -> None:
    """Draws (chain, draw) of two parameters with their contours; contours of `wide`, (2, n), filled
    behind them.
    """
    outer = None if wide is None else contours(wide[:, :: max(1, wide.shape[1] // POINTS)])
    if outer is not None:
        x, y, density, levels = outer
        ends = [*levels, float(density.max()) * 1.01]
        axis.contourf(x, y, density, levels=ends, colors=WIDE_FILLS, zorder=0)
        axis.contour(x, y, density, levels=levels, colors=WIDE_LINE, linewidths=0.7, zorder=0.5)
    chains, count = first.shape
    step = max(1, chains * count // POINTS)
    size = 4.5 if chains * count < 600 else 3.0
    for a, b, colour in zip(
        first[:, ::step], second[:, ::step], chain_colours(chains), strict=True
    ):
        axis.plot(a, b, ".", color=colour, markersize=size, alpha=0.5, markeredgewidth=0)
    inner = contours(np.stack([first[:, ::step].ravel(), second[:, ::step].ravel()]))
    if inner is not None:
        x, y, density, levels = inner
        axis.contour(x, y, density, levels=levels, colors=INK, linewidths=(0.6, 1.0))


def contours(points: Array) -> tuple[Array, Array, Array, list[float]] | None:
    """A kernel density of (2, n) draws on a grid, and the levels that enclose MASSES of them.

    Levels are set by the draws' own densities and not by the smoothed density's mass: smoothing
    widens a density, and contours of its mass would enclose too much. None for too few draws.
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


def _spread(draws: Array) -> bool:
    return bool(np.ptp(draws) > 1e-9 * np.abs(draws).max())


def _edges(values: Array) -> list[float]:
    count = int(np.clip(2 * len(values) ** (1 / 3), 8, 40))
    return np.linspace(values.min(), values.max(), count + 1).tolist()


def _density(axis: Axes, values: Array, edges: list[float], **style: Any) -> None:
    weight = 1 / (len(values) * (edges[1] - edges[0]))
    axis.hist(values, edges, weights=np.full(len(values), weight), **style)


def _title(axis: Axes, found: Summary, both: bool, at: float) -> None:
    """Mean ± sd, with two digits of it, and ± the sd with the network's error in its colour."""
    digits = int(np.clip(1 - np.floor(np.log10(max(found.sd, 1e-12))), 0, 8))
    parts = [(f"{found.mean:.{digits}f} ± {found.sd:.{digits}f}", INK)]
    if both:
        parts.append((f"± {found.total_sd:.{digits}f}", WIDE_LINE))
    areas: list[Artist] = [
        TextArea(t, textprops={"fontsize": SMALL, "color": colour}) for t, colour in parts
    ]
    box = HPacker(children=areas, pad=0, sep=4, align="baseline")
    axis.add_artist(
        AnchoredOffsetbox(
            "lower right" if at == 1 else "lower center",
            child=box,
            frameon=False,
            pad=0,
            borderpad=0.2,
            bbox_to_anchor=(at, 1.0),
            bbox_transform=axis.transAxes,
        )
    )
