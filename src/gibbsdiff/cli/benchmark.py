"""`gibbsdiff benchmark`: the paper's tables, its figure of examples, and what a draw costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.cli.app import app
from gibbsdiff.cli.benchmark_setup import (
    groups_of,
    heading,
    length_of,
    numbers,
    possible,
    setup_of,
)
from gibbsdiff.cli.parts import (
    Mean,
    Model,
    Preset,
    Sampler,
    Starts,
    WarmUp,
    WeightedChains,
    Weights,
    check_weights,
)
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import Device, notify
from gibbsdiff.errors import InputError

benchmark = typer.Typer(
    help="The paper's tables and figures, with other denoisers beside.", no_args_is_help=True
)
app.add_typer(benchmark, name="benchmark")

Data = Annotated[Path, typer.Option(help="Folder of test images.")]
Out = Annotated[Path, typer.Option(help="Folder of the results.")]
Every = Annotated[
    int, typer.Option(help="Take every N-th image alone, as training holds out; 0: all.", min=0)
]
Selection = Annotated[int, typer.Option(help="Leave out the first N of these.", min=0)]
Chains = Annotated[
    int | None, typer.Option(help="Of Gibbs. Default: 2, of the figure 4, of a preset 16.", min=1)
]
Iterations = Annotated[
    int | None,
    typer.Option(
        help="Of Gibbs, a quarter of them burn-in, of a preset half. "
        "Default: 20, of the figure and of a preset 40.",
        min=8,
    ),
]
Paper = Annotated[
    bool, typer.Option("--paper-setting", help="16 chains × 40 iterations, the last 20 kept.")
]
Calls = Annotated[
    int,
    typer.Option(
        help="Network calls for a draw of x by the few-step kernel: of marginal, and of gibbs but "
        "with --preset or --sampler ddpm, which have their own.",
        min=1,
    ),
]
Seed = Annotated[int, typer.Option(help="Of the noise.", min=0)]
Side = Annotated[int, typer.Option(help="Side of the images; the paper has 256.", min=32)]
Cluster = Annotated[str | None, typer.Option(help="local:N, or the address of a Dask scheduler.")]


@benchmark.callback()
def about() -> None:
    """The paper's tables and figures, with other denoisers beside."""


@benchmark.command()
def images(
    data: Data,
    out: Out = Path("benchmark"),
    dataset: Annotated[
        str | None,
        typer.Option("--set", help="Name in the tables: cbsd68, imagenet. Default: the folder's."),
    ] = None,
    hold_out_every: Every = 0,
    selection: Selection = 0,
    limit: Annotated[int | None, typer.Option(help="Only the first N images.", min=1)] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Some of noisy,bm3d,bm3d-used,dncnn,nlm,known-noise,marginal-first,marginal,gibbs."
        ),
    ] = None,
    dncnn: Annotated[
        Path | None,
        typer.Option(help="DnCNN's colour-blind weights; without it DnCNN is left out."),
    ] = None,
    preset: Preset = None,
    chains: Chains = None,
    iterations: Iterations = None,
    paper_setting: Paper = False,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    weights: Weights = None,
    weighted_chains: WeightedChains = False,
    calls: Calls = 12,
    model: Model = None,
    side: Side = 256,
    seed: Seed = 1,
    device: Device = "cpu",
    cluster: Cluster = None,
) -> None:
    """PSNR and SSIM on a folder of test images: σ 0.06, 0.1, 0.2 × φ -1, 0, 1 × methods.

    Results are kept one by one in OUT/images.jsonl; the same command goes on from there, and a
    second set may be added to the same folder. Tables and a figure are written at the end.
    """
    from gibbsdiff.evidence.benchmark.images import benchmark as run
    from gibbsdiff.evidence.benchmark.images import files_for_tests, tasks
    from gibbsdiff.evidence.benchmark.tables import write
    from gibbsdiff.evidence.cluster import mapper

    groups = groups_of(methods, dncnn)
    if weighted_chains and "gibbs" not in groups:
        raise InputError("--weighted-chains is for Gibbs chains, which are none of the methods")
    files = files_for_tests(data, hold_out_every, selection)[:limit]
    parts = {"starts": starts, "sampler": sampler, "adaptation": warm_up}
    length = length_of(
        preset,
        chains,
        iterations,
        paper_setting,
        parts,
        usual=(2, 20),
        weighted_chains=weighted_chains,
    )
    setup = setup_of(model, dncnn, length, calls, device, starts, weights)
    groups = possible(groups, setup, methods is not None)
    name = dataset or data.resolve().name
    wanted = tasks(files, name, groups, setup, side=side, seed=seed)
    with mapper(cluster, notify) as work, bar_for(name, len(wanted)) as done:
        records = run(wanted, out, mapper=work, watch=lambda count, _: done(count))
    for file in write(records, out, heading(setup)):
        print(file)


