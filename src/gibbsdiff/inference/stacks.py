"""Stacks in files: one noise for each channel, pages streamed from file to file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.encoding import Given, read
from gibbsdiff.inference.files import Denoised, Results, results_for, stem_of, target
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.progress import Progress, reporter
from gibbsdiff.inference.series import Series, denoise_series
from gibbsdiff.io.atomic import move_together
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.intensity import Scale
from gibbsdiff.io.picture import map_in_units, stored_pixels
from gibbsdiff.io.stack import open_stack
from gibbsdiff.io.stack_format import PageWriter, Stack


class Levels(NamedTuple):
    """Of pages whose noise is their own: its standard deviation in the file's units, page by page,
    and how many pages have a noise model that does not fit.
    """

    values: list[float]
    unlike: int


@dataclass(frozen=True)
class DenoisedStack:
    """The noise of each channel, or with `each` of every page, and the files written.

    `as_they_were` pages are constant, or have no value at all.
    """

    path: Path
    pages: int
    expected: int | None
    axes: str
    noise: list[Denoised]
    levels: Levels | None
    as_they_were: int
    files: list[Path]

    @property
    def trouble(self) -> str | None:
        """A line if the file is cut off."""
        if self.expected == self.pages:
            return None
        of = "" if self.expected is None else f" of {self.expected}"
        return f"{self.path}: cut off: {self.pages}{of} pages are there, and these are done"

    @property
    def summary(self) -> str:
        """What was found, in words."""
        lines = [f"{self.pages} pages, axes {self.axes}"]
        if self.levels is not None:
            low, high = min(self.levels.values), max(self.levels.values)
            lines[0] += f": each its own noise, of standard deviation {low:.4g} to {high:.4g}"
            if self.levels.unlike:
                lines.append(f"the noise model does NOT fit {self.levels.unlike} of them")
        elif len(self.noise) > 1:
            lines[0] += f": one noise for each of {len(self.noise)} channels"
        else:
            lines[0] += ": one noise for all"
        if self.as_they_were:
            lines.append(f"{self.as_they_were} of them are constant, and stay as they were")
        for number, found in enumerate(self.noise):
            lines += [f"channel {number}:"] if len(self.noise) > 1 else []
            lines.append(found.summary)
        return "\n".join(lines)


class StackFrames(Sequence[Given]):
    """Pages of a stack on one scale, each read when it is asked for."""

    def __init__(self, stack: Stack, pages: Sequence[int], scale: Scale) -> None:
        self.stack, self.pages, self.scale = stack, pages, scale

    def __len__(self) -> int:
        return len(self.pages)

    def __getitem__(self, index: Any, /) -> Any:
        return read(self.stack.picture(self.pages[index], self.scale))


def denoise_stack(
    path: str | Path,
    out: str | Path | None = None,
    *,
    axes: str | None = None,
    each: bool = False,
    figure: bool = True,
    posterior: bool = True,
    clobber: bool = True,
    progress: bool | Progress = False,
    **options: Any,
) -> DenoisedStack:
    """Denoise a stack: a multi-page TIFF, a FITS cube or an NPY array (T, H, W).

    Memory does not grow with the number of pages. All files appear together at the end, or none.
    Of a file that is cut off the pages before the cut are done; `DenoisedStack.trouble` says so.

    Arguments:
        out: The denoised stack's file. By default it lies beside the input.
        axes: Of the file, such as "TZCYX", where it does not say them itself.
        each: Whether every page has a noise of its own; by default every channel has one.
        figure, posterior: Whether report and posterior of each channel's noise are written.
        options: Those of `gibbsdiff.denoise`.
    """
    with open_stack(path, axes) as stack:
        if stack is None:
            raise InputError(f"{path}: one picture, not a stack; `gibbsdiff.denoise_file` takes it")
        place = Path(out) if out is not None else target(stack.path, None, many=False)
        results = stack_results(stack, place, figure=figure, posterior=posterior)
        if not clobber and (there := [f for r in results for f in r.existing()]):
            raise InputError(f"{there[0]}: exists already")
        with reporter(progress) as report:
            return denoise_pages(stack, results, each=each, progress=report, **options)


def stack_results(
    stack: Stack, place: Path, *, figure: bool = True, posterior: bool = True
) -> list[Results]:
    """The files of each channel: the stack and its uncertainty are those of all."""
    whole = results_for(_sample(stack, Scale(0.0, 1.0)), place, figure=figure, posterior=posterior)
    count = len(stack.channels())
    if count == 1:
        return [whole]

    def of(file: Path | None, channel: int) -> Path | None:
        if file is None:
            return None
        stem = stem_of(place).name
        return file.with_name(file.name.replace(stem, f"{stem}.c{channel}", 1))

    return [
        whole._replace(posterior=of(whole.posterior, c), report=of(whole.report, c))
        for c in range(count)
    ]


def denoise_pages(
    stack: Stack,
    results: Sequence[Results],
    *,
    progress: Progress,
    each: bool = False,
    **options: Any,
) -> DenoisedStack:
    """`denoise_stack` of an open stack; trouble is one line that names its file."""
    try:
        return _denoised(stack, results, each, progress, options)
    except InputError as trouble:
        known = str(trouble).startswith(str(stack.path))
        raise trouble if known else InputError(f"{stack.path}: {trouble}") from None
    except OSError as trouble:
        where = results[0].picture
        raise InputError(f"{where}: cannot be written ({trouble.strerror or trouble})") from None


def _denoised(
    stack: Stack,
    results: Sequence[Results],
    each: bool,
    progress: Progress,
    options: dict[str, Any],
) -> DenoisedStack:
    place, channels = results[0].picture, stack.channels()
    if options.get("level_map") is False:  # none is looked for in a stack
        options = {**options, "level_map": None}
    scales = [stack.scale(pages) for pages in channels]
    series: list[Series] = []
    for pages, scale in [] if each else zip(channels, scales, strict=True):
        frames = StackFrames(stack, pages, scale)
        series.append(denoise_series(frames, progress=progress, **options))
        if series[-1].noise.interrupted:
            raise KeyboardInterrupt
    owner = {page: c for c, pages in enumerate(channels) for page in pages}

    def posterior_of(page: int, picture: Picture) -> Posterior:
        if not each:
            return series[owner[page]].denoised(read(picture))
        found: Posterior = denoise(picture, progress=progress, **options)
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    with tempfile.TemporaryDirectory(prefix=".gibbsdiff-", dir=place.parent) as name:
        folder = Path(name)
        pixels = stack.writer(folder / place.name)
        maps = stack.map_writer(folder / results[0].uncertainty.name)
        with closing(pixels), closing(maps):
            seen = _stream(
                stack, lambda page: scales[owner[page]], posterior_of, pixels, maps, progress
            )
        files = [place, results[0].uncertainty][: 1 + seen.mapped]
        for one, wanted in zip(series, results, strict=False):
            if wanted.posterior is not None:
                one.noise.save(folder / wanted.posterior.name)
                files.append(wanted.posterior)
            if wanted.report is not None:
                title = f"{stack.path.name}, parts of it"
                one.noise.plot(folder / wanted.report.name, kind="report", title=title)
                files.append(wanted.report)
        move_together(files, folder)
    noise = [
        Denoised(_sample(stack, scale), one.noise, [])
        for one, scale in zip(series, scales, strict=False)
    ]
    levels = Levels(seen.levels, seen.unlike) if each and seen.levels else None
    count, same = len(stack), seen.as_they_were
    return DenoisedStack(stack.path, count, stack.expected, stack.axes, noise, levels, same, files)


@dataclass
class _Seen:
    """What streaming the pages has shown."""

    levels: list[float] = field(default_factory=list)
    unlike: int = 0
    as_they_were: int = 0
    mapped: bool = False  # a model may have no map of its error


def _stream(
    stack: Stack,
    scale_of: Callable[[int], Scale],
    posterior_of: Callable[[int, Picture], Posterior],
    pixels: PageWriter,
    maps: PageWriter,
    progress: Progress,
) -> _Seen:
    """Page after page in the order of the file: its pixels, and the map of its error."""
    seen = _Seen()
    for page in range(len(stack)):
        progress("denoising pages", page, len(stack))
        if stack.is_empty(page):
            numbers = stack.numbers(page)
            pixels.add(numbers)
            kept = numbers[: len(numbers) - stack.alpha]
            maps.add(np.where(np.isfinite(kept), 0, np.nan).astype(np.float32))
            seen.as_they_were += 1
            continue
        picture = stack.picture(page, scale_of(page))
        found = posterior_of(page, picture)
        pixels.add(stack.with_alpha(page, stored_pixels(picture, found.picture.numpy())))
        sd = np.full_like(picture.values, np.nan) if found.sd is None else found.sd.numpy()
        maps.add(map_in_units(picture, sd))
        seen.mapped = seen.mapped or found.sd is not None
        seen.levels.append(picture.unit * found.level)
        seen.unlike += found.check is not None and found.check.fits is False
    progress("denoising pages", len(stack), len(stack))
    return seen


def _sample(stack: Stack, scale: Scale) -> Picture:
    """A picture of the stack's kind, for its names and units."""
    empty = np.zeros((1, 16, 16), np.float32)
    return Picture(
        stack.path, empty, np.zeros((16, 16), bool), scale.zero, scale.unit, stack.format, 1
    )
