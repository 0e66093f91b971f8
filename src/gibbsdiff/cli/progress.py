"""Progress bars of commands: on stderr, and only where stderr is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from gibbsdiff.inference.progress import Progress, reporter


def watched() -> bool:
    """Whether anyone would see a bar."""
    return sys.stderr.isatty()


@contextmanager
def stages(label: str = "") -> Iterator[Progress]:
    """What `gibbsdiff.denoise` and `infer` take as `progress`: a bar with the label, the stage, its
    steps and the time left for it.
    """
    with reporter(watched(), label) as show:
        yield show


@contextmanager
def bar_for(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar over things that are counted; call what it gives with the number done so far.

    It appears with the first such call: what is refused before is one line and no bar.
    """
    columns = (TextColumn(name, markup=False), BarColumn(), MofNCompleteColumn())
    shown = Bar(
        *columns,
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not watched(),
        speed_estimate_period=3600,
    )
    task = shown.add_task("", total=total)

    def update(done: int) -> None:
        shown.start()
        shown.update(task, completed=done)

    try:
        yield update
    finally:
        if shown.live.is_started:
            shown.stop()
