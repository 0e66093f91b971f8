"""What `gibbsdiff denoise` does with stacks, and with pictures that have one noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from gibbsdiff.cli.app import complain, say
from gibbsdiff.cli.interrupts import Interrupts, gentle_interrupts
from gibbsdiff.cli.progress import stages
from gibbsdiff.cli.wishes import Wishes
from gibbsdiff.errors import InputError
from gibbsdiff.inference.files import Denoised, target, write_results
from gibbsdiff.inference.same_noise import pictures_alike
from gibbsdiff.inference.series import denoise_series
from gibbsdiff.inference.stacks import denoise_pages, stack_results
from gibbsdiff.io.stack import open_stack
from gibbsdiff.io.stack_format import Stack


def denoise_one_stack(
    stack: Stack,
    place: Path,
    wishes: Wishes,
    label: str,
    interrupts: Interrupts,
    console: Console,
) -> None:
    """Denoise a stack and print what was found; trouble if it is cut off, after the work."""
    if wishes.transfer != "auto":
        raise InputError(f"{stack.path}: --transfer: the numbers of stacks are taken as they are")
    results = stack_results(stack, place, figure=wishes.figure, posterior=wishes.posterior)
    there = [file for one in results for file in one.existing()]
    if there and not wishes.clobber:
        say(f"{stack.path}: skipped, {there[0]} exists already")
        return
    with stages(label) as show:
        progress = interrupts.heeded_by(show)
        found = denoise_pages(stack, results, each=wishes.each, progress=progress, **wishes.options)
    console.print(str(stack.path), style="bold")
    console.print(found.summary)
    for written in found.files:
        console.print(f"  {written}")
    if found.trouble is not None:
        raise InputError(found.trouble)


def denoise_alike(files: list[Path], wishes: Wishes) -> int:
    """Find one noise for all pictures, then denoise each; how many failed."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    options: dict[str, Any] = wishes.options
    failed = 0
    with gentle_interrupts() as interrupts:
        for file in files:
            with open_stack(file) as stack:
                if stack is not None:
                    raise InputError(f"{file}: a stack, which has one noise by itself")
        frames = pictures_alike(files)
        with stages(f"{len(files)} pictures: ") as show:
            series = denoise_series(frames, progress=interrupts.heeded_by(show), **options)
        interrupts.check()
        for number, file in enumerate(files, 1):
            label = f"{number} of {len(files)}, {file.name}: "
            try:
                picture = frames.picture(number - 1)
                results = wishes.results_for(picture, target(file, wishes.output, many=True))
                if results.existing() and not wishes.clobber:
                    say(f"{file}: skipped, {results.existing()[0]} exists already")
                    continue
                with stages(label) as show:
                    found = series.denoised(frames[number - 1], interrupts.heeded_by(show))
                    interrupts.check()
                    show("writing the files", 0, None)
                    with interrupts.waiting():
                        written = write_results(picture, found, results, clobber=wishes.clobber)
                done = Denoised(picture, found, written)
                console.print(str(file), style="bold")
                console.print(done.summary)
                for each in written:
                    console.print(f"  {each}")
            except (InputError, OSError) as trouble:
                complain(trouble)
                failed += 1
            if interrupts.asked:
                raise KeyboardInterrupt
    return failed
