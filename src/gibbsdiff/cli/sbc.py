"""`gibbsdiff sbc`: simulation-based calibration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gibbsdiff.cli.app import app
from gibbsdiff.cli.parts import Preset, PresetName, Sampler, SamplerName, StartsName, WarmUp
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.errors import InputError

if TYPE_CHECKING:
    from gibbsdiff.evidence.calibration import CalibrationRun

sbc = typer.Typer(
    help="Calibration: are posteriors as wide as they should be?", no_args_is_help=True
)
app.add_typer(sbc, name="sbc")


class MethodName(StrEnum):
    """How φ is inferred."""

    gibbs = "gibbs"
    marginal = "marginal"


class NoiseName(StrEnum):
    """Families of noise."""

    power_law = "power-law"
    white = "white"


class DensityName(StrEnum):
    """What the marginal method draws φ from."""

    laplace = "laplace"
    polynomial = "polynomial"


Method = Annotated[MethodName, typer.Option(help="What is calibrated.")]
Runs = Annotated[int, typer.Option(help="Simulated observations.", min=2)]
Calls = Annotated[
    int | None, typer.Option(help="Network calls for a draw of x.", min=1, show_default="12")
]
Batch = Annotated[int, typer.Option(help="Runs worked on together: a task.", min=1)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)]
Cluster = Annotated[str | None, typer.Option(help="local:N, or the address of a Dask scheduler.")]
Out = Annotated[Path, typer.Option(help="Folder of results and figures.")]
Density = Annotated[
    DensityName | None,
    typer.Option(help="What the marginal method draws φ from.", show_default="laplace"),
]
Device = Annotated[str, typer.Option(help="Where networks run: cpu, cuda, cuda:1, …")]


@sbc.callback()
def about() -> None:
    """Simulation-based calibration: are posteriors as wide as they should be?"""


@sbc.command()
def gaussian(
    runs: Runs = 300,
    size: Annotated[int, typer.Option(help="Side of the images in pixels.", min=8)] = 32,
    sigma_range: Annotated[
        tuple[float, float], typer.Option(help="Prior of σ, uniform: low and high.")
    ] = (0.1, 1.0),
    method: Method = MethodName.gibbs,
    preset: Preset = None,
    noise: Annotated[NoiseName, typer.Option(help="Family of the noise.")] = NoiseName.power_law,
    channels: Annotated[int, typer.Option(help="1 or 3.", min=1, max=3)] = 1,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="Of Gibbs; 6 times as many where slow. Of a preset: 60, and no more.",
            min=30,
            show_default="200",
        ),
    ] = None,
    starts: Annotated[
        StartsName | None, typer.Option(help="Of Gibbs chains.", show_default="prior")
    ] = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    most_iterations: Annotated[
        int | None,
        typer.Option(
            help="Runs that have not converged start again, 4 times as long, up to this length.",
            min=30,
        ),
    ] = None,
    step_by_step: Annotated[
        bool,
        typer.Option(
            "--step-by-step",
            help="Take all steps of the sampler ddpm; without it x has their law at once.",
        ),
    ] = False,
    density: Density = None,
    random_weights: Annotated[
        bool,
        typer.Option(
            "--random-weights",
            help="Of marginal: weigh places by one random map, the same in all runs. Coverage "
            "must be nominal for any weights that are given.",
        ),
    ] = False,
    batch: Batch = 50,
    seed: Seed = 0,
    cluster: Cluster = None,
    out: Out = Path("sbc"),
) -> None:
    """Calibrate on a Gaussian signal, where every conditional is exact.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.evidence.calibration import CalibrationRun

    arguments: dict[str, Any] = {"size": size, "sigma": sigma_range}
    arguments |= {"method": method.value, "noise": noise.value}
    if channels != 1:
        arguments["channels"] = channels
    arguments |= options_of_method(
        method,
        gibbs={
            "iterations": (iterations, 60 if preset else 200),
            "preset": (preset, None),
            "starts": (starts, None),
            "sampler": (sampler, None),
            "warm_up": (warm_up, None),
        },
        marginal={
            "density": (density, DensityName.laplace),
            "random_weights": (random_weights or None, None),
        },
    )
    if method == MethodName.gibbs:
        part = 5 if preset else 3
        arguments["burn_in"] = part * arguments["iterations"] // 10
    if preset:
        arguments["longer"] = 1
    if most_iterations is not None:
        arguments |= rounds_up_to(most_iterations, method, arguments.get("iterations", 0))
    if step_by_step:
        if not own_calls(preset, sampler):
            raise InputError("--step-by-step: it is of the sampler ddpm")
        arguments["step_by_step"] = True
    configuration = CalibrationRun("gaussian", arguments, seed, min(batch, runs))
    name = f"gaussian-{preset or method.value}-{noise.value}-{size}"
    name += "-random-weights" if random_weights else ""
    run_and_show(configuration, runs, out, name, cluster)


