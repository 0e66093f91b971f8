"""Options by one name: `paper` is the algorithm as it is published.

Each is an option of its own as well, and one that is given wins over the preset's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from gibbsdiff.diffusion.denoiser import Denoiser, without_error
from gibbsdiff.errors import InputError

Preset = Literal["paper"]
Purpose = Literal["denoise", "sbc"]
Model = TypeVar("Model")

#: Options of `gibbsdiff.inference.problem.Options`, whatever they are used for.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "method": "gibbs",
        "sampler": "ddpm",  # 1/5,000 a step, from t* of the chain's current σ, variance β
        "starts": "paper",  # σ regressed on y, the rest from the prior
        "adaptation": "paper",  # P = 300, one γ, one metric, in the first iteration alone
        "warm_up": 300,
        "transitions": 10,  # not printed: our choice
        "mean": "average",
        "turned": False,
        "stop_when_converged": False,
    }
}

#: The model where none is given: of the package without a preset, and of each preset.
MODEL = "natural"
MODELS = {"paper": "paper-natural-small"}

#: How long chains are, by what they are for: denoising and its tables, or calibration, which has
#: the lengths of cosmology as well.
LENGTHS: dict[str, dict[Purpose, dict[str, int]]] = {
    "paper": {
        "denoise": {"chains": 16, "draws": 20, "burn_in": 20},
        "sbc": {"chains": 4, "draws": 30, "burn_in": 30},
    }
}


def with_preset(
    name: str | None, given: Mapping[str, Any], purpose: Purpose = "denoise"
) -> dict[str, Any]:
    """The options given, not None, over those of a preset; without a preset, these alone."""
    own = {option: value for option, value in given.items() if value is not None}
    if name is None:
        return own
    check_preset(name)
    method = own.pop("method", "auto")
    if method not in ("auto", PRESETS[name]["method"]):
        raise InputError(f"preset {name}: it is of Gibbs chains, not of the {method} method")
    return {**PRESETS[name], **LENGTHS[name][purpose], **own, "preset": name}


def model_for(name: str | None, given: Model | None = None) -> Model | str:
    """The model for pictures: the one given, or that of the preset, or the package's own."""
    if given is not None:
        return given
    if name is None:
        return MODEL
    check_preset(name)
    return MODELS[name]


def denoiser_for(name: str | None, denoiser: Denoiser) -> Denoiser:
    """The denoiser as a preset has it: the paper has D alone, without a model of its error."""
    return denoiser if name is None else without_error(denoiser)


def check_preset(name: str) -> None:
    """Refuse a name that is none."""
    if name not in PRESETS:
        raise InputError(f"preset {name!r}: there is {', '.join(PRESETS)}")
