r"""Calibration on photographs: crops of test images, the network, and periodic power-law noise.

Unlike a Gaussian signal, photographs are no draws of the network's own prior: what is found here is
the method's fault and the network's together. Every run is judged twice, by the posterior as it is
and with the network's own error added, eq. (12).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.data.images import PROTOCOL_SIDE, protocol_images
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.benchmark.images import files_for_tests
from gibbsdiff.evidence.benchmark.methods import network
from gibbsdiff.evidence.calibration.methods import (
    chain_options,
    inference_method,
    marginal_options,
)
from gibbsdiff.evidence.calibration.paired import PairedParameters
from gibbsdiff.evidence.calibration.sbc import CalibrationProblem, CalibrationRun
from gibbsdiff.evidence.weights import WeightsName
from gibbsdiff.inference.fit import check_fit
from gibbsdiff.inference.laplace import Density
from gibbsdiff.inference.presets import MODEL, denoiser_for, model_for
from gibbsdiff.inference.problem import Method, Problem, SamplerName, Starts, WarmUp
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.pretrained import find
from gibbsdiff.streams import Key, Streams

PARAMETERS = ("sigma", "phi")


def photographs(
    data: str,
    size: int = 64,
    sigma: tuple[float, float] = (0.01, 1.0),
    method: Method = "gibbs",
    stages: int = 2,
    density: Density = "laplace",
    chains: int = 4,
    iterations: int = 60,
    burn_in: int = 30,
    calls: int | None = None,
    starts: Starts | None = None,
    sampler: SamplerName | None = None,
    adaptation: WarmUp | None = None,
    preset: str | None = None,
    weights: WeightsName = "sure",
    weighted_chains: bool = False,
    model: str = MODEL,
    model_digest: str = "",
    hold_out_every: int = 0,
    selection: int = 0,
    device: str = "cpu",
) -> CalibrationProblem:
    """Random crops of size² from a folder's test images by the paper's protocol, at 256².

    Every crop is inferred as `gibbsdiff.denoise(crop, boundary="periodic")` does it. Gibbs: the
    paper has 4 chains, 60 iterations, 30 of them burn-in. `starts`: around the mode of the marginal
    method, the default, from the prior, or as in the paper. `preset`: "paper" is all as in the
    paper, but for what is given. Marginal: one `stages` or two. `weights` of places in the score of
    φ: where the network is "sure", or "none"; `weighted_chains` have them as well.
    """
    if not 16 <= size <= PROTOCOL_SIDE:
        raise InputError(f"size: {size} pixels; crops have 16 to {PROTOCOL_SIDE}")
    if stages not in (1, 2):
        raise InputError(f"stages {stages}: 1 or 2")
    listening: dict[str, Any] = {"weights": weights, "weighted_chains": weighted_chains}
    if method == "gibbs":
        options = chain_options(
            iterations,
            burn_in,
            preset=preset,
            chains=chains,
            calls=calls,
            starts=starts,
            sampler=sampler,
            adaptation=adaptation,
            **listening,
        )
    elif preset is not None:
        raise InputError(f"preset {preset}: it is of Gibbs chains, not of the {method} method")
    elif method == "marginal":
        both = stages == 2
        options = marginal_options(calls=calls, second_stage=both, density=density, **listening)
    else:
        raise InputError(f"method {method}: gibbs or marginal")
    low, high = sigma
    noise = PowerLawNoise((low, high))
    denoiser = denoiser_for(preset, network(model, model_digest, device))
    signal = partial(crops, data, size, hold_out_every, selection)
    signal(Streams(0, []))  # a folder that is not there is found before any work

    def problem(y: Tensor, keys: tuple[Key, ...]) -> Problem:
        first, _ = picture_problem(y[0], noise, {}, denoiser, "periodic")
        return replace(first, y=y.to(first.y), keys=keys)

    check_fit(problem(torch.zeros(1, 3, size, size), ((0,),)), options)
    run = inference_method(problem, options, paired=True)
    return CalibrationProblem(PairedParameters(noise), signal, run)


@lru_cache(maxsize=2)
def _images(data: str, hold_out_every: int, selection: int) -> Tensor:
    return protocol_images(files_for_tests(data, hold_out_every, selection))


def crops(data: str, size: int, hold_out_every: int, selection: int, rng: Streams) -> Tensor:
    """A crop for each stream: (B, 3, size, size)."""
    images = _images(data, hold_out_every, selection)
    room = PROTOCOL_SIDE - size
    which = rng.integers(0, len(images) - 1).tolist()
    places = zip(rng.integers(0, room).tolist(), rng.integers(0, room).tolist(), strict=True)
    out = [
        images[i, :, top : top + size, left : left + size]
        for i, (top, left) in zip(which, places, strict=True)
    ]
    return torch.stack(out) if out else images[:0, :, :size, :size]


def photographs_run(
    data: str | Path, seed: int = 0, batch: int = 1, model: str | None = None, **arguments: Any
) -> CalibrationRun:
    """The problem "photographs": the folder, and the model's digest, are part of it.

    The model is by default "natural", or the preset's own.
    Starts of chains that are not given are the preset's or, without one, around the marginal mode
    if the model has an error model, else from the prior. Weights are named in it, unless there is a
    preset, which has none.
    """
    gibbs, preset = arguments.get("method", "gibbs") == "gibbs", arguments.get("preset")
    model = model_for(preset, model)
    digest = file_digest(find(model))
    if gibbs and preset is None and arguments.get("starts") is None:
        able = network(model, digest, arguments.get("device", "cpu")).error_model
        arguments["starts"] = "marginal" if able else "prior"
    if preset is None:
        arguments.setdefault("weights", "sure")
    known = {"data": str(data), "model": model, "model_digest": digest, **arguments}
    return CalibrationRun("photographs", known, seed, batch)
