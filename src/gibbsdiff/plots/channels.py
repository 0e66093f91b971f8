"""The spectrum of the noise that was found, a panel for each opponent channel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from gibbsdiff.fourier import power, to_opponent
from gibbsdiff.inference.model_check import channel_names
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.plots.arithmetic import radial_average, spectrum_bins
from gibbsdiff.plots.pages import save
from gibbsdiff.plots.pictures import filled
from gibbsdiff.plots.style import GREY, INK, NORMAL, SMALL, VERMILION, tidy

#: Of the interval around the noise.
BAND = "#d0d0d0"


def channel_spectra(posterior: Posterior, path: str | Path | None = None) -> Figure:
    """Amplitude √N(k) of the noise against |k|, beside that of y and of what was taken away, in the
    input's units: white noise of sd s is a level line at s. A band has 95 % of the posterior of N.
    """
    y, bins = to_opponent(filled(posterior)[None])[0], spectrum_bins(*posterior.mean.shape[-2:])
    residual = y - to_opponent(posterior.mean[None])[0]
    k = bins.k.k.numpy()[1:]
    names = channel_names(len(y))
    page = Figure(figsize=(0.6 + 2.9 * len(y), 2.7))
    page.set_layout_engine("constrained")
    axes = page.subplots(1, len(y), sharey=True, squeeze=False)[0]
    N = posterior.noise_power
    for i, axis in enumerate(axes):
        shown = [("observed y", power(y[i]), GREY, "-"), ("taken away", power(residual[i]),
                  VERMILION, (0, (5, 1.5)))]  # fmt: skip
        if N is not None:
            shown.append(("noise found", N[min(i, len(N) - 1)].double(), INK, "-"))
        for text, values, colour, dashes in shown:
            mean = radial_average(values.double(), bins).clamp(min=0).numpy()[1:]
            level = posterior.unit * np.sqrt(np.where(mean > 0, mean, np.nan))
            axis.plot(k, level, label=text, color=colour, linewidth=1.2, linestyle=dashes)
        if (curves := posterior.curves) is not None:
            ends = (posterior.unit * e[i].sqrt().numpy() for e in curves.interval())
            axis.fill_between(curves.k.numpy(), *ends, color=BAND, linewidth=0, zorder=0)
        axis.set_xscale("log")
        axis.set_yscale("log")
        tidy(axis)
        axis.tick_params(which="minor", labelsize=SMALL, length=1.5)
        axis.set_title(names[i] or "all channels", fontsize=NORMAL)
        axis.set_xlabel("|k| [cycles per pixel]", fontsize=NORMAL)
    own = "" if posterior.unit == 1 else " [input's units]"
    axes[0].set_ylabel(f"amplitude{own}", fontsize=NORMAL)
    axes[0].legend(fontsize=SMALL, frameon=False)
    if path is not None:
        save(page, path)
    return page
