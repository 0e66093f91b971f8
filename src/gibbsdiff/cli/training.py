"""`gibbsdiff train` and `gibbsdiff calibrate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gibbsdiff.cli.app import app
from gibbsdiff.errors import InputError

Data = Annotated[Path, typer.Option(help="Folder that holds the configuration's folders.")]
Device = Annotated[
    str,
    typer.Option(help='Where networks are computed: "cpu", "cuda", "cuda:1"; auto: a GPU if any.'),
]
Config = Annotated[Path, typer.Argument(help="A TOML file, such as configs/natural.toml.")]


@app.command()
def train(
    config: Config,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for checkpoints and logs.")],
    minutes: Annotated[float | None, typer.Option(help="Budget in minutes of training.")] = None,
    steps: Annotated[int | None, typer.Option(help="Budget in steps instead.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    init: Annotated[
        str | None, typer.Option(help="Model file, or the name of a shipped model, to start from.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train a network on folders of images, or on a file of maps.

    In several processes: torchrun --nproc_per_node N -m gibbsdiff.cli train …
    """
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.loop import train as run

    run(
        read_config(config),
        data,
        out,
        minutes=minutes,
        steps=steps,
        resume=resume,
        init=init,
        device=device,
        report=partial(print, flush=True),
    )


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
    device: Device = "auto",
) -> None:
    """Measure a network's error model on the calibration images and store it with the weights."""
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.release import calibrate_file, release

    if table and not card:
        raise InputError("--table: tables are part of the card; add --card")
    settings = read_config(config)
    with Console(stderr=True).status("measuring c(|k|, N/S_x) …"):
        if card:
            release(
                model,
                settings,
                data,
                out,
                name=str(config),
                test_folders=table or [],
                device=device,
            )
        else:
            calibrate_file(model, settings, data, out, device=device)


@app.command()
def starts(
    config: Config,
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the regressions go (.npz).")],
) -> None:
    """Fit the guess of the noise that searches start from, on the calibration images."""
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.starts import fit_starts

    with Console(stderr=True).status("regressing ½ log N on the power of y …"):
        report = fit_starts(read_config(config), data, out)
    for channels, figures in report.items():
        print(f"{channels} channels: rms error of ½ log N {figures['rms']:.3f} on held-out images")
