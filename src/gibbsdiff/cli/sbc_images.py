"""`gibbsdiff sbc images`: calibration on photographs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gibbsdiff.cli.parts import (
    Model,
    Preset,
    Sampler,
    Starts,
    WarmUp,
    WeightedChains,
    Weights,
    check_weights,
    suffix,
    unusual,
)
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import (
    Batch,
    Calls,
    Cluster,
    Density,
    DensityName,
    Device,
    Method,
    MethodName,
    Out,
    Runs,
    Seed,
    notify,
    options_of_method,
    own_calls,
    sbc,
)

if TYPE_CHECKING:
    from gibbsdiff.evidence.calibration import CalibrationRun


@sbc.command()
def images(
    data: Annotated[Path, typer.Option(help="Folder of test images.")],
    runs: Runs = 800,
    size: Annotated[int, typer.Option(help="Side of the crops in pixels.")] = 64,
    sigma_range: Annotated[
        tuple[float, float], typer.Option(help="Prior of σ, uniform: low and high.")
    ] = (0.01, 1.0),
    method: Method = MethodName.gibbs,
    preset: Preset = None,
    stages: Annotated[
        int | None, typer.Option(help="Of the marginal method.", min=1, max=2, show_default="2")
    ] = None,
    density: Density = None,
    chains: Annotated[int | None, typer.Option(help="Of Gibbs.", min=2, show_default="4")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="Of Gibbs, burn-in included.", min=10, show_default="60"),
    ] = None,
    burn_in: Annotated[int | None, typer.Option(help="Of Gibbs.", min=0, show_default="30")] = None,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    weights: Weights = None,
    weighted_chains: WeightedChains = False,
    calls: Calls = None,
    model: Model = None,
    hold_out_every: Annotated[
        int, typer.Option(help="Take every N-th image alone, as training holds out; 0: all.", min=0)
    ] = 0,
    selection: Annotated[int, typer.Option(help="Leave out the first N of these.", min=0)] = 0,
    batch: Batch = 1,
    seed: Seed = 0,
    device: Device = "cpu",
    cluster: Cluster = None,
    out: Out = Path("sbc"),
) -> None:
    """Calibrate on crops of photographs with the network, over the whole prior box.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.evidence.calibration.images import PARAMETERS, photographs_run

    arguments: dict[str, Any] = {"size": size, "sigma": sigma_range, "method": method.value}
    arguments |= {"hold_out_every": hold_out_every, "selection": selection, "device": device}
    if calls is not None or not own_calls(preset, sampler):
        arguments["calls"] = calls or 12
    arguments |= options_of_method(
        method,
        gibbs={
            "chains": (chains, 4),
            "iterations": (iterations, 60),
            "burn_in": (burn_in, 30),
            "starts": (starts, None),
            "sampler": (sampler, None),
            "warm_up": (warm_up, None),
            "preset": (preset, None),
            "weighted_chains": (weighted_chains or None, None),
        },
        marginal={"stages": (stages, 2), "density": (density, DensityName.laplace)},
    )
    check_weights(preset, weights, weighted_chains)
    if weights is not None:
        arguments["weights"] = weights.value
    configuration = photographs_run(data, seed, min(batch, runs), model, **arguments)
    special = unusual(weights, weighted_chains)
    prior = f"σ uniform on [{sigma_range[0]:g}, {sigma_range[1]:g}]"
    title = ", ".join([prior, f"{size}²", *special])
    name = f"images-{preset or method.value}-{size}{suffix(special)}"
    run_paired(configuration, runs, out, name, title, PARAMETERS, cluster)


def run_paired(
    configuration: CalibrationRun,
    runs: int,
    out: Path,
    name: str,
    title: str,
    parameters: Sequence[str],
    cluster: str | None,
    both: bool = True,
) -> None:
    """Calibrate with a progress bar; print the report of the posterior as it is and, of `both`
    halves of every run, that with the network's error; write the tables and figures.
    """
    from gibbsdiff.evidence.calibration import calibrate, calibration_report
    from gibbsdiff.evidence.calibration.box import bias_lines, box_figure
    from gibbsdiff.evidence.calibration.figure import rank_figure
    from gibbsdiff.evidence.calibration.paired import halves
    from gibbsdiff.evidence.cluster import mapper
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.plots import save

    configuration.build()
    out.mkdir(parents=True, exist_ok=True)
    with mapper(cluster, notify) as work, bar_for("sbc", runs) as done:
        records = calibrate(configuration, runs, out / f"{name}.jsonl", mapper=work, watch=done)
    raw, wide = halves(records) if both else (records, [])
    parts, files = [title, *bias_lines(raw, parameters)], []
    for half, words, ending in (
        (raw, "the posterior as it is", "raw"),
        (wide, "with the network's own error added, eq. (12)", "model-error"),
    ):
        if half:
            result = calibration_report(half, parameters)
            parts += ["", f"{words}:", result.table()]
            files.append(out / f"{name}-{ending}.png")
            save(rank_figure(result, f"{name}, {words}"), files[-1])
    files.append(out / f"{name}-box.png")
    save(box_figure(raw, parameters, f"{name}, {title}"), files[-1])
    text = "\n".join(parts)
    write_atomically(out / f"{name}.txt", text + "\n")
    print(text)
    for file in files:
        print(f"figure: {file}")
