"""The figure of a calibration: a row per parameter."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from gibbsdiff.evidence.calibration.ranks import bins_for
from gibbsdiff.evidence.calibration.report import CalibrationReport, ParameterReport
from gibbsdiff.plots.style import BLUE, GREY, INK, NORMAL, SMALL, VERMILION, label, tidy


def rank_figure(report: CalibrationReport, title: str = "") -> Figure:
    """Rank histogram, ECDF difference with its band, coverage: a row of three per parameter.

    Grey is where 99 % of the bars, 95 % of whole ECDF curves and 95 % of coverages would lie.
    """
    rows = len(report.parameters)
    page = Figure(figsize=(10.5, 0.9 + 2.5 * rows), layout="constrained")
    axes = page.subplots(rows, 3, squeeze=False)
    for row, parameter in zip(axes, report.parameters, strict=True):
        histogram(row[0], parameter)
        ecdf(row[1], parameter)
        covered(row[2], parameter)
        for axis in row:
            tidy(axis)
    good = report.verdict.startswith("no ")
    heading = f"{title}\n{report.verdict}" if title else report.verdict
    page.suptitle(heading, fontsize=NORMAL, color=INK if good else VERMILION)
    return page


def histogram(axis: Axes, parameter: ParameterReport) -> None:
    """Counts of ranks in equal bins; every bin is binomial when ranks are uniform."""
    n, bins = len(parameter.u), bins_for(len(parameter.u))
    low, high = stats.binom.ppf([0.005, 0.995], n, 1 / bins)
    axis.axhspan(low, high, color=GREY, alpha=0.25, lw=0)
    axis.axhline(n / bins, color=GREY, lw=0.8)
    counts, edges = np.histogram(parameter.u, bins, (0.0, 1.0))
    axis.stairs(counts, edges, fill=True, color=BLUE, alpha=0.6)
    axis.set_xlim(0, 1)
    axis.set_title(f"χ²: p = {parameter.p_chi2:.2g}", fontsize=NORMAL)
    axis.set_xlabel(f"rank of {label(parameter.name)}", fontsize=SMALL)
    axis.set_ylabel("runs", fontsize=SMALL)


def ecdf(axis: Axes, parameter: ParameterReport) -> None:
    """F_n(z) - z. Above zero on the left and below on the right: the method is too confident."""
    band = parameter.band
    axis.fill_between(band.z, band.low, band.high, color=GREY, alpha=0.25, lw=0, step="mid")
    axis.step(band.z, band.difference, where="mid", lw=1.2, color=BLUE)
    axis.axhline(0, color=GREY, lw=0.8)
    axis.set_xlim(0, 1)
    axis.set_title(f"KS: p = {parameter.p_ks:.2g}", fontsize=NORMAL)
    axis.set_xlabel(f"rank of {label(parameter.name)}", fontsize=SMALL)
    axis.set_ylabel("ECDF - uniform", fontsize=SMALL)


def covered(axis: Axes, parameter: ParameterReport) -> None:
    """Coverage of central intervals of every mass, minus that mass."""
    n, mass = len(parameter.u), np.linspace(0.01, 0.99, 99)
    inside = (np.abs(parameter.u[:, None] - 0.5) <= mass / 2).mean(0)
    low, high = (stats.binom.ppf(q, n, mass) / n - mass for q in (0.025, 0.975))
    axis.fill_between(100 * mass, 100 * low, 100 * high, color=GREY, alpha=0.25, lw=0)
    axis.plot(100 * mass, 100 * (inside - mass), lw=1.2, color=BLUE)
    axis.axhline(0, color=GREY, lw=0.8)
    axis.set_xlim(0, 100)
    axis.set_title(f"z: mean {parameter.z_mean:.2f}, sd {parameter.z_sd:.2f}", fontsize=NORMAL)
    axis.set_xlabel("mass of the central interval, %", fontsize=SMALL)
    axis.set_ylabel("coverage - mass, %", fontsize=SMALL)
