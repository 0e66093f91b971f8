"""`gibbsdiff cmb guidance`: DPS and ΠGDM on dust under the CMB."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gibbsdiff.cli.cmb import ModelFile, cmb
from gibbsdiff.cli.progress import bar_for, stages
from gibbsdiff.cli.sbc import Seed


@cmb.command()
def guidance(
    white: Annotated[
        Path, typer.Option(help="Model file of dust trained under white noise of any level.")
    ],
    truth: Annotated[
        tuple[float, float, float], typer.Option(metavar="H0 OMEGA_B SIGMA", help="What is hidden.")
    ] = (70.0, 0.032, 0.5),
    size: Annotated[int, typer.Option(help="Side of the maps.")] = 128,
    dust: Annotated[
        Path | None, typer.Option(help="Dust maps (.npz); default: the package's own.")
    ] = None,
    model: ModelFile = None,
    steps: Annotated[int, typer.Option(help="Network calls of a guided draw.", min=2)] = 100,
    draws: Annotated[int, typer.Option(help="Draws of each sampler.", min=2)] = 4,
    chains: Annotated[int, typer.Option(help="Gibbs chains with ΠGDM; 0: none.", min=0)] = 2,
    iterations: Annotated[int, typer.Option(help="Of the chains, a third burn-in.", min=6)] = 12,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder of results.")] = Path("guidance"),
) -> None:
    """Draw dust by guidance, DPS and ΠGDM, as in the paper's appendix, beside our kernel.

    The noise is known. ΠGDM is run at its standard strength, at the best of some, and in its
    modified form with the best of some regularisations, which Gibbs chains then use. Written:
    guidance.md, guidance.json and guidance.png.
    """
    import json
    from functools import partial

    from gibbsdiff.cosmo import guidance as work
    from gibbsdiff.cosmo import guidance_page as page
    from gibbsdiff.cosmo.command import mock_with_model
    from gibbsdiff.cosmo.eigenvalues import eigenvalue_rows
    from gibbsdiff.cosmo.infer import FLOOR, dust_model
    from gibbsdiff.diffusion.solvers import few_step
    from gibbsdiff.io.atomic import write_atomically
    from gibbsdiff.plots import save

    mixture, found = mock_with_model(truth, size, dust, model=model, seed=seed)
    prior = dust_model(size, white)
    how = work.Guidance(steps, draws, seed=seed)
    made = how.samplers(prior)  # a network of another noise shows before the work is done
    out.mkdir(parents=True, exist_ok=True)
    ours = {
        f"our kernel, {n}": (partial(few_step, calls=n, floor=FLOOR), found.denoiser)
        for n in (1, 12)
    }
    with bar_for("samplers", work.comparisons(len(ours))) as done:
        rows = work.compare(mixture, ours, prior, how, done)
    best = [row for row in rows if row.score.best]
    inside = partial(made["modified"], variance=best[-1].score.value)
    runs = {}
    if chains:
        drawing = {
            "our kernel, 1": None,
            f"ΠGDM, v = {best[-1].score.value:g}": work.with_network(inside, prior),
        }
        for name, sampler in drawing.items():
            with stages(name) as progress:
                runs[name] = work.chains(
                    mixture,
                    found,
                    sampler,
                    chains=chains,
                    iterations=iterations,
                    seed=seed,
                    progress=progress,
                )
    at = eigenvalue_rows(mixture)
    h0, omega_b, sigma = truth
    setting = f"(σ, H0, ω_b) = ({sigma:g}, {h0:g}, {omega_b:g}), {size}²"
    text = page.markdown(f"# Guided draws of dust at {setting}", rows, runs, at, mixture, how)
    results = {
        "truth": mixture.truth,
        "steps": steps,
        "draws": draws,
        "samplers": work.as_json(rows),
        "chains": {name: [vars(r) for r in summaries] for name, summaries in runs.items()},
        "eigenvalues": {name: e._asdict() for name, e in at.items()},
    }
    write_atomically(out / "guidance.md", text)
    words = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    write_atomically(out / "guidance.json", words)
    save(page.guidance_figure(mixture, page.shown(rows)), out / "guidance.png")
    print(text)
    for ending in ("md", "json", "png"):
        print(f"written: {out / 'guidance'}.{ending}")
