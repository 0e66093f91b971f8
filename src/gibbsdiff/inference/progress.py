"""Progress of long work: one callback, and a bar for those who want one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int | None], None]
"""Called as progress(stage, step, of): the stage by name, how many steps of it are done, and how
many there are at most (None: not known). It may raise to cancel: KeyboardInterrupt ends the run
with what is there, anything else leaves it at once.
"""


def silent(stage: str, step: int, of: int | None = None) -> None:
    """Say nothing."""


@contextmanager
def reporter(progress: bool | Progress, label: str = "") -> Iterator[Progress]:
    """A callback as it is; `True` is a bar on stderr, the label before each stage; `False` is
    silence.
    """
    if callable(progress):
        yield progress
    elif not progress:
        yield silent
    else:
        with _bar(label) as show:
            yield show


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bar,
    )

    # Names of files are shown as they are, and a step may take minutes.
    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Bar(*columns, console=console, transient=True, speed_estimate_period=3600) as bar:
        task, current = bar.add_task(label, total=None), ""

        def show(stage: str, step: int, of: int | None = None) -> None:
            nonlocal task, current
            if stage != current:  # a task of its own: the time left is that of the stage
                bar.remove_task(task)
                task, current = bar.add_task(f"{label}{stage}", total=of), stage
            bar.update(task, completed=step, total=of)

        yield show
