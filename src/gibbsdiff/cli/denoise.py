"""`gibbsdiff denoise`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gibbsdiff.cli import app, complain
from gibbsdiff.errors import InputError


class Method(StrEnum):
    """How φ is found."""

    auto = "auto"
    marginal = "marginal"
    gibbs = "gibbs"


class Noise(StrEnum):
    """What the noise may be."""

    power_law = "power-law"
    white = "white"
    banded = "banded"


class Boundary(StrEnum):
    """What lies beyond the border."""

    open = "open"
    periodic = "periodic"


@app.command()
def denoise(
    pictures: Annotated[
        list[str], typer.Argument(help="Files, folders or globs: PNG JPEG WebP TIFF FITS NPY.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File, or folder for several. Default: beside."),
    ] = None,
    method: Annotated[
        Method,
        typer.Option(help="auto: gibbs up to 192² pixels, marginal above."),
    ] = Method.auto,
    noise: Annotated[Noise, typer.Option(help="Family of the noise.")] = Noise.power_law,
    sigma: Annotated[
        float | None, typer.Option(help="Noise level if you know it, picture scaled to [0, 1].")
    ] = None,
    phi: Annotated[
        float | None, typer.Option(help="Spectral index if you know it: -1 pink, 0 white.")
    ] = None,
    chains: Annotated[int, typer.Option(help="Chains.", min=1)] = 4,
    draws: Annotated[int, typer.Option(help="Draws of φ in each chain.", min=4)] = 50,
    calls: Annotated[int, typer.Option(help="Network calls for a draw of x.", min=1)] = 12,
    samples: Annotated[int, typer.Option(help="Draws of x to keep.", min=0)] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="First stage of the marginal method alone: seconds.")
    ] = False,
    boundary: Annotated[Boundary, typer.Option(help="periodic for simulations.")] = Boundary.open,
    tile: Annotated[
        int | None, typer.Option(help="Side of tiles, to save memory. Default: above 1024.", min=64)
    ] = None,
    model: Annotated[str, typer.Option(help="Model of the package, or a model file.")] = "natural",
    figure: Annotated[bool, typer.Option(help="Write the report figure.")] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
) -> None:
    """Denoise pictures blindly: the clean picture, its uncertainty, and the noise's parameters."""
    from gibbsdiff.inference.denoise import FAMILIES
    from gibbsdiff.inference.files import denoise_file, stem_of, target
    from gibbsdiff.noise.fixed import all_values
    from gibbsdiff.pretrained import load_model

    if quick and method == Method.gibbs:
        raise InputError("--quick is of the marginal method: leave it out, or --method gibbs")
    files, failed = _find(pictures)
    if not files:
        raise typer.Exit(2)
    given = {"sigma": sigma, "phi": phi}
    known = {name: value for name, value in given.items() if value is not None}
    all_values(FAMILIES[noise.value](), known)  # once, before the first picture
    options: dict[str, Any] = {
        "noise": noise.value,
        "known": known,
        "model": load_model(model),
        "method": "marginal" if quick else method.value,
        "boundary": boundary.value,
        "chains": chains,
        "draws": draws,
        "calls": calls,
        "samples": samples,
        "second_stage": not quick,
        "tile": tile,
        "seed": seed,
        "progress": sys.stderr.isatty(),
    }
    named = len(files) + failed
    many = named > 1
    if output is not None:
        _prepare(output, many)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    owner: dict[Path, Path] = {}
    for file in files:
        place = target(file, output, many)
        try:
            other = owner.setdefault(stem_of(place), file)
            if other is not file:
                raise InputError(f"{file}: its results would overwrite those of {other}")
            done = denoise_file(file, place, figure=figure, **options)
        except (InputError, OSError) as trouble:
            complain(trouble)
            failed += 1
            continue
        console.print(str(file), style="bold")
        console.print(done.summary)
        for written in done.files:
            console.print(f"  {written}")
    if failed and many:
        print(f"gibbsdiff: {failed} of {named} failed", file=sys.stderr)
    if failed:
        raise typer.Exit(2)


def _find(patterns: list[str]) -> tuple[list[Path], int]:
    """The pictures that these name, each once, and how many name none."""
    from gibbsdiff.io.picture import OUTPUTS, find_pictures

    found: dict[Path, Path] = {}
    failed = 0
    for pattern in patterns:
        try:
            found |= {file.resolve(): file for file in find_pictures(pattern)}
        except InputError as trouble:
            complain(trouble)
            failed += 1
    files = list(found.values())
    # A shell's *.png names what an earlier run has written; a single file is meant as it stands.
    inputs = [file for file in files if not any(mark in file.name for mark in OUTPUTS)]
    if inputs and len(inputs) < len(files):
        print(f"passed over: {len(files) - len(inputs)} results of an earlier run", file=sys.stderr)
        files = inputs
    return files, failed


def _prepare(output: Path, many: bool) -> None:
    """Make the folder, if it is one."""
    from gibbsdiff.io.picture import READERS

    if many and (output.is_file() or (output.suffix in READERS and not output.is_dir())):
        raise InputError(f"{output}: several pictures need a folder, not a file")
    if many or not output.suffix:
        output.mkdir(parents=True, exist_ok=True)
