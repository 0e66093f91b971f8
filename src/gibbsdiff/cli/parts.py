"""The parts of Gibbs chains as options, and the presets that are made of them: for all commands."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


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
Model = Annotated[
    str | None,
    typer.Option(
        help="Model of the package, or a model file. Default: natural, of a preset its own."
    ),
]
