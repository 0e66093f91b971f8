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
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import Wavevectors, power
from gibbsdiff.inference import Options, by_gibbs, by_marginal
from gibbsdiff.marginal import Marginal
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.posterior import Posterior
from gibbsdiff.pretrained import available, load_model, read_card
from gibbsdiff.streams import Streams

CANDIDATES = 4096
SIDES = (128, 256)
FLOOR = 0.02  # the least σ that networks were trained on: the last step starts there


@dataclass(frozen=True)
class DustModel:
    """A denoiser of dust maps of one side, and its card."""

    denoiser: SpectralDenoiser
    card: dict[str, Any]

    @property
    def side(self) -> int:
        """Pixels of a side of the maps that it knows."""
        return int(self.card["maps"]["side"])


def dust_model(side: int, path: str | Path | None = None) -> DustModel:
    """The model for maps of this side: a file, or the shipped one."""
    name = path if path is not None else f"dust{side}"
    if path is None and name not in available():
        known = [str(s) for s in SIDES if f"dust{s}" in available()]
        told = f"there are models for maps of side {' and '.join(known)}" if known else "give one"
        raise InputError(f"no model of dust of side {side} comes with the package: {told}")
    model, card = load_model(name), read_card(name)
    if "maps" not in card:
        raise InputError(f"{name}: not a model of dust maps")
    found = DustModel(model, card)
    if found.side != side:
        raise InputError(f"{name}: knows maps of side {found.side}, not {side}")
    return found


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


def infer(
    mixture: Mixture,
    denoiser: SpectralDenoiser | GaussianDenoiser,
    noise: StationaryNoise,
    options: Options,
) -> Posterior:
    """The joint posterior of one mixture; "gibbs", the default, or the marginal method alone.

    The patch is periodic, and both methods see all of y - x.
    """
    begun = time.perf_counter()
    y = mixture.y[None]
    marginal = Marginal(y, noise, denoiser, seed=options.seed)
    sampler = partial(few_step, calls=options.calls, floor=FLOOR)
    status = Console(stderr=True).status("searching for the mode of p(σ, H0, ω_b | y)")
    if options.progress:
        status.start()
    try:
        mode = marginal.mode(gaussian_start(y, denoiser.signal, noise, options.seed))
        if options.method == "marginal":
            if options.second_stage:
                mode = marginal.refine(mode, sampler, seed=options.seed)
            result = by_marginal(marginal, mode, sampler, options)
    finally:
        status.stop()
    if options.method != "marginal":
        result = by_gibbs(marginal, mode, options, sampler)
    seconds = time.perf_counter() - begun
    return replace(result, seconds=seconds, unit=mixture.unit, truth=mixture.truth)
