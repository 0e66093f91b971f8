r"""Memory under white noise beside memory under the CMB.

The paper finds models under the CMB "more prone to overfitting than models trained under white
noise". The two are compared where they are told equally much of the map: at the white σ where the
mean squared error of the white network's D, over the held-out maps, is that of the other's D under
its CMB.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import DustModel
from gibbsdiff.cosmo.memory import training_maps
from gibbsdiff.errors import InputError
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.families import WhiteNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams

HALVINGS = 12  # of the interval of log σ
FAMILY = "white"


def white_noise_of(found: DustModel, name: object) -> WhiteNoise:
    """White noise of all levels that the model was trained on; another model is refused."""
    law = found.card["config"]["noise"]
    if law["family"] != FAMILY:
        raise InputError(f"{name}: was not trained under white noise")
    if not found.denoiser.error_model:
        raise InputError(f"{name}: a network without an error model has no search for σ")
    low, high = law["level"]
    return WhiteNoise(sigma=(low, high))


def matched_sigma(
    found: DustModel,
    sigma: float,
    white: DustModel,
    path: str | Path,
    name: object = "the model under white noise",
    seed: int = 0,
) -> float:
    """The σ of white noise under which the mean squared error of D, over the held-out maps, is what
    it is for `found` under the CMB of `sigma` at the fiducial cosmology: by bisection in log σ.
    """
    noise, (known, _) = CMBNoise(), training_maps(found, path)
    if white.side != found.side:
        raise InputError(f"{name}: knows maps of side {white.side}, not {found.side}")
    fiducial = noise.emulator.fiducial.tolist()
    wanted = error_of(found, known.test, noise, (sigma, *fiducial), seed)
    own = white_noise_of(white, name)
    low, high = (math.log(float(end)) for end in (own.low, own.high))
    if not error_of(white, known.test, own, (math.exp(high),), seed) > wanted:
        raise InputError(f"{name}: at no level that it knows is its error {wanted:.3g}")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = error_of(white, known.test, own, (math.exp(middle),), seed) < wanted
        low, high = (middle, high) if less else (low, middle)
    return math.exp((low + high) / 2)


@torch.no_grad()
def error_of(
    found: DustModel, maps: Tensor, noise: StationaryNoise, phi: tuple[float, ...], seed: int
) -> float:
    """Mean squared error of D given φ over maps (n, 1, H, W); the noise is the same at every σ."""
    covariance = noise.covariance((maps.shape[-2], maps.shape[-1]), noise.check(phi), maps.dtype)
    total = 0.0
    for i, x in enumerate(maps):
        y = x + covariance.draw(Streams(seed, [(2, i)]), 1)
        total += float((found.denoiser(y, covariance).mean - x).double().square().mean())
    return total / len(maps)
