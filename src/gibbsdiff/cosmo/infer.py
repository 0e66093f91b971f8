"""p(dust, σ, H0, ω_b | y): the marginal method, then Gibbs from over-dispersed starts."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from gibbsdiff.checks import InputError
from gibbsdiff.cosmo.gaussian import fisher
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.cosmo.moment_start import MomentStart, read_moments
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import Wavevectors, power
from gibbsdiff.inference.marginal import Marginal, Mode
from gibbsdiff.inference.pipeline import Options, by_gibbs, by_marginal
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.search import at_least
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.pretrained import available, find, load_model, read_card
from gibbsdiff.streams import Streams

CANDIDATES = 4096
SIDES = (128, 256)
MOMENTS = ".moments.npz"  # ending of a model's moment network
FLOOR = 0.02  # the least σ that networks were trained on: the last step starts there


@dataclass(frozen=True)
class DustModel:
    """A denoiser of dust maps of one side, its card, and the moment network that belongs to it."""

    denoiser: SpectralDenoiser
    card: dict[str, Any]
    moments: MomentStart | None = None

    @property
    def side(self) -> int:
        """Pixels of a side of the maps that it knows."""
        return int(self.card["maps"]["side"])


def dust_model(side: int, path: str | Path | None = None) -> DustModel:
    """The model for maps of this side: a file, or the shipped one. Its moment network, if it has
    one, lies beside it: NAME.moments.npz for NAME.safetensors.
    """
    name = path if path is not None else f"dust{side}"
    if path is None and name not in available():
        known = [str(s) for s in SIDES if f"dust{s}" in available()]
        told = f"there are models for maps of side {' and '.join(known)}" if known else "give one"
        raise InputError(f"no model of dust of side {side} comes with the package: {told}")
    model, card = load_model(name), read_card(name)
    if "maps" not in card:
        raise InputError(f"{name}: not a model of dust maps")
    beside = find(name).with_suffix(MOMENTS)
    moments = read_moments(beside) if beside.is_file() else None
    found = DustModel(model, card, moments)
    if found.side != side:
        raise InputError(f"{name}: knows maps of side {found.side}, not {side}")
    if moments is not None and moments.side != side:
        raise InputError(f"{beside}: knows maps of side {moments.side}, not {side}")
    return found


def start_of(
    y: Tensor,
    signal: Signal,
    noise: StationaryNoise,
    moments: MomentStart | None = None,
    seed: int = 0,
) -> Tensor:
    """Where the search for the mode starts, (1, d): E[φ | y] by a moment network that was trained
    for this noise and its prior, or the best of many prior draws.
    """
    if moments is not None and moments.fits(noise):
        return moments.start(y)
    return gaussian_start(y, signal, noise, seed)


def gaussian_start(y: Tensor, signal: Signal, noise: StationaryNoise, seed: int = 0) -> Tensor:
    """The best of many prior draws by the evidence of Gaussian dust, y ~ N(0, S_x + N_φ),
    eq. (10), in bins of |k|: (1, d). No network is called.
    """
    shape = (y.shape[-2], y.shape[-1])
    grouping = noise.grouping(shape)
    k: Wavevectors = grouping.k
    P = grouping.sum(power(y.double() - signal.mean)[:, 0])
    S_x = grouping.sum(signal.power(shape)[:, 0]) / k.weight
    u = Streams(seed, [(0, 0)]).uniform(CANDIDATES, len(noise.parameters))[0]
    phi = noise.low + u * (noise.high - noise.low)
    T = S_x + torch.exp(noise.log_power(k, phi))
    evidence = -0.5 * (k.weight * torch.log(T) + P / T).sum(-1)
    return phi[evidence.argmax()][None]


def climb(marginal: Marginal, start: Tensor, signal: Signal) -> Mode:
    """The mode of p(φ | y), with at least a quarter of the information that Gaussian dust leaves.

    Of all dust with one spectrum the Gaussian hides the CMB best. Differences of a network's
    scores may say much less by mistake, and a step along H⁻¹ could then go anywhere. Single maps
    honestly say somewhat less than the average: hence a quarter.
    """
    mode = marginal.mode(start)
    least = [fisher(phi, signal, marginal.noise, marginal.shape) for phi in mode.phi]
    H = at_least(torch.linalg.inv(mode.covariance), torch.stack(least) / 4)
    return replace(mode, covariance=torch.linalg.inv(H))


def centre_of(
    y: Tensor, mode: Mode, noise: StationaryNoise, moments: MomentStart | None = None
) -> tuple[Tensor, Tensor]:
    """What chains start around: the mean (B, d) and the covariance (B, d, d) of the moment network,
    which knows the prior's walls, or those of the mode.
    """
    if moments is not None and moments.fits(noise):
        return moments.start(y), moments.covariance(y)
    return mode.phi, mode.covariance


def infer(
    mixture: Mixture,
    denoiser: SpectralDenoiser | GaussianDenoiser,
    noise: StationaryNoise,
    options: Options,
    moments: MomentStart | None = None,
) -> Posterior:
    """The joint posterior of one mixture; "gibbs", the default, or the marginal method alone.

    The patch is periodic, and both methods see all of y - x. The search for the mode, and the
    chains around it, start where `moments` says, if it is given.
    """
    begun = time.perf_counter()
    y = mixture.y[None]
    marginal = Marginal(y, noise, denoiser, seed=options.seed)
    sampler = partial(few_step, calls=options.calls, floor=FLOOR)
    status = Console(stderr=True).status("searching for the mode of p(σ, H0, ω_b | y)")
    if options.progress:
        status.start()
    try:
        start = start_of(y, denoiser.signal, noise, moments, options.seed)
        mode = climb(marginal, start, denoiser.signal)
        if options.method == "marginal":
            once = replace(options, second_stage=False)
            result = by_marginal(marginal, mode, sampler, once)
    finally:
        status.stop()
    if options.method != "marginal":
        around = centre_of(y, mode, noise, moments)
        result = by_gibbs(marginal, mode, options, sampler, around)
    seconds = time.perf_counter() - begun
    return replace(result, seconds=seconds, unit=mixture.unit, truth=mixture.truth)
