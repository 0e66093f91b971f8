"""`gibbsdiff sbc cosmo`: calibration of (σ, H0, ω_b) on dust under the CMB."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gibbsdiff.cli.parts import (
    DustWeights,
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
from gibbsdiff.cli.sbc import (
    Batch,
    Cluster,
    Device,
    Method,
    MethodName,
    Out,
    Runs,
    Seed,
    options_of_method,
    own_calls,
    sbc,
)
from gibbsdiff.errors import InputError


class SignalName(StrEnum):
    """What the dust is."""

    gaussian = "gaussian"
    dust = "dust"


@sbc.command()
def cosmo(
    signal: Annotated[
        SignalName | None,
        typer.Option(help="gaussian: exact, without maps. Default: dust if there is --dust."),
    ] = None,
    dust: Annotated[
        Path | None, typer.Option(help="Dust maps (.npz of `cmb simulate`), their test block.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Model file, or a shipped one. Default: by the side and the preset."),
    ] = None,
    runs: Runs = 300,
    size: Annotated[int, typer.Option(help="Side in pixels; of dust, 128 or 256.")] = 128,
    method: Method = MethodName.gibbs,
    preset: Preset = None,
    chains: Annotated[int | None, typer.Option(help="Of Gibbs.", min=2, show_default="4")] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            help="Of Gibbs, burn-in included. Of a preset: 60.", min=10, show_default="120"
        ),
    ] = None,
    burn_in: Annotated[
        int | None, typer.Option(help="Of Gibbs. Of a preset: 30.", min=0, show_default="20")
    ] = None,
    longer: Annotated[
        int | None,
        typer.Option(
            help="Gibbs: this many times as long where not converged.", min=1, show_default="1"
        ),
    ] = None,
    starts: Starts = None,
    sampler: Sampler = None,
    warm_up: WarmUp = None,
    weights: DustWeights = None,
    weighted_chains: WeightedChains = False,
    calls: Annotated[
        int | None,
        typer.Option(
            help="Of Gibbs: network calls for a draw of dust; ddpm has its own.",
            min=1,
            show_default="1",
        ),
    ] = None,
    batch: Batch = 10,
    seed: Seed = 0,
    device: Device = "cpu",
    cluster: Cluster = None,
    out: Out = Path("sbc"),
) -> None:
    """Calibrate (σ, H0, ω_b) on dust under the CMB, over the whole prior box.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.cli.sbc_images import run_paired
    from gibbsdiff.cosmo.calibration import PARAMETERS, patches_run

    kind = signal or (SignalName.gaussian if dust is None else SignalName.dust)
    if (kind == SignalName.dust) != (dust is not None):
        raise InputError(f"--signal {kind.value}: maps, --dust, are for the signal dust alone")
    if kind == SignalName.gaussian and calls is not None:
        raise InputError("--calls: of a network; one call draws Gaussian dust exactly")
    if kind == SignalName.gaussian and (weights is not None or weighted_chains):
        name = "--weights" if weights is not None else "--weighted-chains"
        raise InputError(f"{name}: of a network; Gaussian dust is known exactly everywhere")
    of_chains = {
        "chains": (chains, 4),
        "iterations": (iterations, 60 if preset else 120),
        "burn_in": (burn_in, 30 if preset else 20),
        "longer": (longer, 1),
        "calls": (calls, None if own_calls(preset, sampler) else 1),
        "preset": (preset, None),
        "starts": (starts, None),
        "sampler": (sampler, None),
        "warm_up": (warm_up, None),
        "weighted_chains": (weighted_chains or None, None),
    }
    arguments: dict[str, Any] = {"size": size, "method": method.value, "device": device}
    arguments |= options_of_method(method, gibbs=of_chains, marginal={})
    check_weights(preset, weights, weighted_chains, WeightsName.none)
    if weights is not None:
        arguments["weights"] = weights.value
    configuration = patches_run(dust, model, seed, min(batch, runs), **arguments)
    special = unusual(weights, weighted_chains, WeightsName.none)
    name = f"cosmo-{kind.value}-{preset or method.value}-{size}{suffix(special)}"
    title = ", ".join(["σ, H0 and ω_b uniform on the prior box", f"{size}²", *special])
    both = kind == SignalName.dust
    run_paired(configuration, runs, out, name, title, PARAMETERS, cluster, both)