def own_calls(preset: PresetName | None, sampler: SamplerName | None) -> bool:
    """Whether a draw of x has its own number of calls, as a preset's and the paper's sampler do."""
    return preset is not None or sampler == SamplerName.ddpm


@sbc.command()
def compare(
    a: Annotated[Path, typer.Argument(help="Results of one method, a .jsonl file.")],
    b: Annotated[
        Path | None,
        typer.Argument(help="Those of another; without it, the exact posterior of `gaussian`."),
    ] = None,
) -> None:
    """Compare two methods' chains run by run, in units of their Monte-Carlo error.

    Observations are the same for the same problem, size, prior and seed.
    """
    from gibbsdiff.evidence.calibration.compare import compare_files

    print(compare_files(a, b).table())


def rounds_up_to(most: int, method: MethodName, iterations: int) -> dict[str, int]:
    """How often runs of so many iterations may start again, 4 times as long each time."""
    if method != MethodName.gibbs:
        raise InputError(f"--most-iterations: not an option of --method {method}")
    if most < 4 * iterations:
        raise InputError(f"--most-iterations {most}: at least {4 * iterations} are needed")
    rounds = 0
    while iterations * 4 ** (rounds + 1) <= most:
        rounds += 1
    return {"longer": 4, "rounds": rounds}


def notify(line: str) -> None:
    """A line on stderr: stdout is for results."""
    print(line, file=sys.stderr, flush=True)


def options_of_method(
    method: MethodName,
    *,
    gibbs: Mapping[str, tuple[Any, Any]],
    marginal: Mapping[str, tuple[Any, Any]],
) -> dict[str, Any]:
    """What was given for the method, or its default; what is of the other method is refused.

    Both have (given, default) by name; None is not given, and no default. The result has the names
    of `gibbsdiff.inference.problem.Options`, whose `warm_up` is a number.
    """
    own, other = (gibbs, marginal) if method == MethodName.gibbs else (marginal, gibbs)
    for name, (given, _) in other.items():
        if given is not None:
            raise InputError(f"--{name.replace('_', '-')}: not an option of --method {method}")
    chosen = {name: default if given is None else given for name, (given, default) in own.items()}
    return {
        "adaptation" if name == "warm_up" else name: value.value
        if isinstance(value, StrEnum)
        else value
        for name, value in chosen.items()
        if value is not None
    }


def run_and_show(
    configuration: CalibrationRun, runs: int, out: Path, name: str, cluster: str | None = None
) -> None:
    """Calibrate with a progress bar; write OUT/NAME.jsonl and OUT/NAME.png; print the table."""
    from gibbsdiff.evidence.calibration import calibrate, calibration_report
    from gibbsdiff.evidence.calibration.figure import rank_figure
    from gibbsdiff.evidence.cluster import mapper
    from gibbsdiff.plots import save

    names = configuration.build().noise.names
    out.mkdir(parents=True, exist_ok=True)
    with mapper(cluster, notify) as work, bar_for("sbc", runs) as watch:
        records = calibrate(configuration, runs, out / f"{name}.jsonl", mapper=work, watch=watch)
    result = calibration_report(records, names)
    print(result.table())
    save(rank_figure(result, name), out / f"{name}.png")
    print(f"figure: {out / f'{name}.png'}")
