r"""What quiet places alone tell of counted light, without a network.

Detectors that count have white noise, and texture is weakest at the highest frequencies: the law of
patch powers (`quiet_law`) at |k| > 0.5 tells the line gain · l + c to a few per cent even where all
places have texture. Below, a power in excess of white noise is texture if it scatters from place to
place, κ, and noise of its own spectrum if it does not. The network's score is not heard: few counts
are skewed, it keeps the brightest of them, and would find less noise by up to a half.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gibbsdiff.inference.periodograms import band_powers, patches
from gibbsdiff.inference.quiet_law import fit
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.quiet_start import start_of
from gibbsdiff.inference.quiet_verdict import FEWEST
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, BY_COUNTS
from gibbsdiff.noise.stationary import StationaryNoise

SIDE = 32  # of patches
EDGES = (0.2, 0.25, 0.32, 0.4, 0.5, 0.6, 0.72)  # in |k|, of groups of modes
TOP = 0.5  # |k| above which texture spoils least
EQUAL = 0.05  # excess over that, in log power, up to which a group is taken for noise as well
OVER = 0.14  # |k| above which noise is judged white or not
#: Excess over white noise, in log power, that is texture where powers scatter by κ: at least, and
#: for each unit of κ. Texture of photographs has 4 to 6 κ; noise with a spectrum 20 and more.
TEXTURE = (0.15, 7.0)
LEAST_SD = 0.05  # of log power: what the law itself is off by


def line_over_curve(y: Tensor, usable: Tensor) -> float:
    """By how much log p is higher if the level of the noise in y (1, C, H, W) goes with brightness
    as counts do, rather than as in photographs: by the law of the highest frequencies.
    """
    y = y.detach().double().cpu()
    found = patches(y, usable.cpu(), SIDE)
    if found.powers.shape[1] < FEWEST:
        return -math.inf
    e, _, nu = band_powers(found, (EDGES[EDGES.index(TOP) :],))
    light = Light.of(brightness(y), usable.cpu()).whole
    forms = (BY_COUNTS.on(light), BY_BRIGHTNESS)
    by_counts, by_brightness = (fit(e, nu, found.light, form=form).log_p for form in forms)
    return by_counts - by_brightness


def is_white(quiet: Quiet) -> bool:
    """Whether what is above the level of the highest frequencies may all be texture."""
    luma, k = quiet.power[0].clamp(min=1e-30).log(), quiet.k
    top = luma[k > TOP].mean()
    for band in quiet.band[k > OVER].unique():
        here = quiet.band == band
        excess, kappa = float((luma[here] - top).mean()), float(quiet.uneven[0, here].mean())
        if excess > TEXTURE[0] + TEXTURE[1] * kappa:
            return False
    return True


def told_by_quiet_places(
    noise: StationaryNoise, y: Tensor, hidden: Tensor | None, quiet: Quiet
) -> tuple[Tensor, Tensor] | None:
    """φ (1, d) of counted light in y (1, C, H, W), and its covariance; None if y is too small.

    Arguments:
        hidden: (H, W), pixels that say nothing.
    """
    if len(noise.names) > 2:
        return spectrum_by_quiet_places(noise, quiet)
    usable = torch.ones(y.shape[-2:], dtype=torch.bool) if hidden is None else ~hidden
    found = patches(y.detach().double().cpu(), usable.cpu(), SIDE)
    if found.powers.shape[1] < FEWEST:
        return None
    e, _, nu = band_powers(found, (_clean_edges(quiet),))
    law = fit(e, nu, found.light, form=quiet.form)
    # θ is the power at log g = 0 without its constant; σ² is the mean over the picture.
    light = Light.of(brightness(y.double()), usable).whole
    log_g2 = 2 * quiet.form.log_level(law.curve[None], light[None])[0]
    log_power = law.log_theta.mean() + torch.logsumexp(log_g2, -1) - math.log(len(light))
    sd = torch.hypot(law.sd.square().mean().sqrt(), torch.tensor(LEAST_SD).double()) / 2
    sigma = torch.exp(0.5 * log_power)
    curve_sd = law.covariance.diagonal().clamp(min=0).sqrt()
    phi = torch.stack([sigma, law.curve[0]])[None]
    spread = torch.stack([sigma * sd, curve_sd[0].clamp(min=quiet.form.quiet_sd[0])])
    return noise.check(phi.clamp(noise.low, noise.high)), torch.diag(spread.square())[None]


def _clean_edges(quiet: Quiet) -> tuple[float, ...]:
    """The edges of the groups down to the first that has more power than the highest ones."""
    luma = quiet.power[0].clamp(min=1e-30).log()
    top, first = luma[quiet.k > TOP].mean(), EDGES.index(TOP)
    while first > 0:
        here = (quiet.k >= EDGES[first - 1]) & (quiet.k < EDGES[first])
        if bool(here.any()) and float((luma[here] - top).max()) > EQUAL:
            break
        first -= 1
    return EDGES[first:]


def spectrum_by_quiet_places(noise: StationaryNoise, quiet: Quiet) -> tuple[Tensor, Tensor]:
    """The same of noise with a spectrum: the mode of quiet places' powers and the prior, and the
    inverse of their information.
    """
    phi = start_of(noise, quiet)
    statistic = quiet.statistic(noise.spectra)
    columns = torch.func.jacfwd(lambda p: noise.log_spectra(statistic.k, p))(phi[0])
    modes = 0.5 * statistic.modes[0]
    information = torch.einsum("rm,rmi,rmj->ij", modes, columns, columns)
    information = information + noise.prior_curvature()
    for name, sd in zip(noise.level_names, quiet.level_sd.tolist(), strict=False):
        i = noise.names.index(name)
        information[i, i] += sd**-2
    floor = 1e-6 * torch.diag((noise.high - noise.low) ** -2)
    return phi, torch.linalg.inv(information + floor)[None]
