"""`gibbsdiff denoise`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from gibbsdiff.cli import denoise_options as option
from gibbsdiff.cli.app import app, say
from gibbsdiff.cli.denoise_options import Boundary, Method, Noise, Transfer
from gibbsdiff.cli.parts import (
    Mean,
    Model,
    Preset,
    Sampler,
    Starts,
    WarmUp,
    WeightedChains,
    Weights,
    WeightsName,
    check_weights,
)
from gibbsdiff.errors import InputError


@app.command()
def denoise(
    pictures: option.Pictures,
    output: option.Output = None,
    method: option.HowFound = Method.auto,
    preset: Preset = None,
    noise: option.NoiseName = None,
    sigma: option.Sigma = None,
    phi: option.Phi = None,
    chains: option.Chains = None,
    draws: option.Draws = None,
    burn_in: option.BurnIn = None,
    calls: option.Calls = None,
    samples: option.Samples = None,
    quick: option.Quick = False,
    second_stage: option.SecondStage = None,
    density: option.DrawnFrom = None,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    mean: Mean = None,
    weights: Weights = None,
    weighted_chains: WeightedChains = False,
    keep: option.Keep = 0.0,
    keep_chroma: option.KeepChroma = None,
    offset: option.Offset = None,
    best: option.Best = False,
    turned: option.Turned = None,
    check: option.Check = True,
    impulses: option.Impulses = None,
    checkpoint: option.Checkpoint = None,
    boundary: option.Beyond = Boundary.open,
    tile: option.Tile = None,
    memory: option.Memory = None,
    model: Model = None,
    device: option.Device = "cpu",
    precision: option.HowPrecise = option.Precision.auto,
    figure: option.Figure = True,
    html: option.Html = False,
    posterior: option.Posterior = True,
    clobber: option.Clobber = True,
    level_map: option.LevelMapFile = None,
    level_kind: option.KindOfLevel = option.LevelKind.sd,
    level_absolute: option.LevelAbsolute = False,
    no_level_map: option.NoLevelMap = False,
    noise_from: option.NoiseFrom = None,
    noise_prior: option.NoisePrior = None,
    save_noise: option.SaveNoise = None,
    axes: option.Axes = None,
    each: option.Each = False,
    same_noise: option.SameNoise = False,
    cluster: option.Cluster = None,
    transfer: option.OfLight = Transfer.auto,
    seed: option.Seed = 0,
) -> None:
    """Denoise pictures blindly: the clean picture, its uncertainty, and the noise's parameters.

    Ctrl-C ends the current picture with what is there; a second one ends at once.
    """
    if quick and second_stage:
        raise InputError("--quick leaves out the second stage: give --quick or --second-stage")
    of_marginal = {
        "--quick": quick,
        "--second-stage": second_stage is not None,
        "--density": density is not None,
    }
    of_gibbs = {
        "--preset": preset is not None,
        "--burn-in": burn_in is not None,
        "--starts": starts is not None,
        "--warm-up": warm_up is not None,
        "--mean": mean is not None,
        "--weighted-chains": weighted_chains,
        "--checkpoint": checkpoint is not None,
    }
    of_both = {
        "--method": method != Method.auto,
        "--chains": chains is not None,
        "--draws": draws is not None,
        "--weights": weights is not None,
    }
    how = _method(method, _given(of_marginal), _given(of_gibbs))
    known = {n: v for n, v in (("sigma", sigma), ("phi", phi)) if v is not None}
    few = how == Method.gibbs or weights is not None or bool(_given(of_marginal))
    profile = _profile(noise_from, noise_prior, noise, known)
    noise = noise or _usual(profile, few or preset is not None or bool(known))
    if noise_from is not None or option.is_all_known(noise, known):
        idle = of_both | of_marginal | of_gibbs | {"--save-noise": save_noise is not None}
        if _given(idle):
            line = "the noise is given, and nothing is left to infer but x"
            raise InputError(f"{_given(idle)[0]}: {line}")
    check_weights(preset, weights, weighted_chains)

    from gibbsdiff.cli.pictures import find, prepare
    from gibbsdiff.cli.wishes import Wishes
    from gibbsdiff.diffusion.boundary import on_device
    from gibbsdiff.inference.presets import model_for
    from gibbsdiff.pretrained import load_for_pictures

    stream = "-" in pictures
    if stream and len(pictures) > 1:
        raise InputError("-: standard input is one picture, and none can be named beside it")
    files, failed = ([], 0) if stream else find(pictures)
    if not files and not stream:
        raise typer.Exit(2)
    named = len(files) + failed
    many = named > 1
    _check_series(same_noise, len(files), each, axes)
    _of_files(cluster, {"-": stream, "--same-noise": same_noise, "--save-noise": bool(save_noise)})
    if many or cluster is not None:
        _of_one_picture("--checkpoint", "chains", checkpoint)
        _of_one_picture("--save-noise", "noise", save_noise)
    options: dict[str, Any] = {
        "noise": noise,
        "known": known,
        "model": on_device(load_for_pictures(model_for(preset, model)), device),
        "method": how,
        "boundary": boundary,
        "chains": chains,
        "draws": draws,
        "burn_in": burn_in,
        "calls": calls,
        "samples": samples,
        "second_stage": False if quick else second_stage,
        "density": density,
        "preset": preset,
        "starts": starts,
        "sampler": sampler,
        "warm_up": warm_up,
        "mean": mean,
        "weights": weights,
        "weighted_chains": weighted_chains,
        "offset": offset,
        "best": best,
        "turned": turned,
        "check": check,
        "impulses": impulses,
        "checkpoint": checkpoint,
        "tile": tile,
        "precision": precision,
        "level_map": _level(level_map, level_kind, level_absolute, no_level_map),
        "noise_from": profile if noise_from is not None else None,
        "noise_prior": profile if noise_prior is not None else None,
        "seed": seed,
    }
    given = {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in options.items()
        if value is not None
    }
    if weights == WeightsName.none:
        given["weights"] = None
    given["keep"] = (keep, keep if keep_chroma is None else keep_chroma)
    wanted = (output, figure, posterior, clobber, given, html, save_noise)
    wishes = Wishes(*wanted, axes, each, transfer.value, _bytes(memory, tile))
    if output is not None:
        prepare(output, many)
    where = None if cluster is None else (cluster, model_for(preset, model), device)
    failed += _run(files, wishes, stream, same_noise, many, where)
    if failed and many and cluster is None:
        say(f"{failed} of {named} failed")
    if failed:
        raise typer.Exit(2 if cluster is None else 1)


def _run(
    files: list[Path], wishes: Any, stream: bool, same_noise: bool, many: bool, where: Any
) -> int:
    """Denoise them in this process or on a cluster; how many failed."""
    if where is not None:
        from gibbsdiff.cli.cluster import denoise_on_cluster

        return denoise_on_cluster(files, wishes, many, *where)
    from gibbsdiff.cli.pictures import denoise_files, denoise_stream
    from gibbsdiff.cli.stacks import denoise_alike

    if stream:
        denoise_stream(wishes)
        return 0
    return denoise_alike(files, wishes) if same_noise else denoise_files(files, wishes, many)


def _check_series(same_noise: bool, files: int, each: bool, axes: str | None) -> None:
    """Refuse options of stacks for pictures, and of several pictures for one."""
    if same_noise and files < 2:
        raise InputError("--same-noise: one picture has its noise for itself")
    if same_noise and (each or axes is not None):
        other = "--each" if each else "--axes"
        raise InputError(f"{other} is for stacks, --same-noise for pictures")


def _bytes(memory: str | None, tile: int | None) -> float | None:
    """The memory that was given, which chooses tiles."""
    if memory is None:
        return None
    if tile is not None:
        raise InputError("--memory chooses tiles: give --memory or --tile")
    from gibbsdiff.inference.cost import bytes_of

    return bytes_of(memory)


def _of_files(cluster: str | None, others: dict[str, bool]) -> None:
    """Refuse what no cluster can do."""
    if cluster is not None and (given := _given(others)):
        raise InputError(f"{given[0]}: not on a cluster, where every file is a task of its own")


def _given(options: dict[str, bool]) -> list[str]:
    return [name for name, present in options.items() if present]


def _method(method: Method, of_marginal: list[str], of_gibbs: list[str]) -> Method:
    """The method; "auto" is the one that the options given are of."""
    if of_gibbs and (of_marginal or method == Method.marginal):
        raise InputError(f"{of_gibbs[0]} is for Gibbs chains, not for the marginal method")
    if of_marginal and method == Method.gibbs:
        raise InputError(f"{of_marginal[0]} is for the marginal method, not for Gibbs chains")
    if method != Method.auto:
        return method
    return Method.marginal if of_marginal else Method.gibbs if of_gibbs else method


def _of_one_picture(name: str, what: str, file: Path | None) -> None:
    """Refuse a file that holds what belongs to a single picture."""
    if file is not None:
        raise InputError(f"{name}: a file is for the {what} of one picture")


def _usual(profile: Any, plain: bool) -> Noise:
    """The family, if none was named."""
    if profile is not None:
        return Noise(profile.family)
    return Noise.power_law if plain else Noise.auto


def _level(file: str | None, kind: option.LevelKind, absolute: bool, none: bool) -> Any:
    """The level map, read and checked before the first picture; False: not even a file's own."""
    if file is None:
        if absolute:
            raise InputError("--level-absolute: needs --level-map")
        return False if none else None
    if none:
        raise InputError("--no-level-map: a level map is given")
    from gibbsdiff.inference.given_level import GivenLevel
    from gibbsdiff.io.level_map import read_map

    return GivenLevel.of(read_map(file), kind.value, absolute, file)


def _profile(known: Path | None, prior: Path | None, noise: Noise | None, others: Any) -> Any:
    """The noise profile, read and checked before the first picture."""
    if known is None and prior is None:
        return None
    from gibbsdiff.inference.profile import profile_given

    return profile_given(known, prior, None if noise is None else noise.value, others)
