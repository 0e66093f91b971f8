r"""Calibration on photographs: crops of test images, the network, and periodic power-law noise.

Unlike a Gaussian signal, photographs are no draws of the network's own prior: what is found here is
the method's fault and the network's together. Every run is judged twice, by the posterior as it is
and with the network's own error added, eq. (12).
"""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.data.images import PROTOCOL_SIDE, protocol_images
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.benchmark.images import files_for_tests
from gibbsdiff.evidence.benchmark.methods import network
from gibbsdiff.evidence.calibration.paired import Twice, by_chains, by_marginal
from gibbsdiff.evidence.calibration.sbc import Configuration, Problem
from gibbsdiff.inference.denoise import FIRST
from gibbsdiff.inference.gibbs import Settings
from gibbsdiff.inference.marginal import Marginal, Mode
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.io.digest import file_digest
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.pretrained import find
from gibbsdiff.streams import Streams

PARAMETERS = ("sigma", "phi")


def photographs(
    data: str,
    size: int = 64,
    sigma: tuple[float, float] = (0.01, 1.0),
    method: Literal["gibbs", "marginal"] = "gibbs",
    stages: int = 2,
    chains: int = 4,
    iterations: int = 60,
    burn_in: int = 30,
    calls: int = 12,
    starts: Literal["marginal", "prior"] = "marginal",
    model: str = "natural",
    model_digest: str = "",
    hold_out_every: int = 0,
    selection: int = 0,
) -> Problem:
    """Random crops of size² from a folder's test images by the paper's protocol, at 256².

    Gibbs: the paper has 4 chains, 60 iterations, 30 of them burn-in. `starts`: around the mode of
    the marginal method, or from the prior. Marginal: one `stages` or two, as `gibbsdiff.denoise`.
    """
    if not 16 <= size <= PROTOCOL_SIDE:
        raise InputError(f"size: {size} pixels; crops have 16 to {PROTOCOL_SIDE}")
    if stages not in (1, 2) or starts not in ("marginal", "prior"):
        raise InputError(f"stages {stages}, starts {starts}: 1 or 2, marginal or prior")
    low, high = sigma
    noise = PowerLawNoise((low, high))
    denoiser = network(model, model_digest)
    signal = partial(crops, data, size, hold_out_every, selection)
    signal(Streams(0, []))  # a folder that is not there is found before any work
    sampler = partial(few_step, calls=calls)
    if method == "marginal":
        second = sampler if stages == 2 else None
        return Problem(Twice(noise), signal, by_marginal(noise, denoiser, _mode, second))
    if method != "gibbs":
        raise InputError(f"method {method}: gibbs or marginal")
    settings = Settings(chains, iterations, burn_in, stop_when_converged=False)
    from_mode = starts == "marginal"
    chain = by_chains(noise, denoiser, settings, sampler, _mode, from_mode)
    return Problem(Twice(noise), signal, chain)


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


def _mode(search: Marginal) -> Mode:
    start = regression_start(search.y, search.noise)
    return search.mode(start, most=FIRST - 1 - len(PARAMETERS))


def photograph_configuration(
    data: str | Path, seed: int = 0, batch: int = 10, model: str = "natural", **arguments: Any
) -> Configuration:
    """The problem above, by name: the folder, and the model's digest, are part of it."""
    digest = file_digest(find(model))
    known = {"data": str(data), "model": model, "model_digest": digest, **arguments}
    return Configuration("gibbsdiff.evidence.calibration.images:photographs", known, seed, batch)
