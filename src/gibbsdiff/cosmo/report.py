"""The page of a separated mixture: maps, parameters, power spectra."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.cmb import ARCMIN, CMBNoise
from gibbsdiff.plots import corner, corner_axes, corner_key, radial_power, save
from gibbsdiff.plots.arithmetic import radial_average, spectrum_bins
from gibbsdiff.plots.style import BLUE, GREY, INK, NORMAL, SMALL, VERMILION, plain, tidy

SIZE = (13.0, 9.5)


def report(
    path: str | Path, mixture: Mixture, posterior: Posterior, noise: CMBNoise, remark: str = ""
) -> Figure:
    """Draw and write the figure: maps of mixture, dust and CMB above; below them spectra, the
    corner plot with both kinds of contours, and the verdict.
    """
    page = Figure(figsize=SIZE)
    page.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)
    parts: Any = page.subfigures(3, 1, height_ratios=[4.4, 4.4, 0.7])
    top, below, foot = parts
    _maps(top, mixture, posterior)
    left, right = below.subfigures(1, 2, width_ratios=[1.1, 1.0])
    spectra(left.subplots(1, 1), mixture, posterior, noise)
    corner(corner_axes(right, len(posterior.names)), posterior)
    right.legend(handles=corner_key(posterior), fontsize=SMALL, frameon=False, loc="upper right")
    verdict = posterior.summary().split("\n", 1)[0]
    colour = INK if posterior.good else VERMILION
    style: dict[str, Any] = {"va": "top", "parse_math": False}
    foot.text(0.01, 0.95, plain(verdict), fontsize=NORMAL, color=colour, **style)
    notes = " · ".join(n for n in (remark, *posterior.notes) if n)
    foot.text(0.01, 0.5, plain(notes), fontsize=SMALL, color=INK, **style)
    save(page, path)
    return page


def _maps(part: Any, mixture: Mixture, posterior: Posterior) -> None:
    y, unit = mixture.y, mixture.unit
    label = "µK" if unit != 1 else "dust rms"
    drawn = posterior.samples[0] if posterior.samples is not None else None
    rows = (
        ("dust", mixture.dust, drawn, posterior.mean, "inferno"),
        ("CMB", mixture.cmb, None if drawn is None else y - drawn, y - posterior.mean, "RdBu_r"),
    )
    axes = part.subplots(2, 5)
    _show(axes[0, 0], y * unit, f"mixture y [{label}]", _limits(y * unit), "viridis")
    if posterior.sd is None:
        axes[1, 0].set_axis_off()
    else:
        sd = posterior.sd * unit
        _show(axes[1, 0], sd, f"sd of either [{label}]", (0.0, _limits(sd)[1]), "viridis")
    for row, (name, truth, sample, mean, colours) in zip(axes, rows, strict=True):
        limits = _limits((mean if truth is None else truth) * unit, name == "CMB")
        for axis, values, title in zip(
            row[1:4], (truth, sample, mean), ("true", "sample of", "mean of"), strict=True
        ):
            if values is None:
                axis.set_axis_off()
            else:
                _show(axis, values * unit, f"{title} {name}", limits, colours)
        if truth is None or posterior.sd is None:
            row[4].set_axis_off()
        else:
            error = (mean - truth) / posterior.sd.clamp(min=1e-12)
            _show(row[4], error, "(mean - true)/sd", (-3.0, 3.0), "RdBu_r")


def _limits(values: Tensor, symmetric: bool = False) -> tuple[float, float]:
    low, high = np.quantile(values.double().numpy(), [0.005, 0.995]).tolist()
    if symmetric:
        high = max(abs(low), abs(high))
        low = -high
    return low, max(high, low + 1e-12)


def _show(
    axis: Axes, values: Tensor, title: str, limits: tuple[float, float], colours: str
) -> None:
    drawn = axis.imshow(
        values[0].numpy(), cmap=colours, vmin=limits[0], vmax=limits[1], origin="lower"
    )
    axis.set_title(title, fontsize=NORMAL)
    axis.set_xticks([])
    axis.set_yticks([])
    figure = axis.get_figure()
    assert figure is not None
    bar = figure.colorbar(drawn, ax=axis, orientation="horizontal", fraction=0.05, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL)


def spectra(axis: Axes, mixture: Mixture, posterior: Posterior, noise: CMBNoise) -> None:
    """Power per mode of mixture, dust and CMB against ℓ: true ones as lines, those of the
    samples as dots, and the mean of N_φ.
    """
    y, unit = mixture.y, mixture.unit
    bins = spectrum_bins(*mixture.shape)
    ell = 2 * math.pi * bins.k.k.numpy()[1:] / (noise.pixel * ARCMIN)

    def line(values: Tensor, text: str, **style: Any) -> None:
        axis.plot(ell, values.double().numpy()[1:] * unit**2, label=text, **style)

    line(radial_power(y, bins), "mixture", color=GREY, linewidth=1.0)
    if mixture.dust is not None and mixture.cmb is not None:
        line(radial_power(mixture.dust, bins), "dust, true", color=VERMILION, linewidth=1.2)
        line(radial_power(mixture.cmb, bins), "CMB, true", color=BLUE, linewidth=1.2)
    if posterior.samples is not None:
        dust = torch.stack([radial_power(x, bins) for x in posterior.samples]).mean(0)
        cmb = torch.stack([radial_power(y - x, bins) for x in posterior.samples]).mean(0)
        dots: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 2.5}
        line(dust, "dust, samples", color=VERMILION, **dots)
        line(cmb, "CMB, samples", color=BLUE, **dots)
    if posterior.noise_power is not None:
        mean = radial_average(posterior.noise_power[0], bins)
        line(mean, r"$N_\varphi$, posterior mean", color=INK, linewidth=0.9, linestyle=(0, (4, 2)))
    axis.set_xscale("log")
    axis.set_yscale("log")
    tidy(axis)
    axis.set_xlabel(r"multipole $\ell$", fontsize=NORMAL)
    axis.set_ylabel("power per mode" + (" [µK²]" if unit != 1 else ""), fontsize=NORMAL)
    axis.legend(fontsize=SMALL, frameon=False)
