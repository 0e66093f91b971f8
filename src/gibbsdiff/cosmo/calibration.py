r"""Calibration of (σ, H0, ω_b) over their prior box: dust plus CMB on periodic patches.

Gaussian dust has an exact denoiser: what is found there is the method's own fault. Maps of a file
need a network, and every run is judged twice, raw and with the network's own error, eq. (12).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import DustModel, dust_model, problem_of, with_floor
from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.data.images import turned
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.methods import (
    chain_options,
    inference_method,
    marginal_options,
)
from gibbsdiff.evidence.calibration.paired import PairedParameters
from gibbsdiff.evidence.calibration.sbc import CalibrationProblem, CalibrationRun
from gibbsdiff.inference.problem import Problem
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import find
from gibbsdiff.streams import Key, Streams

PARAMETERS = ("sigma", "H0", "omega_b")
SMALLEST = 16
#: Spectrum of the simulated dust at 128², sd 1, rounded.
DUST = TabulatedSignal(
    tuple(math.log(n / 128) for n in (1, 2, 4, 8, 16, 32, 64)),
    (tuple(math.log(s) for s in (590.0, 314.0, 49.0, 7.6, 1.14, 0.136, 0.0089)),),
)


def patches(
    size: int = 128,
    method: Literal["gibbs", "marginal"] = "gibbs",
    dust: str | None = None,
    dust_digest: str = "",
    model: str | None = None,
    model_digest: str = "",
    chains: int = 4,
    iterations: int = 120,
    burn_in: int = 20,
    longer: int = 1,
    calls: int = 1,
) -> CalibrationProblem:
    """Gaussian dust with the spectrum of simulated dust; or maps of the file `dust` that the model
    was not trained on, shifted, flipped and transposed at random, and the network.

    Both methods as `gibbsdiff cmb infer` runs them; Gaussian dust needs one call for a draw of x.
    """
    if size < SMALLEST:
        raise InputError(f"size: {size} pixels; at least {SMALLEST} are needed")
    if method not in ("gibbs", "marginal"):
        raise InputError(f"method {method}: gibbs or marginal")
    noise = CMBNoise()
    # An exact draw of x costs next to nothing: fewer transitions of φ for each of them.
    brief: dict[str, Any] = {"transitions": 2, "warm_up": 100} if dust is None else {}
    options = (
        marginal_options()
        if method == "marginal"
        else chain_options(iterations, burn_in, chains=chains, calls=calls, **brief)
    )
    denoiser: GaussianDenoiser | SpectralDenoiser
    signal: Callable[[Streams], Tensor]
    if dust is None:
        denoiser, moments = GaussianDenoiser(DUST), None
        signal = partial(_gaussian, denoiser, size)
    else:
        found = _model(size, model, model_digest)
        denoiser, moments = found.denoiser, found.moments
        signal = partial(shifted, dust, dust_digest, size, model, model_digest)
        signal(Streams(0, []))  # a file that is not there is found before any work
        options = with_floor(options)

    def problem(y: Tensor, keys: tuple[Key, ...]) -> Problem:
        return problem_of(y, denoiser, denoiser.signal, noise, moments, keys)

    paired = dust is not None
    run = inference_method(problem, options, longer=longer, paired=paired)
    return CalibrationProblem(PairedParameters(noise) if paired else noise, signal, run)


def shifted(
    path: str,
    expected: str,
    size: int,
    model: str | None,
    model_digest: str,
    rng: Streams,
) -> Tensor:
    """A held-out map for each stream, shifted, flipped and transposed: (B, 1, size, size)."""
    maps = _maps(path, expected, size, model, model_digest)
    which = rng.integers(0, len(maps) - 1).tolist()
    down, right = (rng.integers(0, size - 1).tolist() for _ in range(2))
    symmetry = rng.integers(0, 7).tolist()
    out = [
        turned(maps[i].roll((a, b), (-2, -1)), s)
        for i, a, b, s in zip(which, down, right, symmetry, strict=True)
    ]
    return torch.stack(out) if out else maps[:0]


def _gaussian(denoiser: GaussianDenoiser, size: int, rng: Streams) -> Tensor:
    return denoiser.prior((size, size), rng).float()


@lru_cache(maxsize=2)
def _model(size: int, model: str | None, expected: str) -> DustModel:
    if expected and _digest(model or f"dust{size}") != expected:
        raise InputError(f"{model}: not the same file on every machine of the cluster")
    return dust_model(size, model)


@lru_cache(maxsize=2)
def _maps(path: str, expected: str, size: int, model: str | None, model_digest: str) -> Tensor:
    if expected and file_digest(path) != expected:
        raise InputError(f"{path}: not the same file on every machine of the cluster")
    return held_out(path, size, _model(size, model, model_digest).card)[0]


def _digest(model: str) -> str:
    return file_digest(find(model))


def patch_configuration(
    dust: str | Path | None = None,
    model: str | Path | None = None,
    seed: int = 0,
    batch: int = 10,
    **arguments: Any,
) -> CalibrationRun:
    """The problem above, by name: the digests of the maps and of the model are part of it."""
    known = dict(arguments)
    if dust is None:
        if model is not None:
            raise InputError("a model is for maps of dust: Gaussian dust needs none")
    else:
        known |= {"dust": str(dust), "dust_digest": file_digest(dust)}
        size = int(known.get("size", 128))
        dust_model(size, model)
        known["model_digest"] = _digest(str(model) if model else f"dust{size}")
        known["model"] = None if model is None else str(model)
    return CalibrationRun("dust", known, seed, batch)
