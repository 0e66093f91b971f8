"""A file to be denoised as a task for any process: plain data in, plain data out."""

from __future__ import annotations

import resource
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.files import denoise_file
from gibbsdiff.inference.stacks import denoise_pages, stack_results
from gibbsdiff.io.stack import open_stack
from gibbsdiff.io.transfer import Transfer
from gibbsdiff.pretrained import load_for_pictures


class FileTask(NamedTuple):
    """A file, where its result goes, and what is asked for; paths are those of the worker."""

    file: Path
    place: Path
    model: str | Path
    device: str = "cpu"
    axes: str | None = None
    each: bool = False
    figure: bool = True
    posterior: bool = True
    html: bool = False
    clobber: bool = True
    transfer: Transfer = "auto"
    options: tuple[tuple[str, Any], ...] = ()


class FileDone(NamedTuple):
    """What became of it: a summary and the files written, or the line of what was wrong; and the
    seconds by the clock, those of the processor, and the peak memory of the worker in bytes.
    """

    file: Path
    summary: str = ""
    files: tuple[Path, ...] = ()
    trouble: str = ""
    seconds: float = 0.0
    processor: float = 0.0
    memory: float = 0.0


def denoise_task(task: FileTask) -> FileDone:
    """Denoise a file or a stack; whatever is wrong with it is a line, and stops no other."""
    begun = time.perf_counter(), time.process_time()
    summary, trouble = "", ""
    files: tuple[Path, ...] = ()
    try:
        summary, files, trouble = _done(task)
    except (InputError, OSError) as problem:
        trouble = str(problem)
    except Exception as problem:
        trouble = f"{task.file}: {type(problem).__name__}: {' '.join(str(problem).split())[:200]}"
    unit = 1 if sys.platform == "darwin" else 1024
    return FileDone(
        task.file,
        summary,
        files,
        trouble,
        time.perf_counter() - begun[0],
        time.process_time() - begun[1],
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
    )


def _done(task: FileTask) -> tuple[str, tuple[Path, ...], str]:
    asked: dict[str, Any] = {**dict(task.options), "model": _model(str(task.model), task.device)}
    wanted = {"figure": task.figure, "posterior": task.posterior}
    with open_stack(task.file, task.axes) as stack:
        if stack is None:
            done = denoise_file(
                task.file,
                task.place,
                clobber=task.clobber,
                html=task.html,
                transfer=task.transfer,
                **wanted,
                **asked,
            )
            return done.summary, tuple(done.files), ""
        results = stack_results(stack, task.place, **wanted)
        if not task.clobber and (there := [f for one in results for f in one.existing()]):
            raise InputError(f"{there[0]}: exists already")
        found = denoise_pages(stack, results, each=task.each, progress=lambda *_: None, **asked)
        return found.summary, tuple(found.files), found.trouble or ""


@lru_cache(maxsize=1)
def _model(name: str, device: str) -> Denoiser:
    """The model of a worker, loaded once."""
    return on_device(load_for_pictures(name), device)
