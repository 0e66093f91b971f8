"""What `gibbsdiff denoise` does with picture after picture: imported when the command runs."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from gibbsdiff.cli.app import complain, say
from gibbsdiff.cli.interrupts import Interrupts, gentle_interrupts
from gibbsdiff.cli.progress import stages
from gibbsdiff.cli.stacks import denoise_one_stack
from gibbsdiff.cli.wishes import Wishes
from gibbsdiff.errors import InputError
from gibbsdiff.inference.cost import memory_needed, tile_within, told
from gibbsdiff.inference.files import (
    Denoised,
    Results,
    denoise_picture,
    stem_of,
    target,
    write_results,
)
from gibbsdiff.inference.profile import NoiseProfile, found_on
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.find import find_pictures, is_result
from gibbsdiff.io.picture import READERS, encoded, picture_from_bytes, read_picture
from gibbsdiff.io.stack import open_stack

MUCH = 2e9  # bytes of memory that are worth a word before the work
NAMED = 8  # files of a kind that a line about skipped ones names


def find(patterns: list[str]) -> tuple[list[Path], int]:
    """The pictures that these name, each once, and how many name none."""
    found: dict[Path, Path] = {}
    results: list[Path] = []
    failed = 0
    for pattern in patterns:
        try:
            pictures, earlier, others = find_pictures(pattern)
        except InputError as trouble:
            complain(trouble)
            failed += 1
            continue
        found |= {file.resolve(): file for file in pictures}
        results += earlier
        if others:
            say(f"{pattern}: skipped {_names(others)} (not a picture by its name)")
    files = list(found.values())
    # A shell's *.png names what an earlier run has written; a single file is meant as it stands.
    inputs = [file for file in files if not is_result(file)]
    if inputs and len(inputs) < len(files):
        results += [file for file in files if is_result(file)]
        files = inputs
    if results:
        say(f"skipped {_names(results)} (written by an earlier run)")
    return files, failed


def prepare(output: Path, many: bool) -> None:
    """Make the folder, if it is one."""
    if many and (output.is_file() or (output.suffix in READERS and not output.is_dir())):
        raise InputError(f"{output}: several pictures need a folder, not a file")
    if many or not output.suffix:
        output.mkdir(parents=True, exist_ok=True)


def denoise_files(files: list[Path], wishes: Wishes, many: bool) -> int:
    """Denoise one after the other and print their summaries; how many failed.

    Trouble with one does not keep the others from being done; Ctrl-C does.
    """
    console = Console(highlight=False, markup=False, soft_wrap=True)
    owner: dict[Path, Path] = {}
    failed = 0
    with gentle_interrupts() as interrupts:
        for number, file in enumerate(files, 1):
            place = target(file, wishes.output, many)
            label = f"{number} of {len(files)}, {file.name}: " if many else f"{file.name}: "
            try:
                other = owner.setdefault(stem_of(place), file)
                if other is not file:
                    raise InputError(f"{file}: its results would overwrite those of {other}")
                with open_stack(file, wishes.axes) as stack:
                    if stack is not None:
                        denoise_one_stack(stack, place, wishes, label, interrupts, console)
                    else:
                        _denoise_one(file, place, wishes, label, interrupts, console)
            except (InputError, OSError) as trouble:
                complain(trouble)
                failed += 1
            if interrupts.asked:
                raise KeyboardInterrupt
    return failed


def _denoise_one(
    file: Path, place: Path, wishes: Wishes, label: str, interrupts: Interrupts, console: Console
) -> None:
    picture = read_picture(file, wishes.transfer)
    if said := assumed_light(picture, wishes.transfer):
        say(f"{file}: {said}")
    results = wishes.results_for(picture, place)
    if results.existing() and not wishes.clobber:
        say(f"{file}: skipped, {results.existing()[0]} exists already")
    else:
        _show(_denoised(picture, results, wishes, label, interrupts), console)


def assumed_light(picture: Picture, asked: str) -> str:
    """What a deep picture in colour was taken for, where it may be linear light or sRGB."""
    if picture.linear:
        return "linear light: encoded as sRGB for the network, and decoded after"
    form = picture.format
    deep = form.name in ("TIFF", "PNG") and form.dtype.itemsize > 1 and picture.channels == 3
    if asked == "auto" and deep:
        return "taken as sRGB; --transfer linear if its numbers are linear light"
    return ""


def denoise_stream(wishes: Wishes) -> None:
    """From standard input to standard output: the picture alone; the summary goes to stderr."""
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise InputError("-: needs a picture and a place: gibbsdiff denoise - < a.png > b.png")
    with gentle_interrupts() as interrupts:
        picture = picture_from_bytes(sys.stdin.buffer.read(), "stdin", wishes.transfer)
        results = None
        if wishes.output is not None:
            place = target(picture.path, wishes.output, many=False)
            results = wishes.results_for(picture, place)
            if results.existing() and not wishes.clobber:
                # Not skipped: whoever reads the output would take nothing for a picture.
                raise InputError(f"{results.existing()[0]}: exists already")
        done = _denoised(picture, results, wishes, "", interrupts)
        with interrupts.waiting():
            sys.stdout.buffer.write(encoded(picture, done.posterior.picture.numpy()))
            sys.stdout.buffer.flush()
        _show(done, Console(stderr=True, highlight=False, markup=False, soft_wrap=True))
        if interrupts.asked:
            raise KeyboardInterrupt


def _denoised(
    picture: Picture, results: Results | None, wishes: Wishes, label: str, interrupts: Interrupts
) -> Denoised:
    options = dict(wishes.options)
    if wishes.memory is not None:
        tile = tile_within(wishes.memory, picture, options["method"])
        options |= {} if tile is None else {"tile": tile}
    if memory_needed(picture, options["method"], options.get("tile")) > MUCH or wishes.memory:
        say(f"{picture.path}: {told(picture, options['model'], options)}")
    files = []
    with stages(label) as show:
        progress = interrupts.heeded_by(show)
        posterior = denoise_picture(picture, progress=progress, **options)
        interrupts.check()
        if results is not None:
            show("writing the files", 0, None)
            with interrupts.waiting():
                files = write_results(picture, posterior, results, clobber=wishes.clobber)
    if wishes.save_noise is not None:
        NoiseProfile.of(posterior, **found_on(picture)).save(wishes.save_noise)
        files = [*files, wishes.save_noise]
    return Denoised(picture, posterior, files)


def _show(done: Denoised, console: Console) -> None:
    console.print(str(done.picture.path), style="bold")
    console.print(done.summary)
    for written in done.files:
        console.print(f"  {written}")


def _names(files: list[Path]) -> str:
    names = ", ".join(file.name for file in files[:NAMED])
    return names if len(files) <= NAMED else f"{names} and {len(files) - NAMED} more"
