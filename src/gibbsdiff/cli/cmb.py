"""`gibbsdiff cmb`: the cosmology commands."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gibbsdiff.cli.app import app
from gibbsdiff.cli.parts import (
    DustWeights,
    Mean,
    Preset,
    Sampler,
    Starts,
    WarmUp,
    WeightedChains,
    WeightsName,
    check_weights,
)
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import Device, MethodName, options_of_method
from gibbsdiff.errors import InputError

if TYPE_CHECKING:
    from gibbsdiff.cosmo.infer import DustModel
    from gibbsdiff.cosmo.mock import Mixture
    from gibbsdiff.cosmo.skies import Sky
    from gibbsdiff.inference.posterior import Posterior
    from gibbsdiff.inference.problem import Options
    from gibbsdiff.inference.weights import Sureness

ModelFile = Annotated[
    str | None,
    typer.Option(help="Model file, or a shipped one. Default: by the side and the preset."),
]
BurnIn = Annotated[
    int | None,
    typer.Option(help="Of Gibbs chains, before the draws. Default: a fifth of them.", min=0),
]
DustCalls = Annotated[int, typer.Option(help="Network calls for a sample of dust.", min=1)]
SampleCalls = Annotated[
    int | None,
    typer.Option(help="Network calls for a sample of dust. Default: 12; ddpm has its own.", min=1),
]
ChainCalls = Annotated[
    int | None,
    typer.Option(
        help="Network calls for a draw of dust inside Gibbs chains.", min=1, show_default="1"
    ),
]


class SkyName(StrEnum):
    """What the CMB of a mock is drawn on; see `gibbsdiff.cosmo.skies`."""

    flat = "flat"
    cut = "cut"
    curved = "curved"


cmb = typer.Typer(help="Cosmology: spectra of the CMB and simulated dust.", no_args_is_help=True)
app.add_typer(cmb, name="cmb")


def _range(text: str) -> tuple[str, tuple[float, float]]:
    try:
        name, limits = text.split("=")
        low, high = limits.split(":")
        return name.strip(), (float(low), float(high))
    except ValueError:
        raise InputError(f"--parameter {text}: write it as n_s=0.92:1.0") from None


@cmb.command()
def emulator(
    output: Annotated[Path, typer.Option("--output", "-o", help="The emulator's file, .npz.")],
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            help="A parameter and its range, n_s=0.92:1.0; again for each. Default: H0, omega_b."
        ),
    ] = None,
    spectra: Annotated[
        Path | None, typer.Option(help="Fit these stored spectra (.npz); do not run CAMB.")
    ] = None,
    degree: Annotated[int | None, typer.Option(help="Total degree of the fit.", min=1)] = None,
    points: Annotated[int | None, typer.Option(help="Spectra to fit.", min=2)] = None,
    held_out: Annotated[int, typer.Option(help="Spectra to measure the error on.", min=1)] = 64,
    lmax: Annotated[int, typer.Option(help="Highest multipole.", min=100)] = 2000,
    workers: Annotated[int | None, typer.Option(help="Processes; default: all cores.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the design.", min=0)] = 0,
) -> None:
    """Make an emulator of CMB spectra with CAMB, and measure its error on held-out spectra.

    The spectra are kept beside it, in OUTPUT.spectra.npz; a command that was stopped goes on
    from there.
    """
    from math import comb

    from gibbsdiff.cosmo import emulator as emulators
    from gibbsdiff.cosmo.spectra import PRIOR, compute, design, read_spectra
    from gibbsdiff.noise.emulator import KINDS

    if spectra is not None:
        if parameter:
            raise InputError("--spectra has its parameters; do not give --parameter as well")
        found = read_spectra(spectra)
    else:
        box = dict(map(_range, parameter)) if parameter else PRIOR
        highest = 1 + (degree or emulators.default_degree(len(box)))
        terms = comb(highest + len(box), len(box))
        if points is not None and points < terms:
            raise InputError(f"--points {points}: the fit has {terms} terms; give more or --degree")
        wanted = design(box, points or 3 * terms, held_out, lmax, seed)
        beside = output.with_name(output.name.removesuffix(".npz") + ".spectra.npz")
        with bar_for("CAMB", len(wanted.params)) as done:
            found = compute(wanted, beside, workers or os.cpu_count() or 1, done)
    fitted = {kind: emulators.fit(found, kind, degree) for kind in KINDS}
    for kind, model in fitted.items():
        error = emulators.held_out_error(model, found, kind)
        print(
            f"{kind}: {len(model.exponents)} terms, {int(found.is_test.sum())} held-out spectra: "
            f"max {100 * error.max:.3f} %, rms {100 * error.rms:.4f} %"
        )
    emulators.save_emulator(output, fitted)
    print(f"emulator: {output}")


@cmb.command()
def simulate(
    output: Annotated[Path, typer.Option("--output", "-o", help="The maps' file, .npz.")],
    maps: Annotated[int, typer.Option(help="How many maps, at least.", min=1)] = 1000,
    size: Annotated[int, typer.Option(help="Side of the box and of a map, in cells.")] = 256,
    mach: Annotated[float, typer.Option(help="Mach number of the turbulence.")] = 5.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same maps.", min=0)] = 0,
    coarse: Annotated[
        float, typer.Option(help="Turnovers to run first on a grid half as fine, below 3.", min=0)
    ] = 0.0,
) -> None:
    """Simulate dust maps: column densities of driven isothermal turbulence.

    A command that was stopped goes on from its checkpoint, OUTPUT.checkpoint.npz.
    """
    from gibbsdiff.data.dust import simulate as run

    with bar_for("maps", 6 * -(-maps // 6)) as done:
        run(output, maps, size, mach, seed, done, coarse)
    print(f"maps: {output}")


@cmb.command()
def infer(
    map_: Annotated[
        Path | None, typer.Argument(metavar="[MAP]", help="A map, .fits or .npy.")
    ] = None,
    mock: Annotated[
        tuple[float, float, float] | None,
        typer.Option(metavar="H0 OMEGA_B SIGMA", help="Make a mixture of this truth instead."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path(
        "cmb"
    ),
    size: Annotated[
        int | None, typer.Option(help="Side of a mock, 128 or 256.", show_default="128")
    ] = None,
    dust: Annotated[
        Path | None, typer.Option(help="Dust maps for a mock (.npz of `cmb simulate`).")
    ] = None,
    sky: Annotated[
        SkyName | None,
        typer.Option(
            help="CMB of a mock: flat and periodic; cut out of a wider flat sky; curved.",
            show_default="flat",
        ),
    ] = None,
    dust_rms: Annotated[
        float | None, typer.Option(help="rms of the dust in the map, µK: what σ = 1 means.")
    ] = None,
    model: ModelFile = None,
    method: Annotated[
        MethodName, typer.Option(help="gibbs (from the marginal mode) or marginal.")
    ] = MethodName.gibbs,
    preset: Preset = None,
    chains: Annotated[int | None, typer.Option(help="Chains. Default: 4.", min=1)] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Draws of each chain, at most. Default: 400, of a preset 30 after as many.",
            min=1,
        ),
    ] = None,
    burn_in: BurnIn = None,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    mean: Mean = None,
    weights: DustWeights = None,
    weighted_chains: WeightedChains = False,
    calls: SampleCalls = None,
    chain_calls: ChainCalls = None,
    samples: Annotated[int, typer.Option(help="Pairs of maps to keep.", min=0)] = 8,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(help="The same seed, the same result.", min=0)] = 0,
) -> None:
    """Separate dust and CMB, and infer (σ, H0, ω_b): maps, chains and a page.

    The patch is taken to be flat and periodic, of 8′ pixels. σ is the CMB's rms at the fiducial
    cosmology over the dust's. Written: dust.fits, cmb.fits, mixture.fits, posterior.nc,
    chains_*.txt and report.png. Ctrl-C ends with what is there; a second one ends at once.
    """
    from gibbsdiff.cosmo.command import map_with_model, mock_with_model
    from gibbsdiff.cosmo.infer import SURE, options_of

    if (map_ is None) == (mock is None):
        raise InputError("give a map, or --mock H0 OMEGA_B SIGMA")
    parts = parts_of_chains(
        method,
        preset=preset,
        burn_in=burn_in,
        starts=starts,
        sampler=sampler,
        warm_up=warm_up,
        mean=mean,
        weighted_chains=weighted_chains or None,
    )
    check_weights(preset, weights, weighted_chains, WeightsName.none)
    parts |= {"method": method.value, "chains": chains, "draws": draws}
    parts |= {"calls": calls, "chain_calls": chain_calls}
    options = options_of(**parts, samples=samples, seed=seed)
    if mock is not None:
        drawn: Sky = "flat" if sky is None else sky.value
        mixture, found = mock_with_model(
            mock, size or 128, dust, dust_rms, model, seed, preset, drawn
        )
    else:
        assert map_ is not None
        for name, value in (("--size", size), ("--dust", dust), ("--sky", sky)):
            if value is not None:
                raise InputError(f"{name}: for a mock, not for a map")
        mixture, found = map_with_model(map_, dust_rms, model, preset)
    listening = SURE if weights == WeightsName.sure else None
    result, interrupted = separate(mixture, found, output, options, device, listening)
    print(result.summary())
    print(f"results: {output}")
    if interrupted:
        raise KeyboardInterrupt


def parts_of_chains(method: MethodName, **given: Any) -> dict[str, Any]:
    """What was given for Gibbs chains, by the names of their options; refused for others."""
    return options_of_method(
        method, gibbs={name: (value, None) for name, value in given.items()}, marginal={}
    )


def separate(
    mixture: Mixture,
    found: DustModel,
    output: Path,
    options: Options,
    device: str,
    listening: Sureness | None = None,
) -> tuple[Posterior, bool]:
    """Infer with a progress bar, and write the files: after Ctrl-C, of what is there. Also whether
    Ctrl-C was pressed.
    """
    from gibbsdiff.cli.interrupts import gentle_interrupts
    from gibbsdiff.cli.progress import stages
    from gibbsdiff.cosmo.command import write
    from gibbsdiff.cosmo.infer import infer
    from gibbsdiff.noise.cmb import CMBNoise

    noise = CMBNoise()
    with gentle_interrupts() as interrupts:
        with stages() as show:
            progress = interrupts.heeded_by(show)
            posterior = infer(mixture, found, noise, options, progress, device, listening)
        with interrupts.waiting():
            write(output, mixture, posterior, noise, options.seed)
    return posterior, interrupts.asked
