"""The noise alone: its spectrum, and what was found in words."""

from __future__ import annotations

import textwrap
from pathlib import Path

from matplotlib.figure import Figure

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.plots.pages import save
from gibbsdiff.plots.spectrum import residual_spectrum
from gibbsdiff.plots.style import INK, NORMAL, SMALL, VERMILION, plain

MONO = "DejaVu Sans Mono"
WIDE = 92  # characters of a line


def noise_page(
    posterior: Posterior,
    path: str | Path | None = None,
    noise: NoiseModel | None = None,
    title: str = "",
) -> Figure:
    """The spectrum of y and of the noise, with a band over draws if the `noise` model is given, and
    below it the verdict and the noise in words. Written to `path` if it is given.
    """
    checked = [] if posterior.check is None else [posterior.check.verdict]
    rows = [f"{r.name} = {r.mean:.4g} ± {r.total_sd:.2g}" for r in posterior.rows]
    found = [posterior.outcome, *checked, *posterior.words, *_folded(rows)]
    lines = [piece for line in found for piece in textwrap.wrap(line, WIDE)]
    page = Figure(figsize=(7.0, 4.6 + 0.16 * len(lines)), layout="constrained")
    above, below = page.subfigures(  # type: ignore[misc]
        2, 1, height_ratios=[4.6, 0.16 * len(lines) + 0.1]
    )
    axis = above.subplots(1, 1)
    residual_spectrum(axis, posterior, noise)
    axis.set_title(plain(title), fontsize=NORMAL, parse_math=False)
    good = posterior.good and (posterior.check is None or posterior.check.fits is not False)
    text = plain("\n".join(lines), MONO)
    colour = INK if good else VERMILION
    below.text(0.02, 0.98, text, family=MONO, fontsize=SMALL, va="top", color=colour,
               parse_math=False)  # fmt: skip
    if path is not None:
        save(page, path)
    return page


def _folded(parts: list[str]) -> list[str]:
    """Parts in lines of a width."""
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > WIDE:
            lines.append("")
        lines[-1] += f"  {part}" if lines[-1] else part
    return lines
