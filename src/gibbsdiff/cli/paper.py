"""`gibbsdiff paper`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from gibbsdiff.cli.app import app
from gibbsdiff.cli.interrupts import gentle_interrupts
from gibbsdiff.cli.progress import stages


@app.command()
def paper(
    chains: Annotated[int, typer.Option(help="Gibbs chains.", min=2)] = 2,
    iterations: Annotated[int, typer.Option(help="Of each, a third discarded.", min=2)] = 6,
    device: Annotated[str, typer.Option(help="Where the networks run: cpu, cuda, ...")] = "cpu",
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.", min=0)] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the figures.")] = Path(
        "paper"
    ),
) -> None:
    """Run the paper's algorithm as published on two pictures and on dust under a CMB.

    The preset `paper` with the package's small networks of the paper's kind; at the end, the table
    of what differs from the paper. Minutes on two cores.
    """
    from gibbsdiff.cosmo import paper as dust
    from gibbsdiff.cosmo.command import truth_table
    from gibbsdiff.evidence import paper as pictures
    from gibbsdiff.evidence.differences import read_differences, terminal

    console = Console(highlight=False)
    length = pictures.Length(chains, iterations)
    output.mkdir(parents=True, exist_ok=True)  # trouble with it shows before the work is done
    mixture, model = dust.mixture_with_model(seed=seed)
    how: dict[str, Any] = {"length": length, "seed": seed, "device": device}
    examples = []
    with gentle_interrupts() as interrupts:
        for name in pictures.TASKS:
            with stages(name) as show:
                progress = interrupts.heeded_by(show)
                example = pictures.denoised(name, progress=progress, **how)
            if interrupts.asked:  # half a result is not shown
                raise KeyboardInterrupt
            examples.append(example)
            with interrupts.waiting():
                file = pictures.write_figure(examples, output)
            for line in pictures.found_lines(example, name):
                console.print(line, markup=False, soft_wrap=True)
        with stages("dust") as show:
            progress = interrupts.heeded_by(show)
            found = dust.separated(mixture, model, progress=progress, **how)
        if interrupts.asked:
            raise KeyboardInterrupt
        with interrupts.waiting():
            files = [file, dust.write_figure(mixture, found, output)]
        console.print(f"dust, 128²: {found.calls} network calls, {found.seconds:.0f} s")
        console.print(truth_table(found), markup=False, soft_wrap=True)
        for file in files:
            console.print(f"figure: {file}", soft_wrap=True)
    console.print("\n" + terminal(read_differences()), markup=False, soft_wrap=True)
