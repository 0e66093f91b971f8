"""One progress bar for commands that count what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def bar_for(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr; call what it gives with the number done so far.

    It appears with the first such call: what is refused before is one line and no bar.
    """
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("", total=total)

    def update(done: int) -> None:
        bar.start()
        bar.update(task, completed=done)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()
