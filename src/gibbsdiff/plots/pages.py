"""Whole figures: everything about a posterior, and the page that goes with a denoised file."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.plots.parameters import corner, corner_key, traces
from gibbsdiff.plots.pictures import (
    filled,
    mark_missing,
    picture,
    remark,
    residual,
    uncertainty,
    window,
)
from gibbsdiff.plots.spectrum import residual_spectrum
from gibbsdiff.plots.style import INK, LARGE, NORMAL, SMALL, VERMILION, plain

A4 = (11.69, 8.27)
DPI = 150
MONO = "DejaVu Sans Mono"
COLUMNS = 92  # characters of the summary in a line of the report


def figure(posterior: Posterior, noise: NoiseModel | None = None) -> Figure:
    """Pictures above; below them the residual's spectrum, the traces and the corner plot."""
    size = len(posterior.names)
    grown = max(0.0, 0.75 * (size - 3))
    page = _page(13.0 + grown, 8.0 + grown)
    top, below = _split(page, (2, 1), height_ratios=[3.4, 4.6 + grown])
    images(top, posterior)
    left, middle, right = _split(below, (1, 3), width_ratios=[4.2, 3.6, 4.6 + grown])
    _spectrum(left, posterior, noise)
    middle.suptitle("chains", fontsize=NORMAL)
    rows = middle.subplots(size, 1, squeeze=False)[:, 0]
    traces(list(rows), posterior.phi, posterior.names, posterior.truth)
    _corner(right, posterior)
    return page


def report(
    posterior: Posterior, path: str | Path, title: str = "", noise: NoiseModel | None = None
) -> None:
    """One page, A4 landscape, as PNG: pictures, residual spectrum, corner plot and summary."""
    lines = [
        part
        for line in posterior.summary().split("\n")
        for part in textwrap.wrap(line, COLUMNS, drop_whitespace=False) or [""]
    ]
    page = _page(*A4)
    head, foot = 0.3 if title else 0.02, 0.14 * (len(lines) + 1)
    body = A4[1] - head - foot
    heights = [head, 0.46 * body, 0.54 * body + foot]
    heading, top, below = _split(page, (3, 1), height_ratios=heights)
    images(top, posterior, sample=False)
    side, right = _split(below, (1, 2), width_ratios=[1.05, 1])
    left, bottom = _split(side, (2, 1), height_ratios=[0.54 * body, foot])
    _spectrum(left, posterior, noise)
    _corner(right, posterior)
    style: dict[str, Any] = {"family": MONO, "fontsize": SMALL, "va": "top", "parse_math": False}
    # The verdict comes first, and stands out when it is bad.
    verdict, rest = plain(lines[0], MONO), plain("\n".join(["", *lines[1:]]), MONO)
    colour = INK if posterior.converged else VERMILION
    bottom.text(0.02, 0.95, verdict, color=colour, weight="bold", **style)
    bottom.text(0.02, 0.95, rest, color=INK, **style)
    heading.text(0.5, 0.4, plain(title), fontsize=LARGE, ha="center", va="center",
                 parse_math=False, family="DejaVu Sans")  # fmt: skip
    save(page, path)


def save(page: Figure, path: str | Path) -> None:
    """Write a figure, in the format of the path's ending; no file is left half written."""
    path = Path(path)
    ending = path.suffix.lower().removeprefix(".") or "png"
    if ending not in page.canvas.get_supported_filetypes():
        raise InputError(f"{path}: figures cannot be written as .{ending}; png, pdf and svg can")
    buffer = io.BytesIO()
    page.savefig(buffer, format=ending, dpi=DPI)
    write_atomically(path, buffer.getvalue())


def images(page: Any, posterior: Posterior, sample: bool = True) -> None:
    """A row of pictures: observed, denoised, a sample if kept, uncertainty, residual."""
    limits = window(posterior.mean)
    shown = [("noisy y", filled(posterior)), ("denoised, mean of x given y", posterior.mean)]
    if sample and posterior.samples is not None and len(posterior.samples):
        shown.append(("one draw of x given y", posterior.samples[0]))
    axes: list[Axes] = list(page.subplots(1, len(shown) + 2))
    for axis, (title, image) in zip(axes, shown, strict=False):
        picture(axis, image, title, limits)
    uncertainty(axes[-2], posterior)
    residual(axes[-1], posterior)
    for axis in (axes[0], *axes[-2:]):
        mark_missing(axis, posterior.missing)
    axes[0].set_xlabel(remark(posterior), fontsize=SMALL)


def _page(width: float, height: float) -> Figure:
    page = Figure(figsize=(width, height))
    page.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)
    return page


def _split(page: Any, grid: tuple[int, int], **ratios: list[float]) -> Any:
    return page.subfigures(*grid, wspace=0.02, hspace=0.02, **ratios)


def _triangle(part: Any, size: int) -> Any:
    """(d, d) axes at fixed places: a solver of layouts takes seconds over 64 of them."""
    width, height = (length / part.dpi for length in part.bbox.size)
    left, right, below, above = 0.75 / width, 0.1 / width, 0.6 / height, 0.5 / height
    if size == 1:
        right = 1.1 / width  # the legend has no empty corner here
    across, up = (1 - left - right) / size, (1 - below - above) / size
    axes = np.empty((size, size), dtype=object)
    for row in range(size):
        for column in range(size):
            corner_at = (left + column * across, below + (size - 1 - row) * up)
            axes[row, column] = part.add_axes((*corner_at, 0.92 * across, 0.86 * up))
    return axes


def _spectrum(part: Any, posterior: Posterior, noise: NoiseModel | None) -> None:
    axis = part.subplots(1, 1)
    residual_spectrum(axis, posterior, noise)
    axis.set_title("residual spectrum, mean over directions", fontsize=NORMAL)


def _corner(part: Any, posterior: Posterior) -> None:
    size = len(posterior.names)
    corner(_triangle(part, size), posterior.phi, posterior.names, posterior.truth)
    part.text(0.5, 0.99, "noise parameters", fontsize=NORMAL, ha="center", va="top")
    handles = corner_key(len(posterior.phi), size > 1, posterior.truth is not None)
    part.legend(handles=handles, fontsize=SMALL, frameon=False, loc="upper right")
