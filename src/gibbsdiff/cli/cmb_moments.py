"""`gibbsdiff cmb moments`: the moment network that searches on maps of dust start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.cli.cmb import cmb
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.training import Config, Data


@cmb.command()
def moments(
    config: Config,
    data: Data,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="NAME.moments.npz, for NAME.safetensors.")
    ],
    steps: Annotated[int, typer.Option(help="Steps of training; 0: measure OUTPUT.", min=0)] = 3000,
    batch: Annotated[int, typer.Option(help="Maps of a step.", min=2)] = 32,
    init: Annotated[Path | None, typer.Option(help="Moment network to begin with.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Also measure the mode that this model finds.")
    ] = None,
    repeats: Annotated[int, typer.Option(help="Mixtures of every map to measure on.", min=1)] = 12,
    seed: Annotated[int, typer.Option(help="The same seed gives the same weights.", min=0)] = 0,
) -> None:
    """Train a moment network, E[σ, H0, ω_b | y] and its spread, and compare starts.

    CONFIG is the dust model's, such as configs/cosmo128.toml. Compared, on the selection and on the
    test maps, are the moment network, the best of many prior draws for Gaussian dust, and, with
    --model, the mode of the marginal method from either.
    """
    from gibbsdiff.cosmo.infer import dust_model
    from gibbsdiff.cosmo.moment_start import moments_bytes, read_moments
    from gibbsdiff.cosmo.moment_training import measured, train_moments
    from gibbsdiff.cosmo.training import dust_maps
    from gibbsdiff.diffusion.signal import TabulatedSignal
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.noise.cmb import CMBNoise
    from gibbsdiff.training.config import read_config

    settings, noise = read_config(config), CMBNoise()
    maps = dust_maps(settings, data)
    denoiser = None if model is None else dust_model(maps.side, model).denoiser
    if steps:
        begin = None if init is None else read_moments(init)
        with bar_for("steps", steps) as done:
            found = train_moments(maps, noise, steps, batch, seed, init=begin, watch=done)
        write_atomically(output, moments_bytes(found))
    start, signal = read_moments(output), TabulatedSignal.measured(maps.train)
    for role, x in (("selection", maps.selection), ("test", maps.test)):
        with bar_for(role, repeats * len(x)) as done:
            table = measured(
                start, x, noise, signal, denoiser, repeats=repeats, seed=seed, watch=done
            )
        print(f"{role} maps\n{table}")
    print(f"moment network: {output}")
