"""`gibbsdiff sbc`: simulation-based calibration."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gibbsdiff.cli import app
from gibbsdiff.cli.progress import bar_for

if TYPE_CHECKING:
    from gibbsdiff.evidence.calibration import Configuration

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


Method = Annotated[MethodName, typer.Option(help="What is calibrated.")]
Runs = Annotated[int, typer.Option(help="Simulated observations.", min=2)]
Chains = Annotated[int, typer.Option(help="Of Gibbs.", min=2)]
Iterations = Annotated[int, typer.Option(help="Of Gibbs, burn-in included.", min=10)]
BurnIn = Annotated[int, typer.Option(help="Of Gibbs.", min=0)]
Calls = Annotated[int, typer.Option(help="Network calls for a draw of x.", min=1)]
Batch = Annotated[int, typer.Option(help="Runs worked on together: a task.", min=1)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)]
Cluster = Annotated[str | None, typer.Option(help="local:N, or the address of a Dask scheduler.")]
Out = Annotated[Path, typer.Option(help="Folder of results and figures.")]


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
    noise: Annotated[NoiseName, typer.Option(help="Family of the noise.")] = NoiseName.power_law,
    channels: Annotated[int, typer.Option(help="1 or 3.", min=1, max=3)] = 1,
    iterations: Annotated[
        int, typer.Option(help="Of Gibbs; 6 times as many where slow.", min=30)
    ] = 200,
    batch: Batch = 50,
    seed: Seed = 0,
    cluster: Cluster = None,
    out: Out = Path("sbc"),
) -> None:
    """Calibrate on a Gaussian signal, where every conditional is exact.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.evidence.calibration import gaussian_configuration

    arguments = {"size": size, "sigma": sigma_range, "method": method.value, "noise": noise.value}
    if channels != 1:
        arguments["channels"] = channels
    if method == MethodName.gibbs:
        arguments |= {"iterations": iterations, "burn_in": 3 * iterations // 10}
    configuration = gaussian_configuration(seed, min(batch, runs), **arguments)
    name = f"gaussian-{method.value}-{noise.value}-{size}"
    run_and_show(configuration, runs, out, name, cluster)


def run_and_show(
    configuration: Configuration, runs: int, out: Path, name: str, cluster: str | None = None
) -> None:
    """Calibrate with a progress bar; write OUT/NAME.jsonl and OUT/NAME.png; print the table."""
    from gibbsdiff.evidence.calibration import calibrate, report
    from gibbsdiff.evidence.calibration.figure import figure
    from gibbsdiff.evidence.cluster import mapper
    from gibbsdiff.plots import save

    names = configuration.build().noise.names
    out.mkdir(parents=True, exist_ok=True)
    with mapper(cluster) as work, bar_for("sbc", runs) as watch:
        records = calibrate(configuration, runs, out / f"{name}.jsonl", mapper=work, watch=watch)
    result = report(records, names)
    print(result.table())
    save(figure(result, name), out / f"{name}.png")
    print(f"figure: {out / f'{name}.png'}")
