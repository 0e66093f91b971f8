"""`gibbsdiff cmb columns`: dust maps from density cubes of other simulations."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.cli.cmb import cmb
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.errors import InputError


@cmb.command()
def columns(
    cubes: Annotated[
        list[Path], typer.Argument(metavar="CUBE...", help="Density cubes: FITS, HDF5 or NPY.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The maps' file, .npz.")],
    axis: Annotated[
        list[int] | None,
        typer.Option(
            help="Line of sight, 0, 1 or 2; again for each.",
            min=0,
            max=2,
            show_default="all three",
        ),
    ] = None,
    slabs: Annotated[int, typer.Option(help="Slabs to cut each box into.", min=1)] = 1,
    dataset: Annotated[str | None, typer.Option(help="Name of the density in HDF5 files.")] = None,
) -> None:
    """Make dust maps from density cubes, such as those of CATS: mean density along the line of
    sight, as [data] maps of `gibbsdiff train` has it.

    Written is the array maps (cubes, axes × slabs, side, side). All maps of a cube show the same
    gas, so [data.blocks] splits by cube.
    """
    from gibbsdiff.data.cubes import write_columns

    if output.suffix != ".npz":
        raise InputError(f"{output}: the maps' file ends in .npz")
    with bar_for("cubes", len(cubes)) as done:
        shape = write_columns(cubes, output, sorted(set(axis or range(3))), slabs, dataset, done)
    print(f"maps: {output} ({'×'.join(map(str, shape))})")
