"""`gibbsdiff sbc cosmo`: calibration of (σ, H0, ω_b) on dust under the CMB."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.sbc import MethodName, sbc
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
    runs: Annotated[int, typer.Option(help="Simulated observations.", min=2)] = 300,
    size: Annotated[int, typer.Option(help="Side in pixels; of dust, 128 or 256.")] = 128,
    method: Annotated[MethodName, typer.Option(help="What is calibrated.")] = MethodName.gibbs,
    stages: Annotated[
        int, typer.Option(help="Of the marginal method, on maps of dust.", min=1, max=2)
    ] = 2,
    chains: Annotated[int, typer.Option(help="Of Gibbs.", min=2)] = 4,
    iterations: Annotated[int, typer.Option(help="Of Gibbs, burn-in included.", min=10)] = 120,
    burn_in: Annotated[int, typer.Option(help="Of Gibbs.", min=0)] = 20,
    longer: Annotated[
        int, typer.Option(help="Gibbs: this many times as long where not converged.", min=1)
    ] = 1,
    calls: Annotated[int, typer.Option(help="Network calls for a draw of dust.", min=1)] = 12,
    batch: Annotated[int, typer.Option(help="Runs worked on together: a task.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    cluster: Annotated[
        str | None, typer.Option(help="local:N, or the address of a Dask scheduler.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of results and figures.")] = Path("sbc"),
) -> None:
    """Calibrate (σ, H0, ω_b) on dust under the CMB, over the whole prior box.

    Results are kept in OUT after every batch; the same command goes on from there.
    """
    from gibbsdiff.cli.sbc_images import show
    from gibbsdiff.cluster import mapper
    from gibbsdiff.diagnostics import calibrate
    from gibbsdiff.diagnostics.cosmo import PARAMETERS, patch_configuration

    kind = signal or (SignalName.gaussian if dust is None else SignalName.dust)
    if (kind == SignalName.dust) != (dust is not None):
        raise InputError(f"--signal {kind.value}: maps, --dust, are for the signal dust alone")
    arguments: dict[str, Any] = {"size": size, "method": method.value}
    if method == MethodName.gibbs:
        arguments |= {"chains": chains, "iterations": iterations, "burn_in": burn_in}
        arguments |= {"longer": longer}
    if kind == SignalName.dust:
        arguments |= {"calls": calls} | ({} if method == MethodName.gibbs else {"stages": stages})
    configuration = patch_configuration(dust, model, seed, min(batch, runs), **arguments)
    configuration.build()
    out.mkdir(parents=True, exist_ok=True)
    name = f"cosmo-{kind.value}-{method.value}-{size}"
    with mapper(cluster) as work, bar_for("sbc", runs) as done:
        records = calibrate(configuration, runs, out / f"{name}.jsonl", mapper=work, watch=done)
    title = f"σ, H0 and ω_b uniform on the prior box, {size}²"
    show(records, out, name, title, PARAMETERS, both=kind == SignalName.dust)
