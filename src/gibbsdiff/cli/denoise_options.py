"""The options of `gibbsdiff denoise`: what each may be, and what --help says of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.errors import InputError


class Method(StrEnum):
    """How φ is found."""

    auto = "auto"
    marginal = "marginal"
    gibbs = "gibbs"


class Noise(StrEnum):
    """What the noise may be."""

    auto = "auto"
    photo = "photo"
    curves = "curves"
    power_law = "power-law"
    white = "white"
    banded = "banded"
    poisson_gaussian = "poisson-gaussian"
    counts = "counts"


class Boundary(StrEnum):
    """What lies beyond the border."""

    open = "open"
    periodic = "periodic"


class Density(StrEnum):
    """What the marginal method draws φ from."""

    laplace = "laplace"
    polynomial = "polynomial"


class Precision(StrEnum):
    """What products within the network are made in."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"


class Transfer(StrEnum):
    """What the numbers of a file are."""

    auto = "auto"
    linear = "linear"
    srgb = "srgb"


Pictures = Annotated[
    list[str],
    typer.Argument(
        help="Files, folders or globs: PNG JPEG WebP AVIF TIFF FITS NPY. -: from stdin to stdout."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="File, or folder for several. Default: beside."),
]
HowFound = Annotated[
    Method,
    typer.Option(
        help="auto: the one that other options need, else marginal, which is fast; gibbs "
        "takes minutes."
    ),
]
NoiseName = Annotated[
    Noise | None,
    typer.Option(
        help="Family of the noise. auto: photo, and the simplest that fits as well. Default: "
        "auto; power-law with --sigma, --phi, or options of chains and of the search for them."
    ),
]
Sigma = Annotated[
    float | None, typer.Option(help="Noise level if you know it, picture scaled to [0, 1].")
]
Phi = Annotated[float | None, typer.Option(help="Spectral index if you know it: -1 pink, 0 white.")]
Chains = Annotated[int | None, typer.Option(help="Chains. Default: 4.", min=1)]
Draws = Annotated[int | None, typer.Option(help="Draws of φ in each chain. Default: 50.", min=4)]
BurnIn = Annotated[
    int | None,
    typer.Option(help="Of Gibbs chains, before the draws. Default: a fifth of them.", min=0),
]
Calls = Annotated[
    int | None, typer.Option(help="Network calls for a draw of x. Default: 12.", min=1)
]
Samples = Annotated[
    int | None,
    typer.Option(help="Draws of x to keep. Default: none, and 1 of Gibbs chains.", min=0),
]
Quick = Annotated[
    bool, typer.Option("--quick", help="The marginal method without its second stage.")
]
SecondStage = Annotated[
    bool | None,
    typer.Option(help="Of the marginal method: draws of x for σ. Default: no."),
]
DrawnFrom = Annotated[
    Density | None,
    typer.Option(help="What the marginal method draws φ from. Default: laplace."),
]
Keep = Annotated[
    float, typer.Option(help="Share of the noise to keep in the picture.", min=0, max=1)
]
KeepChroma = Annotated[
    float | None,
    typer.Option(help="The same of chroma noise. Default: as --keep.", min=0, max=1),
]
Offset = Annotated[
    float | None,
    typer.Option(help="Pedestal of counted light in the file's units: tells read noise apart."),
]
Best = Annotated[
    bool, typer.Option("--best", help="Mean over the 8 symmetries of the square: 0.1 dB.")
]
Turned = Annotated[
    bool | None,
    typer.Option(
        "--turned/--no-turned",
        help="Draws of x: a random symmetry of the square at each call. Default: of Gibbs chains.",
    ),
]
Impulses = Annotated[
    bool | None,
    typer.Option(
        help="Infer pixels that stand out of all around them from the others. Default: where a "
        "colour picture of 8 bits has many.",
    ),
]
Check = Annotated[bool, typer.Option(help="Check the noise model on the picture.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(help="File that Gibbs chains of one picture are kept in, and go on from."),
]
Beyond = Annotated[Boundary, typer.Option(help="periodic for simulations.")]
Tile = Annotated[
    int | None, typer.Option(help="Side of tiles, to save memory. Default: above 1024.", min=64)
]
Memory = Annotated[
    str | None, typer.Option(help="Memory to keep within, such as 4G: it chooses the tiles.")
]
Device = Annotated[str, typer.Option(help="Where the network runs: cpu, cuda, ...")]
HowPrecise = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="Of the network. auto: bfloat16 where the processor has it, twice as fast.",
    ),
]
Figure = Annotated[bool, typer.Option(help="Write the report figure.")]
Html = Annotated[
    bool, typer.Option("--html", help="Write a report with a slider, as one HTML file.")
]
Posterior = Annotated[bool, typer.Option(help="Write the posterior, the largest of the files.")]
Clobber = Annotated[
    bool, typer.Option(help="Write over results that exist, or skip their pictures.")
]


class LevelKind(StrEnum):
    """What the numbers of a level map are."""

    sd = "sd"
    variance = "variance"
    ivar = "ivar"
    flat = "flat"


LevelMapFile = Annotated[
    str | None, typer.Option("--level-map", help="File of where the noise is how strong.")
]
KindOfLevel = Annotated[
    LevelKind, typer.Option("--level-kind", help="What the map holds: flat is a flat field.")
]
LevelAbsolute = Annotated[
    bool, typer.Option("--level-absolute", help="The map is the sd itself, not up to a factor.")
]
NoLevelMap = Annotated[
    bool, typer.Option("--no-level-map", help="Do not use the map that a FITS file has.")
]
NoiseFrom = Annotated[
    Path | None, typer.Option(help="A noise profile: the noise is known, that of another picture.")
]
NoisePrior = Annotated[
    Path | None, typer.Option(help="A noise profile that is the prior of this picture's noise.")
]
SaveNoise = Annotated[
    Path | None, typer.Option(help="File that the noise of one picture is kept in, a profile.")
]
Axes = Annotated[
    str | None,
    typer.Option(help="Axes of a stack that does not say them itself, such as TZCYX."),
]
Each = Annotated[
    bool, typer.Option("--each", help="Of a stack: every page has a noise of its own.")
]
SameNoise = Annotated[
    bool, typer.Option("--same-noise", help="One noise for all pictures; scores add up.")
]
OfLight = Annotated[
    Transfer,
    typer.Option(
        "--transfer", help="Whether numbers are linear light or sRGB. auto: what the file says."
    ),
]
Cluster = Annotated[
    str | None,
    typer.Option(help="local, local:N, or the address of a Dask scheduler: files are tasks."),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)]


def is_all_known(noise: Noise, known: dict[str, float]) -> bool:
    """Whether every parameter is known; values are checked here, before the first picture."""
    from gibbsdiff.inference.setting import FAMILIES, Depth
    from gibbsdiff.noise.fixed import all_values
    from gibbsdiff.noise.photo import ROUNDING

    family = FAMILIES["photo" if noise == Noise.auto else noise.value](3, Depth(ROUNDING))
    try:
        all_values(family, known)
    except InputError as trouble:
        sigma = known.get("sigma", 0.0)
        if not (sigma > 1 and "sigma" in family.names):
            raise
        top = 255 if sigma <= 255 else 65535
        hint = f"{sigma:g} levels of {top} are {sigma / top:.2g}"
        raise InputError(f"{trouble}; σ is in units of the range [0, 1]: {hint}") from None
    return set(known) == set(family.names)
