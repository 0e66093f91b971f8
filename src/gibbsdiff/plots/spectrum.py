"""The residual's spectrum against the noise's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray
from scipy.stats import chi2
from torch import Tensor

from gibbsdiff.fourier import Grouping
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.plots.arithmetic import radial_average, radial_power, spectrum_bins
from gibbsdiff.plots.pictures import filled
from gibbsdiff.plots.style import BLUE, GREY, INK, NORMAL, SMALL, VERMILION, tidy

#: Draws of φ used for the band of N_φ.
BAND_DRAWS = 200
Array = NDArray[Any]


def residual_spectrum(axis: Axes, posterior: Posterior, noise: NoiseModel | None = None) -> None:
    """Radially averaged power of y, y - E[x | y] and y - x against N_φ, per mode and channel.

    y - x for a draw x has the power of the noise; y - E[x | y] has less where the mean cannot
    tell the signal from noise, by N² / (S_x + N) against N for a Gaussian x. With the `noise`
    model the 90 % band of N_φ over draws of φ is shown too.
    """
    y, bins = filled(posterior), spectrum_bins(*posterior.mean.shape[-2:])
    k = bins.k.k.numpy()[1:]
    scale = posterior.unit**2
    observed = 1.0
    if posterior.missing is not None:
        # Residuals are zero where nothing was observed: give the power per observed pixel.
        observed = max(1 - float(posterior.missing.double().mean()), 1e-12)
    _expected(axis, k, posterior, noise, bins)
    _line(axis, k, radial_power(y, bins) * scale, "observed y", color=GREY, linewidth=1.0)
    if posterior.samples is not None and len(posterior.samples):
        values = radial_power(y - posterior.samples[0], bins) * scale / observed
        _line(axis, k, values, "y − sample: power of the noise", color=BLUE, linewidth=1.3)
    values = radial_power(y - posterior.mean, bins) * scale / observed
    text = "y − mean: less than the noise, as\nthe mean takes part of it for signal"
    _line(axis, k, values, text, color=VERMILION, linewidth=1.3, linestyle=(0, (5, 1.5)))
    axis.set_xscale("log")
    axis.set_yscale("log")
    if not any(np.isfinite(line.get_ydata()).any() for line in axis.get_lines()):
        axis.set_ylim(1e-6, 1)
    axis.set_xlim(0.9 * k[0], 1.1 * k[-1])
    tidy(axis)
    axis.tick_params(which="minor", length=1.5, width=0.4, labelsize=SMALL)
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel(r"$|k|$ [cycles per pixel]", fontsize=NORMAL)
    own = "" if posterior.unit == 1 else " [input's units²]"
    axis.set_ylabel(f"power per mode{own}", fontsize=NORMAL)
    axis.legend(fontsize=SMALL, frameon=False, loc="best")


def _expected(
    axis: Axes, k: Array, posterior: Posterior, noise: NoiseModel | None, bins: Grouping
) -> None:
    """N_φ, its band over draws of φ, and the scatter that noise of this power would show."""
    scale = posterior.unit**2
    band = None if noise is None else _band(posterior, noise, bins)
    if posterior.noise_power is not None:
        mean = radial_average(posterior.noise_power.mean(0), bins)
    elif band is not None:
        mean = band[1]
    else:
        return
    centre = (mean * scale).numpy()[1:]
    # Σ w |ε̂|²/N over a bin and C channels is χ² with as many degrees as modes.
    degrees = len(posterior.mean) * bins.k.weight.numpy()[1:]
    low, high = (centre * chi2.ppf(q, degrees) / degrees for q in (0.05, 0.95))
    if (centre > 0).all():
        text = "90 % of such noise"
        axis.fill_between(k, low, high, color="#d0d0d0", linewidth=0, label=text, zorder=0)
    if band is not None:
        low, high = ((b * scale).numpy()[1:] for b in (band[0], band[2]))
        text = r"$N_\varphi$, 90 % of draws"
        axis.fill_between(k, low, high, color="#f0e442", linewidth=0, label=text, zorder=1)
    source = "as given" if posterior.noise_is_known else "posterior mean"
    _line(axis, k, mean * scale, rf"$N_\varphi$, {source}", color=INK, linewidth=1.0)


def _band(posterior: Posterior, noise: NoiseModel, bins: Grouping) -> Tensor | None:
    """5 %, mean and 95 % of N_φ in every bin, (3, bins), for isotropic families."""
    if not isinstance(noise, StationaryNoise) or not noise.isotropic:
        return None
    draws = posterior.phi.flatten(0, 1).double()
    draws = draws[:: max(1, len(draws) // BAND_DRAWS)]
    values = torch.exp(noise.log_spectra(bins.k, draws)).mean(-2)
    ends = torch.quantile(values, torch.tensor([0.05, 0.95], dtype=torch.float64), dim=0)
    return torch.stack([ends[0], values.mean(0), ends[1]])


def _line(axis: Axes, k: Array, values: Tensor, text: str, **style: Any) -> None:
    """A line without k = 0, broken where there is no power: a logarithm has no place for it."""
    power = values.double().numpy()[1:]
    axis.plot(k, np.where(power > 0, power, np.nan), label=text, **style)
