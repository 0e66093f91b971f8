"""`gibbsdiff demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gibbsdiff.cli import app


@app.command()
def demo(
    sigma: Annotated[float, typer.Option(help="Noise level of the synthetic picture.")] = 0.1,
    phi: Annotated[float, typer.Option(help="Spectral index: -1 pink, 0 white, 1 blue.")] = -0.7,
    size: Annotated[int, typer.Option(help="Side of the picture in pixels.")] = 128,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    noise: Annotated[
        Path | None, typer.Option(help="Infer σ and φ of this noise map (.npy) instead.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for demo.png.")] = Path(
        "demo"
    ),
) -> None:
    """Infer the parameters of a known noise map by HMC, next to the exact posterior."""
    from rich.table import Table

    from gibbsdiff import demo as demonstration

    console = Console()
    with console.status("sampling p(φ | ε) …"):
        if noise is not None:
            result = demonstration.from_file(noise, seed)
        else:
            result = demonstration.synthetic(sigma, phi, size, seed)
        output.mkdir(parents=True, exist_ok=True)
        demonstration.figure(result, output / "demo.png")
    height, width = result.shape
    table = Table(title=f"p(φ | ε), {height}×{width} pixels")
    for heading in ("", "truth", "mean", "sd", "5 %", "95 %", "R-hat", "ESS"):
        table.add_column(heading, justify="right")
    for i, row in enumerate(result.summary):
        truth = "" if result.truth is None else f"{result.truth[i]:g}"
        shown = [f"{v:.4f}" for v in (row.mean, row.sd, row.low, row.high)]
        table.add_row(row.name, truth, *shown, f"{row.rhat:.3f}", f"{row.ess_bulk:.0f}")
    console.print(table)
    console.print(f"acceptance {result.acceptance:.2f}, divergences {result.divergences}")
    console.print(f"figure: {output / 'demo.png'}")
