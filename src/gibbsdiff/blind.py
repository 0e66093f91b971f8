"""Blind denoising of one picture: `gibbsdiff.denoise`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.data.scale import filled
from gibbsdiff.diffusion.denoiser import Denoiser, SpectralDenoiser
from gibbsdiff.diffusion.solvers import Sampler, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.gibbs import Settings, gibbs
from gibbsdiff.initial import regression_start, spread
from gibbsdiff.marginal import Marginal, Mode
from gibbsdiff.model_error import with_model_error
from gibbsdiff.noise import BandedNoise, PartlyKnownNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.posterior import Posterior
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams
from gibbsdiff.uncertainty import pixel_sd
from gibbsdiff.view import View, taper
from gibbsdiff.windows import LARGE, from_windows

Method = Literal["auto", "marginal", "gibbs"]
Boundary = Literal["open", "periodic"]

FAMILIES: dict[str, Callable[[], StationaryNoise]] = {
    "power-law": PowerLawNoise,
    "white": WhiteNoise,
    "banded": BandedNoise,
}
FIRST = 12  # calls of the marginal method's first stage, the Laplace covariance included
SMALL = 192**2  # pixels up to which Gibbs is done in minutes on one core
TILE = 1024  # pictures larger than this are shown to the network in tiles


@dataclass(frozen=True)
class Options:
    """How to infer; see `denoise`."""

    method: Method = "auto"
    chains: int = 4
    draws: int = 50
    calls: int = 12
    second_stage: bool = True
    samples: int = 1
    seed: int = 0
    progress: bool = False


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
    if set(known) >= set(family.names):
        values = torch.tensor([[known[n] for n in family.names]], dtype=torch.float64)
        status.update("denoising with the given noise")
        return told(y, family.check(values), View(family, shape, grey, window), denoiser, options)
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
    mode = marginal.mode(start, most=max(4, FIRST - 1 - len(noise.parameters)))
    if options.method == "gibbs":
        status.update("")
        return _gibbs(marginal, mode, options)
    sampler = partial(few_step, calls=options.calls)
    if options.second_stage:
        status.update("searching for the noise: second stage, by draws of x")
        mode = marginal.refine(mode, sampler, iterations=5, chains=2, seed=options.seed)
    return by_marginal(marginal, mode, sampler, options)


def by_marginal(marginal: Marginal, mode: Mode, sampler: Sampler, options: Options) -> Posterior:
    """The posterior of one picture from its mode: φ with model error, x by one call, samples."""
    raw = mode.covariance[0].diagonal().sqrt()
    denoiser = marginal.denoiser
    if isinstance(denoiser, SpectralDenoiser) and denoiser.calibration is not None:
        mode = with_model_error(marginal, mode, denoiser.calibration.scatter)
    phi = marginal.draws(mode, options.draws, options.seed, points=0, chains=options.chains)[0]
    view, y = marginal.view, marginal.y
    fixed = told(y, mode.phi, view, denoiser, replace(options, samples=0))
    samples, calls = _samples(y, phi, view, denoiser, sampler, options)
    found = bool(mode.converged.all())
    return replace(
        fixed,
        names=marginal.noise.names,
        phi=phi,
        samples=samples,
        method="marginal, two stages" if options.second_stage else "marginal, first stage",
        calls=marginal.calls + 1 + calls,
        raw_sd=tuple(raw.tolist()),
        found=found,
        notes=() if found else ("the search for the mode did not end",),
    )


def told(y: Tensor, phi: Tensor, view: View, denoiser: Denoiser, options: Options) -> Posterior:
    """x | y, φ at one φ (1, d): the mean and its error in one call, and samples."""
    covariance = view.covariance(phi, y.dtype)
    with torch.no_grad():
        shown = view.show(y, covariance, Streams(options.seed, [(0, 1)]))
        mean, error = denoiser(shown, covariance)
        sd = pixel_sd(view, error, shown.shape[1])[0]
    draws = phi.expand(options.chains, options.draws, -1)
    sampler = partial(few_step, calls=options.calls)
    samples, calls = _samples(y, draws, view, denoiser, sampler, options)
    noise = view.noise
    assert isinstance(noise, StationaryNoise)
    return Posterior(
        noise.names,
        draws,
        y[0],
        view.take(mean)[0],
        sd,
        samples=samples,
        method="known noise",
        calls=1 + calls,
        noise_power=noise.power(view.shape, phi)[0, 0].to(y),
    )


def _samples(
    y: Tensor, phi: Tensor, view: View, denoiser: Denoiser, sampler: Sampler, options: Options
) -> tuple[Tensor | None, int]:
    """x | y, φ for some of the draws (chain, draw, d) of φ."""
    if not options.samples:
        return None, 0
    flat = phi.flatten(0, 1)
    kept, calls = [], 0
    for i in range(options.samples):
        rng = Streams(options.seed, [(0, 2, i)])
        covariance = view.covariance(flat[i % len(flat)][None], y.dtype)
        draw = sampler(denoiser, view.show(y, covariance, rng), covariance, rng)
        kept.append(view.take(draw.x)[0])
        calls += int(draw.calls.sum())
    return torch.stack(kept), calls


def _gibbs(marginal: Marginal, mode: Mode, options: Options) -> Posterior:
    """Gibbs from over-dispersed starts around the mode."""
    rng = Streams(options.seed, [(0, 3, c) for c in range(options.chains)])
    start = spread(mode.phi[0], mode.covariance[0], marginal.noise, rng)
    burn_in = max(2, options.draws // 5)
    settings = Settings(
        chains=options.chains,
        iterations=burn_in + options.draws,
        burn_in=burn_in,
        keep_samples=options.samples,
        seed=options.seed,
    )
    (result,) = gibbs(
        marginal.y,
        marginal.noise,
        marginal.denoiser,
        settings=settings,
        sampler=partial(few_step, calls=options.calls),
        start=start[None],
        view=marginal.view,
        progress=options.progress,
    )
    notes = result.notes
    denoiser = marginal.denoiser
    if isinstance(denoiser, SpectralDenoiser) and denoiser.calibration is not None:
        wide = with_model_error(marginal, mode, denoiser.calibration.scatter).covariance
        added = (wide - mode.covariance)[0].diagonal().clamp(min=0)
        drawn = result.phi.flatten(0, 1).var(0)
        told = ", ".join(
            f"{name} {sd:.2g}"
            for name, sd in zip(result.names, (drawn + added).sqrt().tolist(), strict=True)
        )
        notes = (*notes, f"sd with the network's own error added, eq. (12): {told}")
    return replace(result, calls=result.calls + marginal.calls, notes=notes)
