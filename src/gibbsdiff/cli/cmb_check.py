"""`gibbsdiff cmb check`, `cmb memory` and `cmb demo`: the cosmology against known truths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from gibbsdiff.cli.cmb import (
    BurnIn,
    ChainCalls,
    DustCalls,
    ModelFile,
    SampleCalls,
    cmb,
    parts_of_chains,
    separate,
)
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
    suffix,
    unusual,
)
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import Cluster, Device, MethodName, Seed


@cmb.command()
def check(
    mocks: Annotated[int, typer.Option(help="Mixtures of known truth.", min=1)] = 20,
    size: Annotated[int, typer.Option(help="Side of the maps.")] = 128,
    dust: Annotated[
        Path | None, typer.Option(help="Dust maps (.npz); default: the package's own.")
    ] = None,
    model: ModelFile = None,
    method: Annotated[MethodName, typer.Option(help="gibbs or marginal.")] = MethodName.gibbs,
    preset: Preset = None,
    chains: Annotated[int | None, typer.Option(help="Chains. Default: 4.", min=2)] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            help="Draws of each chain, at most. Default: 400, of a preset 30 after as many.",
            min=4,
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
    samples: Annotated[int, typer.Option(help="Pairs of maps for spectra.", min=2)] = 16,
    device: Device = "cpu",
    seed: Seed = 0,
    cluster: Cluster = None,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("cmb-check"),
) -> None:
    """Infer mocks over the whole prior box, and judge them by their truth.

    Error bars are those with the network's own error. Truths are spread over the box, dust is
    held out from training. Results are kept in OUT after every mock; the same command goes on from
    there.
    """
    from gibbsdiff.cosmo import verdict
    from gibbsdiff.cosmo.check import MockRun, check, mixture_of
    from gibbsdiff.cosmo.infer import model_digest, model_name, options_of
    from gibbsdiff.cosmo.mock import SHIPPED
    from gibbsdiff.evidence.cluster import mapper
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.io.digest import file_digest
    from gibbsdiff.noise.cmb import CMBNoise
    from gibbsdiff.plots import save

    maps = SHIPPED if dust is None else dust
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
    parts |= {"calls": calls, "chain_calls": chain_calls}
    how = options_of(**parts, method=method.value, chains=chains, draws=draws)
    name_of_model = model if preset is None else str(model_name(size, model, preset))
    run = MockRun(
        str(maps),
        file_digest(maps),
        name_of_model,
        model_digest(size, name_of_model),
        size,
        method.value,
        how.chains,
        how.draws,
        samples=samples,
        seed=seed,
        device=device,
        weights=None if preset is not None else (weights or WeightsName.none).value,
        **({"burn_in": how.burn_in} | parts),
    )
    mixture_of(run, 0)  # trouble with the files shows before the work is done
    out.mkdir(parents=True, exist_ok=True)
    special = unusual(weights, weighted_chains, WeightsName.none)
    name = f"{preset or method.value}-{size}{suffix(special)}"
    with mapper(cluster) as work, bar_for("mocks", mocks) as done:
        records = check(run, mocks, out / f"{name}.jsonl", work, done)
    names = CMBNoise().names
    way = method.value if preset is None else f"preset {preset}"
    heading = f"# {mocks} mocks of {size}², {', '.join([way, *special])}, seed {seed}"
    text = verdict.markdown(records, names, heading)
    write_atomically(out / f"{name}.md", text)
    found = verdict.summary(records, names)
    write_atomically(out / f"{name}.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    save(verdict.check_figure(records, names, size, heading[2:]), out / f"{name}.png")
    print(text)
    for ending in ("md", "json", "png"):
        print(f"written: {out / name}.{ending}")


@cmb.command()
def memory(
    dust: Annotated[Path, typer.Option(help="The maps that the model was trained on (.npz).")],
    size: Annotated[int, typer.Option(help="Side of the maps.")] = 128,
    model: ModelFile = None,
    against: Annotated[
        Path | None, typer.Option(help="A model trained under white noise, to compare with.")
    ] = None,
    maps: Annotated[int, typer.Option(help="Held-out maps to hide.", min=1)] = 6,
    draws: Annotated[int, typer.Option(help="Draws of each.", min=2)] = 4,
    sigma: Annotated[float, typer.Option(help="CMB that they are hidden under.")] = 1.2,
    calls: DustCalls = 12,
    device: Device = "cpu",
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="File for the table, .md.")] = None,
) -> None:
    """Look for draws of dust among the training maps, and for draws that are all alike.

    Draws are those of `gibbsdiff cmb infer --method marginal`. Distances are over all periodic
    shifts and the 8 symmetries of a square. A model to compare with draws the same maps from under
    white noise that hides as much: at equal mean squared error of the two models' means.
    """
    from gibbsdiff.cosmo.infer import dust_model
    from gibbsdiff.cosmo.memory import measure_memory
    from gibbsdiff.cosmo.memory_white import matched_sigma, white_noise_of
    from gibbsdiff.inference.problem import Options
    from gibbsdiff.io.atomic import write_atomically

    found = dust_model(size, model)
    options = Options("marginal", calls=calls, samples=draws, seed=seed)
    white = None if against is None else dust_model(size, against)
    noise = None if white is None else white_noise_of(white, against)
    with bar_for("maps", maps * (1 if white is None else 2)) as done:
        result = measure_memory(found, dust, options, maps, phi=(sigma,), watch=done, device=device)
        text = result.table()
        if white is not None:
            level = (matched_sigma(found, sigma, white, dust, against, seed),)

            def further(n: int) -> None:
                done(maps + n)

            other = measure_memory(white, dust, options, maps, noise, level, further, device)
            text = f"## Under the CMB\n\n{text}\n## {against}, white noise\n\n{other.table()}"
    print(text)
    if out is not None:
        write_atomically(out, text)
        print(f"written: {out}")


@cmb.command()
def demo(
    truth: Annotated[
        tuple[float, float, float], typer.Option(metavar="H0 OMEGA_B SIGMA", help="What is hidden.")
    ] = (70.0, 0.032, 0.5),
    chains: Annotated[int, typer.Option(help="Gibbs chains.", min=2)] = 4,
    draws: Annotated[int, typer.Option(help="Draws of each chain, at most.", min=4)] = 150,
    calls: DustCalls = 12,
    device: Device = "cpu",
    seed: Seed = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for results.")] = Path(
        "demo-cosmo"
    ),
) -> None:
    """Hide simulated dust under a CMB, and find dust, CMB and cosmology again."""
    from gibbsdiff.cosmo.command import mock_with_model, truth_table
    from gibbsdiff.inference.problem import Options

    console = Console(highlight=False)
    output.mkdir(parents=True, exist_ok=True)  # trouble with it shows before the work is done
    h0, omega_b, sigma = truth
    console.print(
        f"A patch of 128², 8′ pixels: simulated dust plus a CMB of H0 = {h0:g}, ω_b = {omega_b:g} "
        f"at σ = {sigma:g} of the dust's rms. Both maps and the three numbers are to be found: "
        f"the mode of p(σ, H0, ω_b | y) first, then {chains} Gibbs chains from around it.",
        soft_wrap=True,
    )
    mixture, found = mock_with_model(truth, seed=seed)
    options = Options("gibbs", chains, draws, calls, samples=8, seed=seed)
    posterior, interrupted = separate(mixture, found, output, options, device)
    console.print(posterior.summary(), markup=False, soft_wrap=True)
    console.print(truth_table(posterior), markup=False, soft_wrap=True)
    console.print(f"maps, chains and figure: {output / 'report.png'}", soft_wrap=True)
    if interrupted:
        raise KeyboardInterrupt
