"""Pictures that were dropped together: one noise for all, found once by the worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.progress import Progress
from gibbsdiff.inference.same_noise import FileFrames, pictures_alike
from gibbsdiff.inference.series import Series, denoise_series
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.picture import read_picture


@dataclass(frozen=True)
class Together:
    """Files, and what was found of them together."""

    files: tuple[Path, ...]
    options: dict[str, Any]
    frames: FileFrames
    series: Series


_kept: dict[str, Together] = {}  # at most one: the worker does one task at a time


def together(
    path: Path, peers: list[str], options: dict[str, Any], denoiser: Any, report: Progress
) -> tuple[Picture, Posterior]:
    """A picture on the scale of all, and its posterior by the noise of all.

    The noise is kept until other pictures come. Those that cannot be read, or were cancelled, have
    no part in it; one that is left alone has a noise of its own.
    """
    found = _kept.get("last")
    if found is None or path not in found.files or found.options != options:
        _kept.clear()
        files = tuple(file for file in map(Path, peers) if file == path or _is_readable(file))
        frames = pictures_alike(files)
        series = denoise_series(frames, progress=report, model=denoiser, **options)
        found = _kept["last"] = Together(files, options, frames, series)
    index = found.files.index(path)
    return found.frames.picture(index), found.series.denoised(found.frames[index], report)


def _is_readable(file: Path) -> bool:
    try:
        read_picture(file)
    except InputError:
        return False
    return True
