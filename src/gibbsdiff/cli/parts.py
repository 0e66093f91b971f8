"""What chains and the search are made of as options, and the presets of it: for all commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gibbsdiff.errors import InputError


class PresetName(StrEnum):
    """Options by one name."""

    paper = "paper"


class StartsName(StrEnum):
    """Where Gibbs chains start."""

    marginal = "marginal"
    prior = "prior"
    paper = "paper"


class SamplerName(StrEnum):
    """How x is drawn."""

    few_step = "few-step"
    ddpm = "ddpm"


class WarmUpName(StrEnum):
    """How HMC is adapted."""

    ours = "ours"
    paper = "paper"


class MeanName(StrEnum):
    """What the mean of Gibbs chains is."""

    tweedie = "tweedie"
    average = "average"


class WeightsName(StrEnum):
    """Weights of places in the score of φ."""

    sure = "sure"
    none = "none"


Preset = Annotated[
    PresetName | None,
    typer.Option(help="paper: Gibbs as published; options given beside it win."),
]
Starts = Annotated[
    StartsName | None,
    typer.Option(
        help="Of Gibbs chains. Default: around the marginal mode; of a model without an error "
        "model, from the prior."
    ),
]
Sampler = Annotated[
    SamplerName | None,
    typer.Option(help="How x is drawn; ddpm is the paper's. Default: few-step."),
]
WarmUp = Annotated[WarmUpName | None, typer.Option(help="Of HMC in Gibbs chains. Default: ours.")]
Mean = Annotated[
    MeanName | None,
    typer.Option(help="Of Gibbs chains: D over draws of φ, or draws of x. Default: tweedie."),
]
Weights = Annotated[
    WeightsName | None,
    typer.Option(
        help="Of places, in the search for φ: more where the network is sure, or all alike. "
        "Default: sure."
    ),
]
DustWeights = Annotated[
    WeightsName | None,
    typer.Option(
        help="Of places, in the search for φ: more where the network is sure, or all alike. "
        "Default: none."
    ),
]
WeightedChains = Annotated[
    bool,
    typer.Option("--weighted-chains", help="Gibbs: φ has these weights in the chains as well."),
]
Model = Annotated[
    str | None,
    typer.Option(
        help="Model of the package, or a model file. Default: natural, of a preset its own."
    ),
]


def check_weights(
    preset: PresetName | None,
    weights: WeightsName | None,
    weighted_chains: bool,
    usual: WeightsName = WeightsName.sure,
) -> None:
    """Refuse weights where there are none to be had: by their name, and before any work."""
    given = {"--weights": weights is not None, "--weighted-chains": weighted_chains}
    for name in (name for name, is_given in given.items() if is_given and preset is not None):
        raise InputError(f"{name}: the preset {preset} has no search that could be weighted")
    if weighted_chains and (weights or usual) == WeightsName.none:
        raise InputError("--weighted-chains: with --weights none there are no weights")


def unusual(
    weights: WeightsName | None, weighted_chains: bool, usual: WeightsName = WeightsName.sure
) -> list[str]:
    """What a run's heading and name say of its weights: nothing if they are as usual."""
    words = {
        f"weights {weights}": weights not in (None, usual),
        "weighted chains": weighted_chains,
    }
    return [word for word, true in words.items() if true]


def suffix(words: list[str]) -> str:
    """The same as the end of a file's name."""
    return "".join(f"-{word.replace(' ', '-')}" for word in words)
