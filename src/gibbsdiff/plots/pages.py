"""Whole figures: everything about a posterior, and the page that goes with a denoised file."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.plots.checked import band_table
from gibbsdiff.plots.parameters import corner, corner_axes, corner_key, traces
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
COLUMNS, WIDE_COLUMNS = 98, 150  # characters in a line of the report and of the larger figure


def figure(
    posterior: Posterior, path: str | Path | None = None, noise: NoiseModel | None = None
) -> Figure:
    """Pictures above; below them the residual's spectrum, the traces of chains and the corner plot.

    Written to `path` if it is given; with the `noise` model, the spectrum has a band over draws.
    """
    size = len(posterior.names)
    grown = max(0.0, 0.75 * (size - 3)) if _inferred(posterior) else 0.0
    lines = _wrapped(posterior, WIDE_COLUMNS, table=False)
    head = 0.16 + 0.14 * sum(map(len, lines))
    page = _page(13.0 + grown, 8.0 + grown + head)
    heading, top, below = _split(page, (3, 1), height_ratios=[head, 3.4, 4.6 + grown])
    _text(heading, lines, posterior, 0.7)
    images(top, posterior)
    if not _inferred(posterior):
        _spectrum(below, posterior, noise)
    elif posterior.is_chains:
        left, middle, right = _split(below, (1, 3), width_ratios=[4.2, 3.6, 4.6 + grown])
        _spectrum(left, posterior, noise)
        middle.suptitle("chains", fontsize=NORMAL)
        traces(list(middle.subplots(size, 1, squeeze=False)[:, 0]), posterior)
        _corner(right, posterior)
    else:
        left, right = _split(below, (1, 2), width_ratios=[6.4, 6.0 + grown])
        _spectrum(left, posterior, noise)
        _corner(right, posterior)
    return _finished(page, path)


def report(
    posterior: Posterior,
    path: str | Path | None = None,
    title: str = "",
    noise: NoiseModel | None = None,
) -> Figure:
    """One page, A4 landscape: pictures, residual spectrum, corner plot and summary."""
    lines = _wrapped(posterior, COLUMNS)
    page = _page(*A4)
    head, foot = 0.3 if title else 0.02, 0.14 * (sum(map(len, lines)) + 1)
    body = A4[1] - head - foot
    heights = [head, 0.46 * body, 0.54 * body + foot]
    heading, top, below = _split(page, (3, 1), height_ratios=heights)
    images(top, posterior, sample=False)
    side = below
    if _inferred(posterior):
        side, right = _split(below, (1, 2), width_ratios=[1.05, 1])
        _corner(right, posterior)
    left, bottom = _split(side, (2, 1), height_ratios=[0.54 * body, foot])
    _spectrum(left, posterior, noise)
    _text(bottom, lines, posterior, 0.95)
    heading.text(0.5, 0.4, plain(title), fontsize=LARGE, ha="center", va="center",
                 parse_math=False, family="DejaVu Sans")  # fmt: skip
    return _finished(page, path)


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
    """A row of pictures: observed, denoised, a sample and the uncertainty if there, residual."""
    limits = window(posterior.mean)
    shown = [("noisy y", filled(posterior)), ("denoised, mean of x given y", posterior.mean)]
    if sample and posterior.samples is not None and len(posterior.samples):
        shown.append(("one draw of x given y", posterior.samples[0]))
    mapped = posterior.sd is not None
    axes: list[Axes] = list(page.subplots(1, len(shown) + 1 + mapped))
    for axis, (title, image) in zip(axes, shown, strict=False):
        picture(axis, image, title, limits)
    if mapped:
        uncertainty(axes[-2], posterior)
    residual(axes[-1], posterior)
    for axis in (axes[0], *axes[len(shown) :]):
        mark_missing(axis, posterior.missing)
    axes[0].set_xlabel(remark(posterior), fontsize=SMALL)


def _inferred(posterior: Posterior) -> bool:
    """Whether there is anything to show of φ: the noise was not given."""
    return not posterior.noise_is_known


def _wrapped(posterior: Posterior, columns: int, table: bool = True) -> list[list[str]]:
    """The summary, or what of it the plots do not show, each line of it as lines that fit."""
    lines = posterior.summary().split("\n")
    if not table:
        given = [] if _inferred(posterior) else [f"{r.name} = {r.mean:g}" for r in posterior.rows]
        checked = [] if posterior.check is None else [lines[1]]
        lines = [lines[0], *checked, *[", ".join(given)] * bool(given), *posterior.notes]
    # A table's columns keep their places; sentences begin each line anew.
    return [
        textwrap.wrap(line, columns, drop_whitespace=not line.startswith(" ")) or [""]
        for line in lines
    ]


def _text(part: Any, lines: list[list[str]], posterior: Posterior, top: float) -> None:
    """The verdict first, and whether the model fits: they stand out when they are bad."""
    style: dict[str, Any] = {"family": MONO, "fontsize": SMALL, "va": "top", "parse_math": False}
    verdict, rest = lines[0], [piece for line in lines[1:] for piece in line]
    colour = INK if posterior.good else VERMILION
    part.text(0.02, top, plain("\n".join(verdict), MONO), color=colour, weight="bold", **style)
    skip = [""] * len(verdict)
    if posterior.check is not None:
        checked = lines[1]
        colour = VERMILION if posterior.check.fits is False else INK
        part.text(0.02, top, plain("\n".join([*skip, *checked]), MONO), color=colour, **style)
        skip, rest = [*skip, *[""] * len(checked)], rest[len(checked) :]
    part.text(0.02, top, plain("\n".join([*skip, *rest]), MONO), color=INK, **style)


def _finished(page: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        save(page, path)
    return page


def _page(width: float, height: float) -> Figure:
    page = Figure(figsize=(width, height))
    page.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06)
    return page


def _split(page: Any, grid: tuple[int, int], **ratios: list[float]) -> Any:
    return page.subfigures(*grid, wspace=0.02, hspace=0.02, **ratios)


def _spectrum(part: Any, posterior: Posterior, noise: NoiseModel | None) -> None:
    check = posterior.check
    if check is not None and check.bands:
        part, below = _split(part, (2, 1), height_ratios=[4, 1.1])
        band_table(below.subplots(1, 1), check)
    axis = part.subplots(1, 1)
    residual_spectrum(axis, posterior, noise)
    axis.set_title("residual spectrum, mean over directions", fontsize=NORMAL)


def _corner(part: Any, posterior: Posterior) -> None:
    corner(corner_axes(part, len(posterior.names)), posterior)
    part.text(0.5, 0.99, "noise parameters", fontsize=NORMAL, ha="center", va="top")
    part.legend(handles=corner_key(posterior), fontsize=SMALL, frameon=False, loc="upper right")
