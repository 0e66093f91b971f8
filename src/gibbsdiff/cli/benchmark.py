"""`gibbsdiff benchmark`: the paper's tables, its figure of examples, and what a draw costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gibbsdiff.cli.app import Preset, PresetName, app
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import Device, notify
from gibbsdiff.errors import InputError

if TYPE_CHECKING:
    from gibbsdiff.evidence.benchmark.methods import ChainLength, Setup

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
Model = Annotated[str, typer.Option(help="Model of the package, or a model file.")]
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
    int, typer.Option(help="Network calls for a draw of x; Gibbs of a preset has its own.", min=1)
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
    calls: Calls = 12,
    model: Model = "natural",
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

    groups = _groups(methods, dncnn)
    files = files_for_tests(data, hold_out_every, selection)[:limit]
    length = _length(preset, chains, iterations, paper_setting, usual=(2, 20))
    setup = _setup(model, dncnn, length, calls, device)
    groups = _possible(groups, setup, methods is not None)
    name = dataset or data.resolve().name
    wanted = tasks(files, name, groups, setup, side=side, seed=seed)
    with mapper(cluster, notify) as work, bar_for(name, len(wanted)) as done:
        records = run(wanted, out, mapper=work, watch=lambda count, _: done(count))
    for file in write(records, out, _heading(setup)):
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
    calls: Calls = 12,
    model: Model = "natural",
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

    wanted = _numbers("--phi", slopes)
    PowerLawNoise().check([[sigma, phi] for phi in wanted])
    files = files_for_tests(data, hold_out_every, selection)
    length = _length(preset, chains, iterations, paper_setting, usual=(4, 40))
    setup = _setup(model, None, length, calls, device)
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
    calls: Calls = 12,
    model: Model = "natural",
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


def _groups(methods: str | None, dncnn: Path | None) -> list[str]:
    from gibbsdiff.evidence.benchmark.methods import GROUPS

    if methods is None:
        return [group for group in GROUPS if group != "dncnn" or dncnn is not None]
    groups = [word.strip() for word in methods.split(",") if word.strip()]
    unknown = [group for group in groups if group not in GROUPS]
    if unknown or not groups:
        raise InputError(f"method {', '.join(unknown) or 'none'}: there are {', '.join(GROUPS)}")
    if "dncnn" in groups and dncnn is None:
        raise InputError("method dncnn: give the file of its weights with --dncnn")
    return groups


def _possible(groups: list[str], setup: Setup, named: bool) -> list[str]:
    """The methods that the model can take part in; one that was named and cannot is refused."""
    from gibbsdiff.evidence.benchmark.methods import network

    if network(setup.model, setup.digest("model"), setup.device).error_model:
        return groups
    unable = [group for group in groups if group.startswith("marginal")]
    if unable and named:
        raise InputError(f"method {unable[0]}: {setup.model} has no model of its error")
    return [group for group in groups if group not in unable]


def _length(
    preset: PresetName | None,
    chains: int | None,
    iterations: int | None,
    paper: bool,
    usual: tuple[int, int],
) -> ChainLength:
    from gibbsdiff.evidence.benchmark.methods import PAPER, ChainLength

    if preset is not None:
        total = iterations or PAPER.iterations
        how = (chains or PAPER.chains, total, total // 2, PAPER.starts)
        return ChainLength(*how, preset=preset.value)
    if paper:
        return PAPER
    total = iterations or usual[1]
    return ChainLength(chains or usual[0], total, total // 4)


def _setup(model: str, dncnn: Path | None, length: ChainLength, calls: int, device: str) -> Setup:
    from gibbsdiff.evidence.benchmark.methods import Setup

    path = None if dncnn is None else str(dncnn)
    return Setup(model, path, length, calls, device).with_digests()


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text}: numbers with commas between are needed") from None


def _heading(setup: Setup) -> str:
    import platform
    from datetime import date

    from gibbsdiff import __version__

    how = setup.gibbs
    drawn = f"{setup.calls} calls for a draw of x" if how.preset is None else f"preset {how.preset}"
    return (
        f"gibbsdiff {__version__}, {date.today().isoformat()}, {platform.machine()}, one thread. "
        f"Model {setup.model} (SHA-256 {setup.digest('model')}…). Gibbs: {how.chains} chains "
        f"× {how.iterations} iterations, {how.burn_in} of them burn-in, "
        f"{drawn}, starts: {how.starts}. Nothing is clipped; periodic noise; mean ± standard "
        "error over images."
    )
