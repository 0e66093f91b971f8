"""Ctrl-C: the first ends the work with what is there, the second at once and without it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gibbsdiff.inference.progress import Progress

WORDS = "gibbsdiff: ending with what is there; Ctrl-C again ends at once, without it\n"


class Interrupts:
    """Whether Ctrl-C was pressed, and when the work is told: see `gentle_interrupts`."""

    def __init__(self) -> None:
        self.asked = False
        self._insisted = False
        self._pending = False
        self._waiting = False

    def receive(self, number: int, frame: Any) -> None:
        """The signal's handler."""
        if self._waiting:
            self.asked = True
        elif self.asked:
            self._insisted, self._pending = True, False
            raise KeyboardInterrupt
        else:
            self.asked = self._pending = True
            # Not by print: the signal may come in the middle of one. A bar may be in this line.
            text = f"\n{WORDS}" if sys.stderr.isatty() else WORDS
            os.write(sys.stderr.fileno(), text.encode())

    def heeded_by(self, progress: Progress) -> Progress:
        """The same callback, which raises KeyboardInterrupt once after the first signal."""

        def report(stage: str, step: int, of: int | None = None) -> None:
            if self._pending:
                self._pending = False
                raise KeyboardInterrupt
            progress(stage, step, of)

        return report

    def check(self) -> None:
        """Raise KeyboardInterrupt after a second signal: what the work gave is not wanted."""
        if self._insisted:
            raise KeyboardInterrupt

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Signals do not disturb what is done here, such as the writing of files."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False


@contextmanager
def gentle_interrupts() -> Iterator[Interrupts]:
    """While in here, the first Ctrl-C is told to the work at its next report of progress, and
    others raise KeyboardInterrupt where they come. Signals that the shell ignores stay ignored.
    """
    interrupts = Interrupts()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupts.receive)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
