"""What the mocks of `gibbsdiff cmb check` say together: requirements, a table, a figure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gibbsdiff.cosmo.bands import LEAST, BandSpectra, bands
from gibbsdiff.cosmo.check import MockRecord
from gibbsdiff.evidence.calibration.ranks import LEVELS, coverage
from gibbsdiff.inference.summary import ESS, RHAT
from gibbsdiff.plots.style import BLUE, GREY, INK, NORMAL, SMALL, VERMILION, WIDE_LINE, label, tidy

MOCKS = 20  # fewer prove nothing
FAR, SHARE, WIDE = 3.0, 0.85, 1.5  # |z|, in 17 of 20; sd over that of Gaussian dust


@dataclass(frozen=True)
class Requirement:
    """How many mocks pass, of how many, and how many must."""

    what: str
    passed: int
    mocks: int
    needed: int

    @property
    def held(self) -> bool:
        """Whether enough of them pass."""
        return self.passed >= self.needed

    def __str__(self) -> str:
        return f"{self.what}: {self.passed} of {self.mocks} mocks, {self.needed} needed"


def requirements(records: Sequence[MockRecord]) -> list[Requirement]:
    """What must hold for all three parameters of a mock. Chains must converge; draws of the
    marginal method are independent, and its search must end.
    """
    n = len(records)
    near = sum(all(abs(z) <= FAR for z in r.z) for r in records)
    narrow = sum(all(w <= WIDE for w in r.width) for r in records)
    out = [
        Requirement(f"|z| ≤ {FAR:g}", near, n, int(np.ceil(SHARE * n - 1e-9))),
        Requirement(f"sd ≤ {WIDE:g} × that of Gaussian dust", narrow, n, n),
    ]
    if not _of_chains(records):
        ended = sum(r.ended for r in records)
        return [*out, Requirement("the search for the mode ended", ended, n, n)]
    # Written so that NaN fails.
    mixed = sum(all(v <= RHAT for v in r.rhat or [math.nan]) for r in records)
    many = sum(all(v >= ESS for v in r.ess or [math.nan]) for r in records)
    out.append(Requirement(f"R-hat ≤ {RHAT:g}", mixed, n, n))
    return [*out, Requirement(f"ESS ≥ {ESS:g}", many, n, n)]


def verdict(records: Sequence[MockRecord]) -> str:
    """One line: what fails comes first."""
    failed = [str(one) for one in requirements(records) if not one.held]
    if failed:
        return "NOT PASSED: " + "; ".join(failed)
    if len(records) < MOCKS:
        return f"INCONCLUSIVE: all of it holds, but {len(records)} mocks are fewer than {MOCKS}"
    return f"passed: all of it holds for {len(records)} mocks, which cannot see a small bias"


def summary(records: Sequence[MockRecord], names: Sequence[str]) -> dict[str, Any]:
    """Everything as plain data."""
    parameters: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(names):
        z = [r.z[i] for r in records]
        parameters[name] = {
            "mean z": statistics.fmean(z),
            "sd z": statistics.stdev(z) if len(z) > 1 else None,
            "largest |z|": max(map(abs, z)),
            "coverage": dict(
                zip(map(str, LEVELS), coverage(np.array([r.u[i] for r in records])), strict=True)
            ),
            "median width": statistics.median(r.width[i] for r in records),
            "largest width": max(r.width[i] for r in records),
            "median sd given the network / sd": statistics.median(
                r.sd[i] / r.total_sd[i] for r in records
            ),
        }
        if _of_chains(records):
            rhat, ess = ([v[i] for v in column if v] for column in _diagnostics(records))
            parameters[name] |= {"worst R-hat": max(rhat, key=_nan_last)}
            parameters[name] |= {"least ESS": min(ess, key=lambda v: -_nan_last(-v))}
    decibels = {
        name: statistics.fmean(getattr(r, f"mse_{name}") for r in records)
        for name in ("mean", "known", "wiener")
    }
    spectra = {
        name: {
            key: statistics.fmean(getattr(getattr(r, name), key) for r in records)
            for key in ("near", "within", "either")
        }
        for name in ("dust", "cmb")
    }
    cost = {k: statistics.fmean(getattr(r, k) for r in records) for k in ("calls", "seconds")}
    return {
        "verdict": verdict(records),
        "requirements": [vars(one) | {"held": one.held} for one in requirements(records)],
        "parameters": parameters,
        "dust MSE, dB below 1": decibels,
        "bands": spectra,
        "cost of a mock": cost,
    }


def _of_chains(records: Sequence[MockRecord]) -> bool:
    return records[0].rhat is not None


def _diagnostics(records: Sequence[MockRecord]) -> tuple[list[Any], list[Any]]:
    return [r.rhat for r in records], [r.ess for r in records]


def _nan_last(value: float) -> float:
    return float("inf") if np.isnan(value) else value


def markdown(records: Sequence[MockRecord], names: Sequence[str], heading: str) -> str:
    """The verdict, the requirements, a row for each parameter and one for each mock."""
    s, chains = summary(records, names), _of_chains(records)
    marks = [f"- {'holds' if one.held else 'FAILS'}: {one}" for one in requirements(records)]
    masses = " | ".join(f"{100 * level:g} %" for level in LEVELS)
    more = " worst R-hat | least ESS |" if chains else ""
    rows = [
        f"| parameter | mean z | sd z | largest abs z | {masses} | median width | largest | "
        f"sd given the network / sd |{more}",
        "| --- |" + " ---: |" * (6 + len(LEVELS) + 2 * chains),
    ]
    for name, p in s["parameters"].items():
        covered = " | ".join(f"{100 * c:.0f}" for c in p["coverage"].values())
        spread = "" if p["sd z"] is None else f"{p['sd z']:.2f}"
        row = (
            f"| {name} | {p['mean z']:+.2f} | {spread} | {p['largest |z|']:.2f} | {covered} | "
            f"{p['median width']:.2f} | {p['largest width']:.2f} | "
            f"{p['median sd given the network / sd']:.2f} |"
        )
        rows.append(row + (f" {p['worst R-hat']:.3f} | {p['least ESS']:.0f} |" if chains else ""))
    db, cost = s["dust MSE, dB below 1"], s["cost of a mock"]
    spectra = [
        f"- {name}: {100 * v['near']:.0f} % of bands within 5 % of the truth's power, "
        f"{100 * v['within']:.0f} % within 2 posterior sd, {100 * v['either']:.0f} % either"
        for name, v in s["bands"].items()
    ]
    return "\n".join(
        [
            heading,
            "",
            f"**{s['verdict']}**",
            "",
            *marks,
            "",
            *rows,
            "",
            "The sd has the network's own error in it, eq. (12); z is (truth - mean)/sd; width is "
            "the sd over that of Gaussian dust at the same truth, in the same prior box; % are "
            "coverages of central intervals.",
            "",
            f"Dust MSE, dB below its variance: posterior mean {db['mean']:.2f}, D given the truth "
            f"{db['known']:.2f}, Wiener filter given the truth {db['wiener']:.2f}.",
            "",
            f"Spectra of posterior samples, in bands of at least {LEAST} modes:",
            "",
            *spectra,
            "",
            f"{len({r.source for r in records})} different maps of dust; for a mock "
            f"{cost['calls']:.0f} network calls and {cost['seconds']:.0f} s.",
            "",
            *_mocks(records, names),
            "",
        ]
    )


def _mocks(records: Sequence[MockRecord], names: Sequence[str]) -> list[str]:
    chains = _of_chains(records)
    heads = " | ".join(f"{n} | mean | given the network | sd | z | width" for n in names)
    more = " R-hat | ESS |" if chains else ""
    rows = [
        f"| mock | {heads} |{more} draws | gain dB | dust bands | CMB bands |",
        "| ---: |" + " ---: |" * (6 * len(names) + 4 + 2 * chains),
    ]
    for r in records:
        columns = zip(r.truth, r.mean, r.sd, r.total_sd, r.z, r.width, strict=True)
        cells = " | ".join(
            f"{t:.4g} | {m:.4g} | {raw:.2g} | {s:.2g} | {z:+.2f} | {w:.2f}"
            for t, m, raw, s, z, w in columns
        )
        mixed = ""
        if r.rhat and r.ess:
            mixed = f" {max(r.rhat, key=_nan_last):.3f} | {min(r.ess):.0f} |"
        rows.append(
            f"| {r.mock} | {cells} |{mixed} {r.draws} | {r.mse_mean - r.mse_wiener:+.2f} | "
            f"{100 * r.dust.either:.0f} % | {100 * r.cmb.either:.0f} % |"
        )
    return rows


def check_figure(
    records: Sequence[MockRecord], names: Sequence[str], size: int, title: str = ""
) -> Figure:
    """Posteriors against truths, with both standard deviations, and z above; widths, gain and
    spectra below.
    """
    page = Figure(figsize=(13.0, 6.6), layout="constrained")
    axes = page.subplots(2, 4)
    truth, mean, sd, total = (
        np.array([getattr(r, k) for r in records]) for k in ("truth", "mean", "sd", "total_sd")
    )
    for i, name in enumerate(names):
        off = mean[:, i] - truth[:, i]
        axes[0, i].errorbar(truth[:, i], off, total[:, i], fmt="none", lw=1.0, capsize=2,
                            ecolor=WIDE_LINE, label="with the network's own error")  # fmt: skip
        axes[0, i].errorbar(truth[:, i], off, sd[:, i], fmt="o", ms=3, lw=1.6, color=BLUE,
                            label="given the network")  # fmt: skip
        axes[0, i].axhline(0, color=GREY, lw=0.8)
        _named(axes[0, i], f"true {label(name)}", f"mean - true {label(name)}")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low, high + 0.2 * (high - low))
    axes[0, 0].legend(fontsize=SMALL, frameon=False, loc="upper left")
    sigma = truth[:, 0]
    for i, name in enumerate(names):
        axes[0, 3].plot(sigma, [r.z[i] for r in records], "os^"[i], ms=3.5, label=label(name))
        axes[1, 0].plot(sigma, [r.width[i] for r in records], "os^"[i], ms=3.5, label=label(name))
    axes[0, 3].axhspan(-FAR, FAR, color=GREY, alpha=0.2, lw=0)
    _named(axes[0, 3], "true $\\sigma$", "z = (true - mean)/sd")
    axes[1, 0].axhline(WIDE, color=VERMILION, lw=0.8)
    _named(axes[1, 0], "true $\\sigma$", "sd over that of Gaussian dust")
    for axis in (axes[0, 3], axes[1, 0]):
        axis.legend(fontsize=SMALL, frameon=False)
    for key, text, mark in (("known", "D given the truth", "s"), ("mean", "posterior mean", "o")):
        gain = [getattr(r, f"mse_{key}") - r.mse_wiener for r in records]
        axes[1, 1].plot(sigma, gain, mark, ms=3.5, label=text)
    axes[1, 1].axhline(0, color=GREY, lw=0.8)
    axes[1, 1].legend(fontsize=SMALL, frameon=False)
    _named(axes[1, 1], "true $\\sigma$", "dB above Wiener given the truth")
    k = bands((size, size)).k.k.numpy()[1:]
    for axis, key in zip(axes[1, 2:], ("dust", "cmb"), strict=True):
        _spectra(axis, k, [getattr(r, key) for r in records], key)
    colour = INK if verdict(records).startswith("passed") else VERMILION
    page.suptitle(f"{title}\n{verdict(records)}", fontsize=NORMAL, color=colour)
    return page


def _spectra(axis: Axes, k: Any, spectra: Sequence[BandSpectra], name: str) -> None:
    for s in spectra:
        axis.plot(k, s.ratio, color=BLUE, lw=0.6, alpha=0.5)
    axis.axhspan(0.95, 1.05, color=GREY, alpha=0.25, lw=0)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_ylim(0.5, 1.5)
    _named(axis, "$|k|$, cycles per pixel", f"power of {name} samples over the truth's")


def _named(axis: Axes, x: str, y: str) -> None:
    tidy(axis)
    axis.set_xlabel(x, fontsize=SMALL)
    axis.set_ylabel(y, fontsize=SMALL)
