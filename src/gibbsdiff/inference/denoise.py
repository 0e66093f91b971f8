"""Blind denoising of one picture: `gibbsdiff.denoise`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser, SpectralDenoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.observation import View, taper
from gibbsdiff.inference.pipeline import Method, Options, by_gibbs, by_marginal, told
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.inference.windows import LARGE, from_windows
from gibbsdiff.io.intensity import filled
from gibbsdiff.noise import BandedNoise, PartlyKnownNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.noise.fixed import completed
from gibbsdiff.pretrained import load_model

Boundary = Literal["open", "periodic"]

FAMILIES: dict[str, Callable[[], StationaryNoise]] = {
    "power-law": PowerLawNoise,
    "white": WhiteNoise,
    "banded": BandedNoise,
}
FIRST = 12  # calls of the marginal method's first stage, the Laplace covariance included
MANY = 30  # steps of the search in more than 3 dimensions
SMALL = 192**2  # pixels up to which Gibbs is done in minutes on one core
TILE = 1024  # pictures larger than this are shown to the network in tiles


def denoise(
    picture: Any,
    *,
    noise: str | StationaryNoise = "power-law",
    known: Mapping[str, float] | None = None,
    model: str | Path | Denoiser = "natural",
    method: Method = "auto",
    boundary: Boundary = "open",
    chains: int = 4,
    draws: int = 50,
    calls: int = 12,
    second_stage: bool = True,
    samples: int = 1,
    tile: int | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Posterior:
    """p(x, φ | y) of a picture y (H, W), (C, H, W) or (H, W, 3), values about [0, 1].

    NaN pixels count as not observed. Images of the result are (C, H, W).

    Arguments:
        picture: An array or a tensor, grey or colour.
        noise: "power-law", "white", "banded", or a noise model of your own.
        known: Parameters whose values you know, by name. All known: nothing is inferred but x.
        model: A model of the package by name, a model file, or a denoiser.
        method: "marginal" is fast, and takes φ from windows for pictures above 512²; "gibbs"
            alternates x and φ from over-dispersed starts around the marginal mode; "auto" is
            "gibbs" up to 192² pixels and "marginal" above. The result says which it was.
        boundary: "open" for pictures of the world, "periodic" for simulations.
        chains, draws: Of φ.
        calls: Network calls for a draw of x.
        second_stage: Whether the marginal method goes on to draw x, for a φ with less bias.
        samples: Draws of x to keep.
        tile: Side of the tiles that a large picture is shown to the network in.
        seed: The same seed gives the same result.
        progress: Show what is going on.
    """
    options = Options(method, chains, draws, calls, second_stage, samples, seed, progress)
    if method not in ("auto", "marginal", "gibbs") or boundary not in ("open", "periodic"):
        raise InputError(f"no such method or boundary: {method}, {boundary}")
    y, missing = observation(picture)
    shape = (y.shape[-2], y.shape[-1])
    denoiser = load_model(model) if isinstance(model, str | Path) else model
    if isinstance(denoiser, SpectralDenoiser) and (tile or max(shape) > TILE):
        denoiser = denoiser.tiled(tile or TILE)
    family = _family(noise)
    grey = y.shape[1] == 1 and _channels(denoiser) == 3
    window = taper(shape, missing) if boundary == "open" else None
    if window is None and missing is not None:
        window = (~missing)[None, None].double()
    begun = time.perf_counter()
    with Console().status("", spinner="dots") if progress else _Silent() as status:
        result = _infer(y, family, dict(known or {}), denoiser, grey, window, options, status)
    return replace(result, missing=missing, seconds=time.perf_counter() - begun)


def observation(picture: Any) -> tuple[Tensor, Tensor | None]:
    """y (1, C, H, W), float32, its missing pixels filled, and where they were (H, W)."""
    values = torch.as_tensor(picture)
    if values.ndim == 3 and values.shape[-1] in (1, 3) and values.shape[0] not in (1, 3):
        values = values.permute(2, 0, 1)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[0] not in (1, 3)):
        raise InputError(f"picture: need (H, W), (C, H, W) or (H, W, 3), not {tuple(values.shape)}")
    if not values.is_floating_point():
        raise InputError(f"picture: scale {values.dtype} values to [0, 1] first")
    planes = values.reshape(-1, *values.shape[-2:]).float()
    missing = ~torch.isfinite(planes).all(0)
    if not bool(missing.any()):
        return as_images(planes, "picture", smallest=16), None
    if bool(missing.all()):
        raise InputError("picture: no pixel is finite")
    whole = np.stack([filled(plane, missing.numpy()) for plane in planes.numpy()])
    return as_images(whole.astype(np.float32), "picture", smallest=16), missing


def _family(noise: str | StationaryNoise) -> StationaryNoise:
    if isinstance(noise, StationaryNoise):
        return noise
    if noise not in FAMILIES:
        raise InputError(f"noise {noise!r}: there are {', '.join(FAMILIES)}, or a noise model")
    return FAMILIES[noise]()


def _channels(denoiser: Denoiser) -> int | None:
    return denoiser.network.channels if isinstance(denoiser, SpectralDenoiser) else None


class _Silent:
    """A status that shows nothing."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: str) -> None:
        """Do nothing."""


def _infer(
    y: Tensor,
    family: StationaryNoise,
    known: dict[str, float],
    denoiser: Denoiser,
    grey: bool,
    window: Tensor | None,
    options: Options,
    status: Any,
) -> Posterior:
    shape = (y.shape[-2], y.shape[-1])
    values = completed(family, known)[None]
    if set(known) == set(family.names):
        status.update("denoising with the given noise")
        return told(y, values, View(family, shape, grey, window), denoiser, options)
    noise = PartlyKnownNoise(family, known) if known else family
    if options.method == "auto":
        small = shape[0] * shape[1] <= SMALL
        options = replace(options, method="gibbs" if small else "marginal")
    view = View(noise, shape, grey, window)
    if options.method != "gibbs" and shape[0] * shape[1] > LARGE and window is not None:
        status.update("φ from windows of the picture, then x in one call")
        return from_windows(y, noise, denoiser, view, options)
    status.update("searching for the noise: first stage, one call a step")
    marginal = Marginal(y, noise, denoiser, view, seed=options.seed)
    start = regression_start(y, noise)
    d = len(noise.parameters)
    mode = marginal.mode(start, most=FIRST - 1 - d if d <= 3 else MANY)
    if options.method == "gibbs":
        status.update("")
        return by_gibbs(marginal, mode, options)
    sampler = partial(few_step, calls=options.calls)
    if options.second_stage:
        status.update("searching for the noise: second stage, by draws of x")
        mode = marginal.refine(mode, sampler, iterations=5, chains=2, seed=options.seed)
    return by_marginal(marginal, mode, sampler, options)
