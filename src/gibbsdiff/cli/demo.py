"""`gibbsdiff demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gibbsdiff.cli.app import app
from gibbsdiff.cli.interrupts import gentle_interrupts
from gibbsdiff.cli.progress import stages


@app.command()
def demo(
    picture: Annotated[
        str, typer.Option(help="astronaut, coffee, chelsea or rocket.")
    ] = "astronaut",
    sigma: Annotated[float, typer.Option(help="Noise level.")] = 0.1,
    phi: Annotated[float, typer.Option(help="Spectral index: -1 pink, 0 white, 1 blue.")] = -0.7,
    size: Annotated[int, typer.Option(help="Side of the picture in pixels.")] = 160,
    chains: Annotated[int, typer.Option(help="Gibbs chains; 0 leaves them out.", min=0)] = 4,
    device: Annotated[str, typer.Option(help="Where the network runs: cpu, cuda, ...")] = "cpu",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures.")] = Path(
        "demo"
    ),
) -> None:
    """Add pink noise to a photograph, and find picture and noise again without being told."""
    from gibbsdiff.evidence.demo import demonstrate, observe, write

    console = Console(highlight=False)
    x, y = observe(picture, sigma, phi, size, seed)
    output.mkdir(parents=True, exist_ok=True)  # trouble with it shows before the work is done
    with gentle_interrupts() as interrupts:
        with stages() as show:
            progress = interrupts.heeded_by(show)
            truth = (sigma, phi)
            done = demonstrate(x, y, truth, seed, chains=chains, device=device, progress=progress)
        interrupts.check()
        with interrupts.waiting():
            files = write(done, output, f"{picture}, σ = {sigma:g}, φ = {phi:g}")
        console.print(f"true noise: σ = {sigma:g}, φ = {phi:g}; found without being told:")
        console.print(done.marginal.summary(), markup=False, soft_wrap=True)
        if done.gibbs is not None:
            console.print(done.gibbs.summary(), markup=False, soft_wrap=True)
        for line in done.psnr_lines():
            console.print(line)
        for file in files:
            console.print(f"figure: {file}", soft_wrap=True)
        if interrupts.asked:
            raise KeyboardInterrupt
