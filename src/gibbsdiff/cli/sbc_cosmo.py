"""`gibbsdiff sbc cosmo`: calibration of (σ, H0, ω_b) on dust under the CMB."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gibbsdiff.cli.sbc import (
    Batch,
    BurnIn,
    Calls,
    Chains,
    Cluster,
    Iterations,
    Method,
    MethodName,
    Out,
    Runs,
    Seed,
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
    model: Annotated[Path | None, typer.Option(help="Model file; default: the shipped.")] = None,
    runs: Runs = 300,
    size: Annotated[int, typer.Option(help="Side in pixels; of dust, 128 or 256.")] = 128,
    method: Method = MethodName.gibbs,
    chains: Chains = 4,
    iterations: Iterations = 120,
    burn_in: BurnIn = 20,
    longer: Annotated[
        int, typer.Option(help="Gibbs: this many times as long where not converged.", min=1)
    ] = 1,
    calls: Calls = 1,
    batch: Batch = 10,
    seed: Seed = 0,
    cluster: Cluster = None,
    out: Out = Path("sbc"),
) -> None:
    """Calibrate (σ, H0, ω_b) on dust under the CMB, over the whole prior box.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.cli.sbc_images import run_paired
    from gibbsdiff.cosmo.calibration import PARAMETERS, patch_configuration

    kind = signal or (SignalName.gaussian if dust is None else SignalName.dust)
    if (kind == SignalName.dust) != (dust is not None):
        raise InputError(f"--signal {kind.value}: maps, --dust, are for the signal dust alone")
    arguments: dict[str, Any] = {"size": size, "method": method.value}
    if method == MethodName.gibbs:
        arguments |= {"chains": chains, "iterations": iterations, "burn_in": burn_in}
        arguments |= {"longer": longer}
    if kind == SignalName.dust:
        arguments |= {"calls": calls}
    configuration = patch_configuration(dust, model, seed, min(batch, runs), **arguments)
    name = f"cosmo-{kind.value}-{method.value}-{size}"
    title = f"σ, H0 and ω_b uniform on the prior box, {size}²"
    twice = kind == SignalName.dust
    run_paired(configuration, runs, out, name, title, PARAMETERS, cluster, twice)