@benchmark.command()
def figure(
    data: Data,
    out: Out = Path("benchmark"),
    sigma: Annotated[float, typer.Option(help="Noise level.")] = 0.2,
    slopes: Annotated[str, typer.Option("--phi", help="Values of φ, a row each.")] = (
        "-0.4,-0.2,0,0.2,0.4"
    ),
    hold_out_every: Every = 0,
    selection: Selection = 0,
    preset: Preset = None,
    chains: Chains = None,
    iterations: Iterations = None,
    paper_setting: Paper = False,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    mean: Mean = None,
    weights: Weights = None,
    weighted_chains: WeightedChains = False,
    calls: Calls = 12,
    model: Model = None,
    side: Side = 256,
    seed: Seed = 1,
    device: Device = "cpu",
    cluster: Cluster = None,
) -> None:
    """Examples as in the paper: noisy, truth, a sample, the mean, and the posterior of (σ, φ)."""
    import json

    from gibbsdiff.evidence.benchmark.examples import examples, examples_figure
    from gibbsdiff.evidence.benchmark.images import files_for_tests
    from gibbsdiff.evidence.cluster import mapper
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.noise import PowerLawNoise
    from gibbsdiff.plots import save

    check_weights(preset, weights, weighted_chains)
    wanted = numbers("--phi", slopes)
    PowerLawNoise().check([[sigma, phi] for phi in wanted])
    files = files_for_tests(data, hold_out_every, selection)
    parts = {"starts": starts, "sampler": sampler, "adaptation": warm_up, "mean": mean}
    length = length_of(
        preset,
        chains,
        iterations,
        paper_setting,
        parts,
        usual=(4, 40),
        weighted_chains=weighted_chains,
    )
    setup = setup_of(model, None, length, calls, device, starts, weights)
    with mapper(cluster, notify) as work, bar_for("examples", len(wanted)) as done:
        rows = examples(
            files, setup, sigma=sigma, slopes=wanted, side=side, seed=seed, mapper=work, watch=done
        )
    out.mkdir(parents=True, exist_ok=True)
    facts = [row.facts for row in rows]
    write_atomically(out / "examples.json", json.dumps(facts, indent=1) + "\n")
    save(examples_figure(rows), out / "examples.png")
    print(out / "examples.png")


@benchmark.command()
def cost(
    data: Data,
    out: Out = Path("benchmark"),
    timed: Annotated[
        int, typer.Option(help="Calls to time of each DDPM; the rest is extrapolated.", min=1)
    ] = 3,
    accuracy: Annotated[
        int, typer.Option(help="Images to compare the φ of DDPM and of our kernel on.", min=0)
    ] = 0,
    phi: Annotated[float, typer.Option(help="Colour of the noise.")] = 0.0,
    calls: Annotated[int, typer.Option(help="Network calls for a draw of x, ours.", min=1)] = 12,
    model: Annotated[str, typer.Option(help="Model of the package, or a model file.")] = "natural",
    side: Side = 256,
    device: Device = "cpu",
) -> None:
    """What one draw of x costs: the paper's sampler and U-Net, ours with as many steps, ours."""
    from gibbsdiff.data.images import protocol_images
    from gibbsdiff.diffusion.boundary import on_device
    from gibbsdiff.evidence.benchmark.images import files_for_tests
    from gibbsdiff.evidence.benchmark.paper import SIGMA
    from gibbsdiff.evidence.benchmark.sampler_cost import (
        accuracies,
        costs,
        markdown,
        paper_network,
    )
    from gibbsdiff.evidence.cluster import on_one_thread
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.pretrained import load_model

    files = files_for_tests(data)[: max(1, accuracy)]
    x = protocol_images(files, side)
    ours, theirs = (on_device(d, device) for d in (load_model(model), paper_network()))

    def measure(count: int) -> str:
        found = costs(ours, x[:1], SIGMA, theirs=theirs, timed=timed, calls=calls, phi=phi)
        return markdown(found, accuracies(ours, x, SIGMA, calls=calls, phi=phi) if count else ())

    text = on_one_thread(measure, accuracy)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "cost.md", text)
    print(text)
