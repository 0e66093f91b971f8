"""`gibbsdiff denoise … --cluster`: each file is a task for any worker."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from gibbsdiff.cli.app import complain, say
from gibbsdiff.cli.progress import bar_for
from gibbsdiff.cli.wishes import Wishes
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.cluster import mapper
from gibbsdiff.inference.file_tasks import FileDone, FileTask, denoise_task
from gibbsdiff.inference.files import stem_of, target


def denoise_on_cluster(
    files: list[Path], wishes: Wishes, many: bool, address: str, model: str | Path, device: str
) -> int:
    """Denoise files on a Dask cluster and print their summaries as they come; how many failed.

    The lines of all that failed are told again at the end.
    """
    if address == "local":
        address = f"local:{os.cpu_count() or 1}"
    tasks, failed = _tasks(files, wishes, many, model, device)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    # With nothing left to do no cluster is needed, nor looked for.
    with mapper(address if tasks else None, say) as work, bar_for("pictures", len(tasks)) as show:
        for number, done in enumerate(work(denoise_task, tasks, lost=_lost), 1):
            if done.summary:
                console.print(str(done.file), style="bold")
                console.print(done.summary)
            for written in done.files:
                console.print(f"  {written}")
            if done.trouble:
                complain(InputError(done.trouble))
                failed.append(done.trouble)
            show(number)
    if failed:
        say(f"failed: {len(failed)} of {len(files)}")
        for line in failed:
            say(f"  {line}")
    return len(failed)


def _tasks(
    files: list[Path], wishes: Wishes, many: bool, model: str | Path, device: str
) -> tuple[list[FileTask], list[str]]:
    """What is left to do, and the lines of what cannot be done. All files of a picture appear
    together: where the denoised one is, it is done.
    """
    options = tuple((n, v) for n, v in wishes.options.items() if n not in ("model", "checkpoint"))
    owner: dict[Path, Path] = {}
    tasks, failed, there = [], [], 0
    for file in files:
        place = target(file, wishes.output, many)
        other = owner.setdefault(stem_of(place), file)
        if other is not file:
            failed.append(f"{file}: its results would overwrite those of {other}")
            complain(InputError(failed[-1]))
        elif not wishes.clobber and os.path.lexists(place):
            there += 1
        else:
            tasks.append(
                FileTask(
                    file.absolute(),
                    place.absolute(),
                    model,
                    device,
                    wishes.axes,
                    wishes.each,
                    wishes.figure,
                    wishes.posterior,
                    wishes.html,
                    wishes.clobber,
                    wishes.transfer,
                    options,
                )
            )
    if there:
        say(f"{there} of {len(files)}: skipped, their results exist already")
    return tasks, failed


def _lost(task: FileTask, reason: str) -> FileDone:
    """What is told of a file that ended one worker after the other."""
    return FileDone(task.file, trouble=f"{task.file}: {reason}")
