"""The `gibbsdiff` command: thin, and free of torch until a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gibbsdiff import __version__
from gibbsdiff.errors import InputError

app = typer.Typer(
    help="Blind denoising with Gibbs diffusion: the clean signal and the noise, as a posterior.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gibbsdiff {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Blind denoising with Gibbs diffusion: the clean signal and the noise, as a posterior."""


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


Data = Annotated[Path, typer.Option(help="Folder that holds the configuration's folders.")]
Config = Annotated[Path, typer.Argument(help="A TOML file, such as configs/natural.toml.")]


@app.command()
def train(
    config: Config,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for checkpoints and logs.")],
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes of training.")] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in steps instead.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    init: Annotated[Path | None, typer.Option(help="Model file to start from.")] = None,
) -> None:
    """Train a network on folders of images."""
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.loop import train as run

    run(read_config(config), data, out, minutes=minutes, steps=steps, resume=resume, init=init)


@app.command()
def calibrate(
    model: Annotated[str, typer.Argument(help="Model file, or the name of a shipped model.")],
    config: Config,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the calibrated model goes.")],
    card: Annotated[
        bool, typer.Option("--card", help="Also check it on the test images and write a card.")
    ] = False,
    table: Annotated[
        list[Path] | None, typer.Option(help="Further folder of images for the card's tables.")
    ] = None,
) -> None:
    """Measure a network's error model on the calibration images and store it with the weights."""
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.release import calibrate_model, release

    settings = read_config(config)
    with Console().status("measuring c(|k|, N/S_x) …"):
        if card:
            release(model, settings, data, out, name=str(config), test_folders=table or [])
        else:
            calibrate_model(model, settings, data, out)


def main() -> None:
    """Run the command; trouble with what the user gave is one line and exit code 2."""
    try:
        app()
    except (InputError, OSError) as trouble:
        print(f"gibbsdiff: {_one_line(trouble)}", file=sys.stderr)
        sys.exit(2)


def _one_line(trouble: Exception) -> str:
    if isinstance(trouble, OSError) and trouble.strerror:
        return f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return " ".join(str(trouble).split())
