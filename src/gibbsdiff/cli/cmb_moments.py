"""`gibbsdiff cmb moments`: the moment network that searches on maps of dust start from."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.cli.cmb import cmb
from gibbsdiff.cli.training import Config, Data, Device


class Kind(StrEnum):
    """Which moment network: ours, or a network of the paper's kind."""

    ours = "ours"
    paper = "paper"


@cmb.command()
def moments(
    config: Config,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="NAME.moments.npz, for NAME.safetensors.")
    ],
    kind: Annotated[
        Kind, typer.Option(help="ours, or the paper's: residual blocks, mean squared error.")
    ] = Kind.ours,
    steps: Annotated[int, typer.Option(help="Steps of training; 0: measure OUTPUT.", min=0)] = 3000,
    batch: Annotated[int, typer.Option(help="Maps of a step.", min=2)] = 32,
    init: Annotated[Path | None, typer.Option(help="Moment network to begin with.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Also measure the mode that this model finds.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Mixtures of every map to measure on.", min=1)] = 12,
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.", min=0)] = 0,
    device: Device = "auto",
) -> None:
    """Train a moment network, E[σ, H0, ω_b | y] and its spread, and compare starts. The paper's
    has one spread for all y, that of its errors on the selection maps.

    CONFIG is the dust model's, such as configs/cosmo128.toml. Compared, on the selection and on the
    test maps, are the moment network, the best of many prior draws for Gaussian dust, and, with
    --model, the mode of the marginal method from either.
    """
    from gibbsdiff.cosmo.infer import dust_model
    from gibbsdiff.cosmo.moment_start import moments_bytes, read_moments
    from gibbsdiff.cosmo.moment_training import compare_starts, train_moments
    from gibbsdiff.diffusion.boundary import on_device
    from gibbsdiff.diffusion.signal import TabulatedSignal
    from gibbsdiff.inference.progress import reporter
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.noise.cmb import CMBNoise
    from gibbsdiff.training.config import read_config
    from gibbsdiff.training.maps import PeriodicMaps
    from gibbsdiff.training.parallel import device_named

    settings, noise = read_config(config), CMBNoise()
    maps = PeriodicMaps(settings, data).maps
    place, denoiser = device_named(device), None
    if model is not None:
        denoiser = on_device(dust_model(maps.side, model).denoiser, place)
    if steps:
        begin = None if init is None else read_moments(init)
        with reporter(True) as progress:
            found = train_moments(
                maps,
                noise,
                steps,
                batch,
                seed,
                kind="paper" if kind is Kind.paper else "ours",
                init=begin,
                device=place,
                progress=progress,
            )
        write_atomically(output, moments_bytes(found))
    start, signal = read_moments(output), TabulatedSignal.measured(maps.train)
    for role, x in (("selection", maps.selection), ("test", maps.test)):
        with reporter(True) as progress:
            table = compare_starts(
                start, x, noise, signal, denoiser, repeats=repeats, seed=seed, progress=progress
            )
        print(f"{role} maps\n{table}")
    print(f"moment network: {output}")
