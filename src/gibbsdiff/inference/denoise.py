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
from gibbsdiff.inference.counts import stretched_known
from gibbsdiff.inference.encoding import Given, is_several, read, shares_kept
from gibbsdiff.inference.given_level import GivenLevel, Kind, level_given
from gibbsdiff.inference.impulses import without_impulses
from gibbsdiff.inference.laplace import Density
from gibbsdiff.inference.one_picture import by_kind
from gibbsdiff.inference.phi_steps import PhiStep
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.presets import Preset, denoiser_for, model_for, with_preset
from gibbsdiff.inference.problem import Mean, Problem, SamplerName, Starts, WarmUp
from gibbsdiff.inference.profile import NoiseProfile, profile_given
from gibbsdiff.inference.progress import Progress, reporter
from gibbsdiff.inference.setting import (
    FAMILIES,
    Boundary,
    depth_of,
    family_of,
    options_of,
    picture_problem,
)
from gibbsdiff.inference.simpler import AUTO
from gibbsdiff.inference.weights import weights_given
from gibbsdiff.networks.precision import Precision
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.pretrained import load_for_pictures, load_model


def denoise(
    picture: Any,
    *,
    noise: str | NoiseModel | None = None,
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
    keep: float | tuple[float, float] = 0.0,
    offset: float | None = None,
    best: bool = False,
    turned: bool | None = None,
    check: bool = True,
    impulses: bool | None = None,
    tile: int | None = None,
    device: str | torch.device = "cpu",
    precision: Precision = "auto",
    checkpoint: str | Path | None = None,
    level_map: Any = None,
    level_kind: Kind = "sd",
    level_absolute: bool = False,
    noise_from: NoiseProfile | str | Path | None = None,
    noise_prior: NoiseProfile | str | Path | None = None,
    seed: int = 0,
    progress: bool | Progress = False,
) -> Any:
    """p(x, φ | y) of a picture y as a `Posterior`; of several, a list of them.

    Ctrl-C gives what is there, marked as interrupted; of several, those that were begun.

    Arguments:
        picture: A file's path, a PIL image, an array or a tensor: (H, W), (C, H, W), (H, W, 3) or,
            with alpha, (H, W, 4). Floats are about [0, 1], uint8 and uint16 are scaled by their
            range; NaN pixels count as not observed. A list of these, or (B, C, H, W), is several.
        noise: "power-law", the default; "white"; "banded"; "photo", a spectrum for luma and one
            for chroma, and a level that goes with brightness; "curves", free smooth spectra in its
            place; "poisson-gaussian", counted light, whose variance is a line in the brightness;
            "counts", the same with a spectrum; "auto", "photo" or, where that fits grey or linear
            data better, one of the last two, and the simplest of white and power law that fits as
            well, as `Posterior.simpler`; or a noise model of your own.
        known: Parameters whose values you know, by name. All known: nothing is inferred but x.
        model: A model of the package by name, a model file, or a denoiser: any callable
            (z, noise covariance) -> Estimate. None: "natural", or the preset's.
        method: "marginal" is fast, and takes φ from windows for pictures above 512²; "gibbs"
            alternates x and φ from over-dispersed starts around the marginal mode; "auto" is
            "marginal", but for a denoiser without an error model and noise without a spectrum,
            which need "gibbs". The result says which it was.
        boundary: "open" for pictures of the world, "periodic" for simulations.
        preset: "paper" is the algorithm as published: Gibbs with D alone, by default that of the
            ε-network "paper-natural-small", sampler "ddpm", starts and warm-up "paper", mean
            "average", 16 chains of 40 iterations, 20 of them burn-in. What is given beside it wins.
        chains, draws: How many chains of φ, and draws in each; by default 4 and 50. The marginal
            method's draws are independent: chains × draws of them.
        burn_in: Iterations before the draws of a chain; by default a fifth of them, at least 2.
        calls: Network calls for a draw of x; by default 12.
        second_stage: Whether the marginal method goes on to draw x: a σ with a little less bias,
            and a φ with more, at many times the calls.
        samples: Draws of x to keep. None: one of Gibbs chains, which draw x anyway, and none of the
            marginal method.
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
        keep: The share of the noise that stays in the picture that is written, `Posterior.image`:
            of all of it, or of luma and of chroma noise.
        offset: Of counted light: the pedestal in the units of the file, which tells read noise
            apart from it.
        best: Whether the mean is that over the 8 symmetries of the square: 8 calls, 0.1 dB.
        turned: Whether each call for a draw of x is by a random symmetry of the square. None: in
            Gibbs chains, with a network for pictures.
        check: Whether the model of the noise is checked on the picture.
        impulses: Whether pixels that stand out of all their neighbours are taken for missing. None:
            in colour pictures of 8 bits that have many of them.
        tile: Side of the tiles that a large picture is shown to the network in.
        device: Where the network runs. Random numbers are the same on every device.
        precision: Of the network's products: "float32"; "bfloat16"; "auto", bfloat16 where the
            processor has it. Derivatives are always in float32.
        checkpoint: A file that Gibbs chains are kept in, and go on from.
        level_map: Where the noise is how strong: a map (H, W) in the picture's units, of the kind
            `level_kind`, "sd", "variance", "ivar" (inverse variance) or "flat" (a flat field, whose
            noise goes with flat^(-½)). NaN, infinite noise and inverse variance 0 are missing.
            Level and spectrum stay free; with `level_absolute` σ is the map's.
        noise_from: A `NoiseProfile` or its file: the noise is known, that of another picture.
        noise_prior: The same as the prior of φ, a Gaussian, in place of the family's own.
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
            "turned": turned,
        },
    )
    profile = profile_given(noise_from, noise_prior, noise, known)
    noise = noise or ("power-law" if profile is None else profile.family)
    level = level_given(level_map, level_kind, level_absolute, profile is not None, noise)
    if level is not None and noise == AUTO:
        noise = "power-law"
    source = model_for(preset, model)
    if isinstance(noise, str) and noise not in (AUTO, *FAMILIES):
        there = ", ".join((AUTO, *FAMILIES))
        raise InputError(f"noise {noise!r}: there are {there}, or a noise model")
    load = load_for_pictures if isinstance(noise, str) else load_model
    denoiser = load(source) if isinstance(source, str | Path) else as_denoiser(source)
    on_unit_range = isinstance(source, str | Path) or denoiser.pictures
    denoiser = denoiser_for(preset, on_device(denoiser, device, precision=precision))
    kept = shares_kept(keep)
    if noise == AUTO and not denoiser.camera:
        noise = "power-law"  # all that it knows

    def setting(
        given: Given, family: str | NoiseModel, s: float, level: GivenLevel | None
    ) -> tuple[Problem, Tensor | None]:
        depth = depth_of(given.encoding.dtype, given.full, given.steps)
        given, log_sd = (given, None) if level is None else level.on(given)
        encoding = replace(given.encoding, unit=given.encoding.unit / s)
        return picture_problem(
            given.values,
            family_of(family, len(given.values), depth),
            stretched_known(dict(known or {}), s),
            denoiser,
            boundary,
            tile,
            on_unit_range,
            depth,
            given.pages,
            given.shared,
            None if profile is None else profile.told(encoding, noise_from is not None),
            None if log_sd is None or level is None else (log_sd, level.absolute),
        )

    options = partial(
        options_of,
        second_stage=second_stage,
        samples=samples,
        checkpoint=None if checkpoint is None else Path(checkpoint),
        seed=seed,
        weights=weights_given(weights),
        weighted_chains=weighted_chains,
        best=best,
        check=check,
        **chosen,
    )
    flow = partial(
        by_kind,
        level=level,
        noise=noise,
        setting=setting,
        options=options,
        keep=kept,
        offset=offset,
    )
    with reporter(progress) as report:

        def one(picture: Any) -> Posterior:
            given = read(picture) if level is None else level.on(read(picture))[0]
            return without_impulses(partial(flow, progress=report), given, impulses)

        if not is_several(picture):
            return one(picture)
        if checkpoint is not None:
            raise InputError("checkpoint: a file is for the chains of one picture")
        found: list[Posterior] = []
        for each in picture:
            try:
                found.append(one(each))
            except KeyboardInterrupt:
                if not found:
                    raise
                break
            if found[-1].interrupted:
                break
        return found
