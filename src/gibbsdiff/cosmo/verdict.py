"""What the mocks of `gibbsdiff cmb check` say together: bars, a table, a figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gibbsdiff.cosmo.bands import LEAST, Spectra, bands
from gibbsdiff.cosmo.check import Record
from gibbsdiff.evidence.calibration.ranks import LEVELS, coverage
from gibbsdiff.inference.posterior import ESS, RHAT
from gibbsdiff.plots.style import BLUE, GREY, INK, NORMAL, SMALL, VERMILION, label, tidy

MOCKS = 20  # fewer prove nothing
FAR, SHARE, WIDE = 3.0, 0.85, 1.5  # |z|, in 17 of 20; sd over that of Gaussian dust


@dataclass(frozen=True)
class Bar:
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


def bars(records: Sequence[Record], chains: bool) -> list[Bar]:
    """What must hold for all three parameters of a mock. Draws of the marginal method are
    independent by construction: convergence is then that of its search.
    """
    n = len(records)
    near = sum(all(abs(z) <= FAR for z in r.z) for r in records)
    narrow = sum(all(w <= WIDE for w in r.width) for r in records)
    out = [
        Bar(f"|z| ≤ {FAR:g}", near, n, int(np.ceil(SHARE * n - 1e-9))),
        Bar(f"sd ≤ {WIDE:g} × that of Gaussian dust", narrow, n, n),
        Bar("the search for the mode ended", sum(r.found for r in records), n, n),
    ]
    if chains:
        # Written so that NaN fails.
        mixed = sum(all(v <= RHAT for v in r.rhat) for r in records)
        many = sum(all(v >= ESS for v in r.ess) for r in records)
        out += [Bar(f"R-hat ≤ {RHAT:g}", mixed, n, n), Bar(f"ESS ≥ {ESS:g}", many, n, n)]
    return out


def verdict(records: Sequence[Record], chains: bool) -> str:
    """One line: what fails comes first."""
    failed = [str(bar) for bar in bars(records, chains) if not bar.held]
    if failed:
        return "NOT PASSED: " + "; ".join(failed)
    if len(records) < MOCKS:
        return f"INCONCLUSIVE: all bars hold, but {len(records)} mocks are fewer than {MOCKS}"
    return f"passed: all bars hold for {len(records)} mocks, which cannot see a small bias"


def summary(records: Sequence[Record], names: Sequence[str], chains: bool) -> dict[str, Any]:
    """Everything as plain data."""
    parameters = {}
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
            "worst R-hat": max((r.rhat[i] for r in records), key=_nan_last),
            "least ESS": min((r.ess[i] for r in records), key=lambda v: -_nan_last(-v)),
        }
    decibels = {
        name: statistics.fmean(getattr(r, f"mse_{name}") for r in records)
        for name in ("mean", "told", "wiener")
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
        "verdict": verdict(records, chains),
        "bars": [vars(bar) | {"held": bar.held} for bar in bars(records, chains)],
        "parameters": parameters,
        "dust MSE, dB below 1": decibels,
        "bands": spectra,
        "cost of a mock": cost,
    }


def _nan_last(value: float) -> float:
    return float("inf") if np.isnan(value) else value


def markdown(records: Sequence[Record], names: Sequence[str], chains: bool, heading: str) -> str:
    """The verdict, the bars, a row for each parameter and one for each mock."""
    s = summary(records, names, chains)
    marks = [f"- {'holds' if bar.held else 'FAILS'}: {bar}" for bar in bars(records, chains)]
    masses = " | ".join(f"{100 * level:g} %" for level in LEVELS)
    rows = [
        f"| parameter | mean z | sd z | largest abs z | {masses} | median width | largest | "
        "worst R-hat | least ESS |",
        "| --- |" + " ---: |" * (7 + len(LEVELS)),
    ]
    for name, p in s["parameters"].items():
        covered = " | ".join(f"{100 * c:.0f}" for c in p["coverage"].values())
        spread = "" if p["sd z"] is None else f"{p['sd z']:.2f}"
        rows.append(
            f"| {name} | {p['mean z']:+.2f} | {spread} | {p['largest |z|']:.2f} | {covered} | "
            f"{p['median width']:.2f} | {p['largest width']:.2f} | {p['worst R-hat']:.3f} | "
            f"{p['least ESS']:.0f} |"
        )
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
            "z is (truth - mean)/sd; width is the sd over that of Gaussian dust at the same truth, "
            "in the same prior box; % are coverages of central intervals.",
            "",
            f"Dust MSE, dB below its variance: posterior mean {db['mean']:.2f}, D told the truth "
            f"{db['told']:.2f}, Wiener filter told the truth {db['wiener']:.2f}.",
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


def _mocks(records: Sequence[Record], names: Sequence[str]) -> list[str]:
    heads = " | ".join(f"{n} | mean | sd | z | width" for n in names)
    rows = [
        f"| mock | {heads} | R-hat | ESS | draws | gain dB | dust bands | CMB bands |",
        "| ---: |" + " ---: |" * (5 * len(names) + 6),
    ]
    for r in records:
        cells = " | ".join(
            f"{t:.4g} | {m:.4g} | {s:.2g} | {z:+.2f} | {w:.2f}"
            for t, m, s, z, w in zip(r.truth, r.mean, r.sd, r.z, r.width, strict=True)
        )
        rows.append(
            f"| {r.mock} | {cells} | {max(r.rhat, key=_nan_last):.3f} | {min(r.ess):.0f} | "
            f"{r.iterations} | {r.mse_mean - r.mse_wiener:+.2f} | {100 * r.dust.either:.0f} % | "
            f"{100 * r.cmb.either:.0f} % |"
        )
    return rows


def figure(
    records: Sequence[Record], names: Sequence[str], chains: bool, size: int, title: str = ""
) -> Figure:
    """Posteriors against truths and z above; widths, gain and spectra below."""
    page = Figure(figsize=(13.0, 6.6), layout="constrained")
    axes = page.subplots(2, 4)
    truth, mean, sd = (np.array([getattr(r, k) for r in records]) for k in ("truth", "mean", "sd"))
    for i, name in enumerate(names):
        axes[0, i].errorbar(
            truth[:, i], mean[:, i] - truth[:, i], sd[:, i], fmt="o", ms=3, lw=0.8, color=BLUE
        )
        axes[0, i].axhline(0, color=GREY, lw=0.8)
        _named(axes[0, i], f"true {label(name)}", f"mean - true {label(name)}")
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
    for key, text, mark in (("told", "D told the truth", "s"), ("mean", "posterior mean", "o")):
        gain = [getattr(r, f"mse_{key}") - r.mse_wiener for r in records]
        axes[1, 1].plot(sigma, gain, mark, ms=3.5, label=text)
    axes[1, 1].axhline(0, color=GREY, lw=0.8)
    axes[1, 1].legend(fontsize=SMALL, frameon=False)
    _named(axes[1, 1], "true $\\sigma$", "dB above Wiener told the truth")
    k = bands((size, size)).k.k.numpy()[1:]
    for axis, key in zip(axes[1, 2:], ("dust", "cmb"), strict=True):
        _spectra(axis, k, [getattr(r, key) for r in records], key)
    colour = INK if verdict(records, chains).startswith("passed") else VERMILION
    page.suptitle(f"{title}\n{verdict(records, chains)}", fontsize=NORMAL, color=colour)
    return page


def _spectra(axis: Axes, k: Any, spectra: Sequence[Spectra], name: str) -> None:
    for s in spectra:
        axis.plot(k, s.ratio, color=BLUE, lw=0.6, alpha=0.5)
    axis.axhspan(0.95, 1.05, color=GREY, alpha=0.25, lw=0)
    axis.set_xscale("log")
    axis.set_ylim(0.5, 1.5)
    _named(axis, "$|k|$, cycles per pixel", f"power of {name} samples over the truth's")


def _named(axis: Axes, x: str, y: str) -> None:
    tidy(axis)
    axis.set_xlabel(x, fontsize=SMALL)
    axis.set_ylabel(y, fontsize=SMALL)
