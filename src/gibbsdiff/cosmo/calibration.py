r"""Calibration of (σ, H0, ω_b) over their prior box: dust plus CMB on periodic patches.

Gaussian dust has an exact denoiser: what is found there is the method's own fault. Maps of a file
need a network, and every run is judged twice: by the posterior as it is, and with the network's own
error, eq. (12).
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import (
    SURE,
    DustModel,
    dust_model,
    model_name,
    options_for,
    patch_problem,
)
from gibbsdiff.cosmo.infer import model_digest as digest_of_model
from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.data.images import turned
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.methods import (
    chain_options,
    inference_method,
    marginal_options,
)
from gibbsdiff.evidence.calibration.paired import PairedParameters
from gibbsdiff.evidence.calibration.sbc import CalibrationProblem, CalibrationRun
from gibbsdiff.evidence.weights import WeightsName, weights_named
from gibbsdiff.inference.fit import check_fit
from gibbsdiff.inference.presets import denoiser_for
from gibbsdiff.inference.problem import Method, Problem, SamplerName, Starts, WarmUp
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise.cmb import CMBNoise
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
    method: Method = "gibbs",
    dust: str | None = None,
    dust_digest: str = "",
    model: str | None = None,
    model_digest: str = "",
    chains: int = 4,
    iterations: int = 120,
    burn_in: int = 20,
    longer: int = 1,
    calls: int | None = None,
    preset: str | None = None,
    starts: Starts | None = None,
    sampler: SamplerName | None = None,
    adaptation: WarmUp | None = None,
    weights: WeightsName = "none",
    weighted_chains: bool = False,
    device: str = "cpu",
) -> CalibrationProblem:
    """Gaussian dust with the spectrum of simulated dust; or maps of the file `dust` that the model
    was not trained on, shifted, flipped and transposed at random, and the network.

    Both methods as `gibbsdiff cmb infer` runs them, by a preset if it is given. Maps are judged
    twice: by the posterior as it is, and with the network's own error. Gaussian dust needs one call
    for a draw of x, and has no such error. `weights` of places in the score of φ: where the network
    is "sure", or "none"; `weighted_chains` have them as well.
    """
    if size < SMALLEST:
        raise InputError(f"size: {size} pixels; at least {SMALLEST} are needed")
    if method not in ("gibbs", "marginal"):
        raise InputError(f"method {method}: gibbs or marginal")
    if preset is not None and method == "marginal":
        raise InputError(f"preset {preset}: it is of Gibbs chains, not of the {method} method")
    if dust is None and weighted_chains:
        raise InputError("weighted_chains: of a network; Gaussian dust is known exactly everywhere")
    rule = SURE if weights_named(weights) else None
    noise = CMBNoise()
    given: dict[str, Any] = {"starts": starts, "sampler": sampler, "adaptation": adaptation}
    if dust is None and preset is None:
        # An exact draw of x costs next to nothing: fewer transitions of φ for each of them.
        given |= {"transitions": 2, "warm_up": 300 if adaptation == "paper" else 100}
        calls = None if sampler == "ddpm" else calls or 1
    given |= {"chains": chains, "calls": calls, "preset": preset}
    options = (
        marginal_options(weighted_chains=weighted_chains)
        if method == "marginal"
        else chain_options(iterations, burn_in, weighted_chains=weighted_chains, **given)
    )
    nothing = torch.zeros(1, 1, size, size)
    if dust is None:
        exact = GaussianDenoiser(DUST)
        shown = denoiser_for(preset, exact)

        def gaussian(y: Tensor, keys: tuple[Key, ...]) -> Problem:
            return patch_problem(y, shown, exact.signal, noise, keys=keys)

        check_fit(gaussian(nothing, ()), options)
        run = inference_method(gaussian, options, longer=longer)
        return CalibrationProblem(noise, partial(_gaussian, exact, size), run)
    found = _model(size, model, model_digest)
    denoiser = denoiser_for(preset, on_device(found.denoiser, device))
    options = options_for(found, noise, options)
    maps = partial(shifted, dust, dust_digest, size, model, model_digest)
    maps(Streams(0, []))  # a file that is not there is found before any work

    def mixture(y: Tensor, keys: tuple[Key, ...]) -> Problem:
        return patch_problem(y, denoiser, found.signal, noise, found.moments, keys, listening=rule)

    check_fit(mixture(nothing, ()), options)
    run = inference_method(mixture, options, longer=longer, paired=True)
    return CalibrationProblem(PairedParameters(noise), maps, run)


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
    if expected and digest_of_model(size, model) != expected:
        raise InputError(f"{model}: not the same file on every machine of the cluster")
    return dust_model(size, model)


@lru_cache(maxsize=2)
def _maps(path: str, expected: str, size: int, model: str | None, model_digest: str) -> Tensor:
    if expected and file_digest(path) != expected:
        raise InputError(f"{path}: not the same file on every machine of the cluster")
    return held_out(path, size, _model(size, model, model_digest).card)[0]


def patches_run(
    dust: str | Path | None = None,
    model: str | Path | None = None,
    seed: int = 0,
    batch: int = 10,
    **arguments: Any,
) -> CalibrationRun:
    """The problem "dust": the digests of the maps and of the model are part of it, and so is the
    name of the weights, unless there is a preset, which has none.
    """
    known = dict(arguments)
    if dust is None:
        if model is not None:
            raise InputError("a model is for maps of dust: Gaussian dust needs none")
    else:
        known |= {"dust": str(dust), "dust_digest": file_digest(dust)}
        size = int(known.get("size", 128))
        if known.get("preset") is not None:
            model = model_name(size, model, known["preset"])
        else:
            known.setdefault("weights", "none")
        dust_model(size, model)
        known["model_digest"] = digest_of_model(size, model)
        known["model"] = None if model is None else str(model)
    return CalibrationRun("dust", known, seed, batch)
