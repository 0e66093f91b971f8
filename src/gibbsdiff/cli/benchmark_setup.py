"""What `gibbsdiff benchmark` makes of its options: methods, chains, files, and a heading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gibbsdiff.cli.parts import PresetName, StartsName, WeightsName, check_weights
from gibbsdiff.errors import InputError

if TYPE_CHECKING:
    from gibbsdiff.evidence.benchmark.chains import ChainLength
    from gibbsdiff.evidence.benchmark.methods import Setup


def groups_of(methods: str | None, dncnn: Path | None) -> list[str]:
    """The methods named, or all that there are files for."""
    from gibbsdiff.evidence.benchmark.methods import GROUPS

    if methods is None:
        return [group for group in GROUPS if group != "dncnn" or dncnn is not None]
    groups = [word.strip() for word in methods.split(",") if word.strip()]
    unknown = [group for group in groups if group not in GROUPS]
    if unknown or not groups:
        raise InputError(f"method {', '.join(unknown) or 'none'}: there are {', '.join(GROUPS)}")
    if "dncnn" in groups and dncnn is None:
        raise InputError("method dncnn: give the file of its weights with --dncnn")
    return groups


def possible(groups: list[str], setup: Setup, named: bool) -> list[str]:
    """The methods that the model can take part in; one that was named and cannot is refused."""
    from gibbsdiff.evidence.benchmark.methods import network

    if network(setup.model, setup.digest("model"), setup.device).error_model:
        return groups
    unable = [group for group in groups if group.startswith("marginal")]
    if unable and named:
        raise InputError(f"method {unable[0]}: {setup.model} has no model of its error")
    return [group for group in groups if group not in unable]


def length_of(
    preset: PresetName | None,
    chains: int | None,
    iterations: int | None,
    paper: bool,
    parts: Mapping[str, StrEnum | None],
    usual: tuple[int, int],
    weighted_chains: bool = False,
) -> ChainLength:
    """How the Gibbs sampler runs; the parts are by their names in `ChainLength`."""
    from gibbsdiff.evidence.benchmark.chains import PAPER, ChainLength

    given: dict[str, Any] = {name: part.value for name, part in parts.items() if part is not None}
    given["weighted_chains"] = weighted_chains
    if preset is not None:
        total = iterations or PAPER.iterations
        how = (chains or PAPER.chains, total, total // 2, PAPER.starts)
        return replace(ChainLength(*how, preset=preset.value), **given)
    if paper:
        return replace(PAPER, **given)
    total = iterations or usual[1]
    return replace(ChainLength(chains or usual[0], total, total // 4), **given)


def setup_of(
    model: str | None,
    dncnn: Path | None,
    length: ChainLength,
    calls: int,
    device: str,
    starts: StartsName | None,
    weights: WeightsName | None = None,
) -> Setup:
    """The files read once; starts and weights that were asked for and cannot be are refused."""
    from gibbsdiff.evidence.benchmark.methods import Setup
    from gibbsdiff.inference.presets import model_for

    preset = None if length.preset is None else PresetName(length.preset)
    # A preset is of the chains alone: the marginal method may be weighted beside it.
    check_weights(preset, weights if preset is None else None, length.weighted_chains)
    path = None if dncnn is None else str(dncnn)
    name = model_for(length.preset, model)
    listening: Literal["sure", "none"] = "none" if weights == WeightsName.none else "sure"
    setup = Setup(name, path, length, calls, device, listening).with_digests()
    bare = length.preset is not None or setup.gibbs.starts != "marginal"
    if starts == StartsName.marginal and bare:
        raise InputError("--starts marginal: it needs a denoiser with an error model")
    return setup


def numbers(option: str, text: str) -> list[float]:
    """Numbers with commas between."""
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: numbers with commas between are needed") from None


def heading(setup: Setup) -> str:
    """Above the tables: versions, model, and how the chains ran."""
    import platform
    from datetime import date

    from gibbsdiff import __version__

    how = setup.gibbs
    drawn = f"{setup.calls} calls for a draw of x" if how.few_step else "x drawn by ddpm"
    if how.preset is not None:
        drawn = f"preset {how.preset}" + (f", {drawn}" if how.few_step else "")
    if how.adaptation is not None:
        drawn += f", warm-up: {how.adaptation}"
    if how.weighted_chains:
        drawn += ", weighted likelihood"
    listening = "" if setup.weights == "sure" else f" Weights of the search: {setup.weights}."
    return (
        f"gibbsdiff {__version__}, {date.today().isoformat()}, {platform.machine()}, one thread. "
        f"Model {setup.model} (SHA-256 {setup.digest('model')}…). Gibbs: {how.chains} chains "
        f"× {how.iterations} iterations, {how.burn_in} of them burn-in, "
        f"{drawn}, starts: {how.starts}.{listening} Nothing is clipped; periodic noise; mean ± "
        "standard error over images."
    )
