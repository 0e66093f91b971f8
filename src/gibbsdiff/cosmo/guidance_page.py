"""What guided sampling did, as a table and as a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gibbsdiff.cosmo.eigenvalues import Eigenvalues
from gibbsdiff.cosmo.guidance import BANDS, Found, Guidance, Score
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.inference.summary import Summary
from gibbsdiff.noise.cmb import ARCMIN, CMBNoise
from gibbsdiff.plots import radial_power
from gibbsdiff.plots.arithmetic import radial_average, spectrum_bins
from gibbsdiff.plots.style import CHAINS, GREY, INK, NORMAL, SMALL, tidy

#: Printed in the paper: the condition number of Σ, and the largest eigenvalue of Σ^(-½).
PRINTED = Eigenvalues(6e5, 160.0)


def table(rows: Sequence[Score]) -> str:
    """A row for each sampler, as Markdown."""
    bands = [f"{what}, {band}" for what in ("y - x", "x") for band in BANDS]
    head = ["sampler", "calls", "error of a draw", "of the mean", *bands, "skewness", "kurtosis"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for s in rows:
        if s.overflow:
            cells = [f"overflow at call {s.overflow}", *[""] * (len(head) - 2)]
        else:
            figures = (s.error, s.mean_error, *s.residual, *s.dust, s.skewness, s.kurtosis)
            cells = [str(s.calls), *(f"{v:.3g}" for v in figures)]
        lines.append(f"| {s.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def chains_table(runs: Mapping[str, Sequence[Summary]], truth: Sequence[float]) -> str:
    """Means, standard deviations and R-hat of Gibbs chains, as Markdown."""
    lines = [
        "| dust drawn by | parameter | true | mean | sd | R-hat |",
        "| --- | --- |" + " ---: |" * 4,
    ]
    for name, rows in runs.items():
        for r, true in zip(rows, truth, strict=True):
            cells = f"{true:g} | {r.mean:.4g} | {r.sd:.2g} | {r.rhat:.2f}"
            lines.append(f"| {name} | {r.name} | {cells} |")
    return "\n".join(lines) + "\n"


def eigenvalue_table(at: Mapping[str, Eigenvalues]) -> str:
    """Eigenvalues beside the printed ones, as Markdown."""
    lines = [
        "| | condition number of Σ | largest eigenvalue of Σ^(-½) |",
        "| --- | ---: | ---: |",
        f"| *printed in the paper* | {PRINTED.condition:.1e} | {PRINTED.largest:.0f} |",
    ]
    lines += [f"| {name} | {e.condition:.2g} | {e.largest:.0f} |" for name, e in at.items()]
    return "\n".join(lines) + "\n"


def markdown(
    heading: str,
    rows: Sequence[Found],
    runs: Mapping[str, Sequence[Summary]],
    at: Mapping[str, Eigenvalues],
    mixture: Mixture,
    how: Guidance,
) -> str:
    """The page: samplers, chains, eigenvalues."""
    assert mixture.truth is not None
    parts = [
        heading,
        "",
        f"{mixture.source}. The noise is known; {how.steps} calls of a guided draw, {how.draws} "
        f"draws, {how.tries} of what is tried only. Errors are rms, in units of the dust's sd; "
        "y - x is the power of y - x over the CMB's in a band, x that of x over the true dust's "
        f"(1 is right). The true dust has skewness {_moment(mixture, 3):.3g} and kurtosis "
        f"{_moment(mixture, 4) - 3:.3g}.",
        "",
        table([found.score for found in rows]),
    ]
    if runs:
        parts += ["Gibbs chains from the prior:", "", chains_table(runs, mixture.truth)]
    parts += ["Eigenvalues:", "", eigenvalue_table(at)]
    return "\n".join(parts)


def shown(rows: Sequence[Found]) -> list[Found]:
    """What a figure has room for: of what was tried the best alone."""
    return [f for f in rows if f.score.best or math.isnan(f.score.value)]


def _moment(mixture: Mixture, order: int) -> float:
    assert mixture.dust is not None
    x = mixture.dust.double()
    return float(((x - x.mean()) / x.std()).pow(order).mean())


def guidance_figure(mixture: Mixture, rows: Sequence[Found]) -> Figure:
    """Draws and their errors, then the statistics: spectra of x and y - x, pixels of x.

    What overflowed has no map and is left out.
    """
    drawn = [found for found in rows if found.draws is not None]
    assert mixture.dust is not None
    maps = len(drawn) + 1
    page = Figure(figsize=(2.1 * maps, 7.4), layout="constrained")
    parts: Any = page.subfigures(2, 1, height_ratios=[1.45, 1.0])
    top, below = parts
    axes = top.subplots(2, maps, squeeze=False)
    truth = mixture.dust[0].double()
    low, high = np.quantile(truth.numpy(), [0.005, 0.995]).tolist()
    _show(axes[0, 0], truth, "true dust", low, high, "inferno")
    cmb_high = float(np.quantile(np.abs((mixture.y[0] - truth).numpy()), 0.995))
    _show(axes[1, 0], mixture.y[0], "mixture", low, high, "inferno")
    for column, found in enumerate(drawn, 1):
        assert found.draws is not None
        x = found.draws[0, 0].double()
        _show(axes[0, column], x, _broken(found.score.name), low, high, "inferno")
        words = f"draw - true: {found.score.error:.2g}"
        _show(axes[1, column], x - truth, words, -cmb_high, cmb_high, "RdBu_r")
    _statistics(below, mixture, drawn)
    return page


def _statistics(part: Any, mixture: Mixture, drawn: Sequence[Found]) -> None:
    assert mixture.dust is not None
    assert mixture.truth is not None
    dust, residual, pixels = part.subplots(1, 3)
    noise, bins = CMBNoise(), spectrum_bins(*mixture.shape)
    ell = 2 * math.pi * bins.k.k.numpy()[1:] / (noise.pixel * ARCMIN)
    phi = torch.tensor([mixture.truth], dtype=torch.float64)
    N = radial_average(noise.power(mixture.shape, phi)[0, 0], bins)
    true = radial_power(mixture.dust.double(), bins)
    edges = np.linspace(float(mixture.dust.min()), float(mixture.dust.max()), 50)
    pixels.hist(mixture.dust.flatten().numpy(), edges, density=True, color="#d8d8d8", label="true")
    for i, found in enumerate(drawn):
        assert found.draws is not None
        x, colour = found.draws.double(), CHAINS[i % len(CHAINS)]
        style: dict[str, Any] = {"color": colour, "linewidth": 1.0, "label": found.score.name}
        if i >= len(CHAINS):
            style["linestyle"] = (0, (4, 2))
        of_dust = torch.stack([radial_power(row, bins) for row in x]).mean(0)
        of_noise = torch.stack([radial_power(mixture.y.double() - row, bins) for row in x]).mean(0)
        dust.plot(ell, (of_dust / true).numpy()[1:], **style)
        residual.plot(ell, (of_noise / N).numpy()[1:], **style)
        density, _ = np.histogram(x.flatten().numpy(), edges, density=True)
        pixels.stairs(density, edges, color=colour, linewidth=1.0)
    for axis, title in ((dust, "power of x / true dust's"), (residual, "power of y - x / CMB's N")):
        axis.axhline(1, color=INK, linewidth=0.6)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(r"multipole $\ell$", fontsize=NORMAL)
        axis.set_title(title, fontsize=NORMAL)
        tidy(axis)
    pixels.set_yscale("log")
    pixels.set_xlabel("pixels of x, dust's sd", fontsize=NORMAL)
    pixels.set_title("pixels of x (true: grey)", fontsize=NORMAL)
    tidy(pixels)
    residual.legend(fontsize=SMALL, frameon=False)


def _show(axis: Axes, values: Tensor, title: str, low: float, high: float, colours: str) -> None:
    axis.imshow(values.numpy(), cmap=colours, vmin=low, vmax=high, origin="lower")
    axis.set_title(title, fontsize=SMALL)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_color(GREY)
        spine.set_linewidth(0.4)


def _broken(name: str) -> str:
    return name.replace(", ", ",\n", 1)
