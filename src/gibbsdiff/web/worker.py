"""The one process that computes: it is told tasks through a pipe, one at a time, as JSON.

Nothing is pickled on the way. A task reports its stage and step; the report is also where it learns
that it is no longer wanted. One that cannot be reached in time is killed, and the process started
again: see `gibbsdiff.web.keeper`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError

OFTEN = 0.1  # seconds between two reports of one stage
Told = dict[str, Any]
Report = Callable[[str, int, int | None], None]


class CancelledError(Exception):
    """The task is no longer wanted."""


def tell(pipe: Connection, **message: Any) -> None:
    """Send a message."""
    pipe.send_bytes(json.dumps(message).encode())


def hear(pipe: Connection) -> Told:
    """Wait for a message; EOFError when the other side is gone."""
    message: Told = json.loads(pipe.recv_bytes())
    return message


def work(pipe: Connection, model: str, folder: str) -> None:
    """The process: tasks until the pipe is closed. What it or a library of it leaves behind lies in
    the folder, which the server deletes.
    """
    tempfile.tempdir = folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from gibbsdiff.pretrained import load_for_pictures
    from gibbsdiff.web import tasks

    try:
        denoiser = load_for_pictures(model)
    except InputError as trouble:
        tell(pipe, what="unfit", line=str(trouble))
        return
    tell(pipe, what="ready")
    while True:
        try:
            task = hear(pipe)
        except (EOFError, OSError):
            return
        if task["do"] == "cancel":
            continue  # it came when the task was done
        try:
            report = _reporter(pipe)

            def show(facts: Told) -> None:
                tell(pipe, what="shown", facts=facts)

            done = getattr(tasks, task["do"])(task, denoiser, report, show)
            answer = {"what": "done", **done}
        except CancelledError:
            answer = {"what": "cancelled"}
        except (BrokenPipeError, EOFError):
            return
        except Exception as trouble:
            answer = {"what": "failed", "line": _line(trouble, task)}
        _let_go()
        try:
            tell(pipe, **answer)
        except OSError:
            return


def _reporter(pipe: Connection) -> Report:
    last, told = "", 0.0

    def report(stage: str, step: int, of: int | None = None) -> None:
        nonlocal last, told
        while pipe.poll():
            if hear(pipe)["do"] == "cancel":
                raise CancelledError
        now = time.monotonic()
        if stage != last or now - told > OFTEN:
            last, told = stage, now
            tell(pipe, what="progress", stage=stage, step=step, of=of)

    return report


def _line(trouble: Exception, task: Told) -> str:
    """What is wrong, without the folder that the upload lies in."""
    uploads = re.escape(f"{Path(task['folder']).parent}{os.sep}") + r"[0-9a-f]+" + re.escape(os.sep)
    if isinstance(trouble, InputError):
        text = str(trouble)
    elif isinstance(trouble, MemoryError):
        text = f"{task['name']}: not enough memory"
    else:
        traceback.print_exception(trouble, file=sys.stderr)
        text = (
            f"{task['name']}: failed unexpectedly ({type(trouble).__name__}); see the server's log"
        )
    return " ".join(re.sub(uploads, "", text).split())


def _let_go() -> None:
    """Give memory back to the system: the C library keeps what was freed."""
    gc.collect()
    with suppress(OSError, AttributeError):  # another system has its own ways
        ctypes.CDLL("libc.so.6").malloc_trim(0)
