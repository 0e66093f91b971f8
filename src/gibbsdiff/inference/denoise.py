"""Blind denoising of pictures: `gibbsdiff.denoise`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.errors import InputError
from gibbsdiff.inference.encoding import check_range, is_several, observation, read
from gibbsdiff.inference.laplace import Density
from gibbsdiff.inference.observation import ObservationModel, taper
from gibbsdiff.inference.phi_steps import PhiStep
from gibbsdiff.inference.pipeline import infer
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import Preset, denoiser_for, model_for, with_preset
from gibbsdiff.inference.problem import Mean, Options, Problem, SamplerName, Starts, WarmUp
from gibbsdiff.inference.progress import Progress, reporter
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.inference.windows import LARGE
from gibbsdiff.noise import BandedNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.fixed import all_values, with_fixed
from gibbsdiff.pretrained import load_for_pictures, load_model

Boundary = Literal["open", "periodic"]

FAMILIES: dict[str, Callable[[], NoiseModel]] = {
    "power-law": PowerLawNoise,
    "white": WhiteNoise,
    "banded": BandedNoise,
}
SURE = Sureness(
    0.06, 60.0, 3.0, 4.0
)  # chosen on held-out images by the mean log score of the truth
FIRST = 12  # calls of the marginal method's first stage, the Laplace covariance included
FEW, MANY = 3, 30  # parameters, and steps of the search for more of them
SMALL = 192**2  # pixels up to which Gibbs is done in minutes on one core
TILE = 1024  # pictures larger than this are shown to the network in tiles


def denoise(
    picture: Any,
    *,
    noise: str | NoiseModel = "power-law",
    known: Mapping[str, float] | None = None,
    model: str | Path | Denoiser | Callable[..., Any] | None = None,
    method: Literal["auto", "marginal", "gibbs"] = "auto",
    boundary: Boundary = "open",
    preset: Preset | None = None,
    chains: int | None = None,
    draws: int | None = None,
    burn_in: int | None = None,
    calls: int | None = None,
    second_stage: bool | None = None,
    samples: int | None = None,
    density: Density | None = None,
    starts: Starts | None = None,
    sampler: Sampler | SamplerName | None = None,
    warm_up: WarmUp | None = None,
    mean: Mean | None = None,
    phi_step: PhiStep | None = None,
    weights: Any = "sure",
    weighted_chains: bool = False,
    tile: int | None = None,
    device: str | torch.device = "cpu",
    checkpoint: str | Path | None = None,
    seed: int = 0,
    progress: bool | Progress = False,
) -> Any:
    """p(x, φ | y) of a picture y as a `Posterior`; of several, a list of them.

    Ctrl-C gives what is there, marked as interrupted; of several, those that were begun.

    Arguments:
        picture: A file's path, a PIL image, an array or a tensor: (H, W), (C, H, W), (H, W, 3) or,
            with alpha, (H, W, 4). Floats are about [0, 1], uint8 and uint16 are scaled by their
            range; NaN pixels count as not observed. A list of these, or (B, C, H, W), is several.
        noise: "power-law", "white", "banded", or a noise model of your own.
        known: Parameters whose values you know, by name. All known: nothing is inferred but x.
        model: A model of the package by name, a model file, or a denoiser: any callable
            (z, noise covariance) -> Estimate. None: "natural", or the preset's.
        method: "marginal" is fast, and takes φ from windows for pictures above 512²; "gibbs"
            alternates x and φ from over-dispersed starts around the marginal mode; "auto" is
            "gibbs" up to 192² pixels and "marginal" above. A denoiser without an error model, and
            noise without a spectrum, need "gibbs". The result says which it was.
        boundary: "open" for pictures of the world, "periodic" for simulations.
        preset: "paper" is the algorithm as published: Gibbs with D alone, by default that of the
            ε-network "paper-natural-small", sampler "ddpm", starts and warm-up "paper", mean
            "average", 16 chains of 40 iterations, 20 of them burn-in. What is given beside it wins.
        chains, draws: How many chains of φ, and draws in each; by default 4 and 50. The marginal
            method's draws are independent: chains × draws of them.
        burn_in: Iterations before the draws of a chain; by default a fifth of them, at least 2.
        calls: Network calls for a draw of x; by default 12.
        second_stage: Whether the marginal method goes on to draw x, for a σ with less bias. None:
            up to 512² pixels.
        samples: Draws of x to keep. None: one, and none above 512² pixels.
        density: What the marginal method draws φ from: "laplace", the default, or "polynomial",
            fitted to scores.
        starts: Of chains: "marginal", "prior", or "paper" (σ regressed on y, the rest from the
            prior). None: "marginal" where the denoiser has an error model.
        sampler: How x | y, φ is drawn: "few-step", the default; "ddpm", the paper's, on the
            process of the denoiser or on the paper's; or your own, such as
            partial(ddpm, process=..., variance="posterior").
        warm_up: Of HMC: "ours", or "paper", which leaves out what we added to it.
        mean: What the mean of chains is: "tweedie", D averaged over draws of φ, or "average", the
            plain mean of all draws of x.
        phi_step: Another way than HMC to draw φ | y - x, such as `conjugate_amplitude`.
        weights: Of places in the score of φ that the search climbs: "sure" listens where the
            network is sure; None, to all places alike; or a map (H, W) of your own, at best made
            without y. A denoiser that is exact or has no derivative is never asked where it is
            sure.
        weighted_chains: Whether the likelihood of φ in Gibbs chains has the weights of the search
            as well.
        tile: Side of the tiles that a large picture is shown to the network in.
        device: Where the network runs. Random numbers are the same on every device.
        checkpoint: A file that Gibbs chains are kept in, and go on from.
        seed: The same seed gives the same result.
        progress: True shows a bar on stderr; or a callable that is told stage, step, of how many.
    """
    if method not in ("auto", "marginal", "gibbs") or boundary not in ("open", "periodic"):
        raise InputError(f"no such method or boundary: {method}, {boundary}")
    chosen = with_preset(
        preset,
        {
            "method": method,
            "chains": chains,
            "draws": draws,
            "burn_in": burn_in,
            "calls": calls,
            "density": density,
            "starts": starts,
            "sampler": sampler,
            "adaptation": warm_up,
            "mean": mean,
            "phi_step": phi_step,
        },
    )
    source = model_for(preset, model)
    load = load_for_pictures if isinstance(noise, str) else load_model
    denoiser = load(source) if isinstance(source, str | Path) else as_denoiser(source)
    setting = partial(
        picture_problem,
        family=_family(noise),
        known=dict(known or {}),
        denoiser=denoiser_for(preset, on_device(denoiser, device)),
        boundary=boundary,
        tile=tile,
        on_unit_range=isinstance(source, str | Path),
    )
    options = partial(
        options_of,
        second_stage=second_stage,
        samples=samples,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        seed=seed,
        weights=_weights(weights),
        weighted_chains=weighted_chains,
        **chosen,
    )
    with reporter(progress) as report:
        if not is_several(picture):
            return _one(picture, setting, options, report)
        if checkpoint is not None:
            raise InputError("checkpoint: a file is for the chains of one picture")
        found: list[Posterior] = []
        for one in picture:
            try:
                found.append(_one(one, setting, options, report))
            except KeyboardInterrupt:
                if not found:
                    raise
                break
            if found[-1].interrupted:
                break
        return found


def _one(
    picture: Any,
    setting: Callable[[Tensor], tuple[Problem, Tensor | None]],
    options: Callable[[Problem], tuple[Problem, Options]],
    progress: Progress,
) -> Posterior:
    given = read(picture)
    problem, missing = setting(given.values)
    (posterior,) = infer(*options(problem), progress)
    kind = given.values.dtype
    maps = ("observed", "mean", "sd", "average", "samples", "noise_power")
    cast: dict[str, Any] = {
        n: None if (v := getattr(posterior, n)) is None else v.to(kind) for n in maps
    }
    unit = given.encoding.unit
    return replace(posterior, missing=missing, encoding=given.encoding, unit=unit, **cast)


def picture_problem(
    values: Tensor,
    family: NoiseModel,
    known: dict[str, float],
    denoiser: Denoiser,
    boundary: Boundary = "open",
    tile: int | None = None,
    on_unit_range: bool = False,
) -> tuple[Problem, Tensor | None]:
    """The problem of one picture (C, H, W), NaN where missing; and where pixels are missing."""
    if on_unit_range:
        check_range(values)
    y, missing = observation(values)
    if denoiser.dtype is not None:
        y = y.to(denoiser.dtype)
    shape = (y.shape[-2], y.shape[-1])
    grey = y.shape[1] == 1 and denoiser.channels == 3
    if denoiser.channels not in (None, y.shape[1]) and not grey:
        raise InputError(
            f"picture: {y.shape[1]} channels, but the model is for {denoiser.channels}"
        )
    if tile or max(shape) > TILE:
        in_tiles = denoiser.tiled(tile or TILE)
        if tile and in_tiles is denoiser:
            raise InputError("tile: this denoiser sees whole pictures only")
        denoiser = in_tiles
    window = None
    if family.stationary:
        window = taper(shape, missing) if boundary == "open" else None
        if window is None and missing is not None:
            window = (~missing)[None, None].double()
    observed = None if missing is None or family.stationary else ~missing
    phi = all_values(family, known)[None]
    everything = set(known) == set(family.names)
    noise = with_fixed(family, known) if known and not everything else family
    d = len(noise.parameters)
    return Problem(
        y,
        noise,
        denoiser,
        ObservationModel(noise, shape, grey, window, observed),
        known=phi if everything else None,
        start=lambda some: regression_start(some, noise),
        # Bands of their own have too few modes to leave any out.
        listening=SURE if d <= FEW else None,
        most_steps=FIRST - 1 - d if d <= FEW else MANY,
    ), missing


def options_of(
    problem: Problem,
    method: str,
    second_stage: bool | None,
    samples: int | None,
    **others: Any,
) -> tuple[Problem, Options]:
    """The options, with what was left open chosen by the picture's size."""
    pixels = problem.y.shape[-2] * problem.y.shape[-1]
    if method == "auto":
        method = "gibbs" if pixels <= SMALL or not problem.searchable else "marginal"
    large = method == "marginal" and pixels > LARGE
    if large and problem.observation.window is not None and problem.known is None:
        problem = replace(problem, by_windows=True, most_steps=20)
    if second_stage is None:
        second_stage = method == "marginal" and not large and problem.known is None
    options = Options(
        method="marginal" if method == "marginal" else "gibbs",
        second_stage=second_stage,
        samples=(0 if large else 1) if samples is None else samples,
        **others,
    )
    return problem, options


def _weights(given: Any) -> Any:
    """A map as a tensor; whether it fits is seen where it is used."""
    if given is None or isinstance(given, str):
        return given
    try:
        return torch.as_tensor(given, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise InputError('weights: "sure", None, or a map (H, W) of numbers') from None


def _family(noise: str | NoiseModel) -> NoiseModel:
    if isinstance(noise, NoiseModel):
        return noise
    if noise not in FAMILIES:
        raise InputError(f"noise {noise!r}: there are {', '.join(FAMILIES)}, or a noise model")
    return FAMILIES[noise]()
