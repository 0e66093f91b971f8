"""A stack of pages, and all of its file but the pixels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, Picture
from gibbsdiff.io.intensity import ENOUGH, Scale, scale_of
from gibbsdiff.io.picture import page_of

#: Axes of a page: rows, columns, and the samples of a colour.
OF_PAGE = "YXS"
CHANNEL = "C"
SAMPLED = 16  # pages that the scale is taken from


class PageWriter(Protocol):
    """Takes pages in the order in which they lie in the file."""

    def add(self, planes: Array) -> None:
        """Write the next page (C, H, W), alpha included."""
        ...

    def close(self) -> None:
        """End the file."""
        ...


@dataclass(frozen=True)
class Stack:
    """A file of many pages.

    Arguments:
        axes: Their letters, and `shape` their lengths, as in "TZCYX"; S are the samples of a
            colour. A page is one picture, YX or YXS; pages that differ in C are of other kinds.
        order: Where each page of the file lies among the other axes, in C order.
        expected: How many pages there should be; None: it cannot be told. Fewer than that are
            there if the file is cut off.
        numbers: The stored numbers (C, H, W) of a page of the file, alpha included.
        alpha: Whether the last of them is alpha, which goes out as it came in.
        writer, map_writer: A file with other pixels, or with float32 maps, at a path.
        close: Ends reading.
    """

    path: Path
    axes: str
    shape: tuple[int, ...]
    order: Sequence[int]
    expected: int | None
    format: FileFormat
    numbers: Callable[[int], Array]
    alpha: bool
    writer: Callable[[Path], PageWriter]
    map_writer: Callable[[Path], PageWriter]
    close: Callable[[], None]

    def __len__(self) -> int:
        return len(self.order)

    @property
    def whole(self) -> bool:
        """Whether all pages are there."""
        return self.expected == len(self)

    @property
    def page_shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.shape[self.axes.index("Y")], self.shape[self.axes.index("X")]

    def channels(self) -> list[list[int]]:
        """The pages of each channel."""
        loops = [(a, n) for a, n in zip(self.axes, self.shape, strict=True) if a not in OF_PAGE]
        names = [a for a, _ in loops]
        if CHANNEL not in names:
            return [list(range(len(self)))]
        at = np.unravel_index(np.asarray(self.order), [n for _, n in loops])[names.index(CHANNEL)]
        return [np.flatnonzero(at == c).tolist() for c in np.unique(at)]

    def scale(self, pages: Sequence[int]) -> Scale:
        """The scale of these pages, from some of them."""
        count = min(SAMPLED, len(pages))
        picked = [pages[int((i + 0.5) * len(pages) / count)] for i in range(count)]
        some: list[Array] = []
        for page in picked:
            pixels = self._pixels(page)
            values = pixels[np.isfinite(pixels)]
            if self.format.blank is not None:
                values = values[values != self.format.blank]
            if values.size:
                thinned = values[:: max(1, values.size * len(picked) // ENOUGH)]
                some += [thinned, np.array([values.min(), values.max()])]
        if not some:
            raise InputError(f"{self.path}: no pixel has a value (all are NaN, infinite or blank)")
        row = np.concatenate(some).astype(self.format.dtype)[None, None]
        return scale_of(row, np.zeros(row.shape[1:], dtype=bool), self.format)

    def picture(self, page: int, scale: Scale) -> Picture:
        """A page on this scale."""
        return page_of(self.path, self._pixels(page), self.format, scale)

    def is_empty(self, page: int) -> bool:
        """Whether all its pixels are equal or have no value: there is nothing to denoise."""
        pixels = self._pixels(page)
        finite = pixels[np.isfinite(pixels)]
        return finite.size == 0 or bool(finite.min() == finite.max())

    def with_alpha(self, page: int, pixels: Array) -> Array:
        """Pixels (C, H, W), and the page's own alpha if it has one."""
        return np.concatenate([pixels, self.numbers(page)[-1:]]) if self.alpha else pixels

    def _pixels(self, page: int) -> Array:
        numbers = self.numbers(page)
        return numbers[:-1] if self.alpha else numbers


def named_axes(axes: str | None, own: str, shape: Sequence[int]) -> str:
    """The letters that were given, if they fit the lengths and the pages, or the file's own."""
    if axes is None:
        return own
    size = "×".join(map(str, shape))
    letters = axes.upper()
    if not (letters.isalpha() and len(set(letters)) == len(letters)):
        raise InputError(f"axes {axes!r}: need different letters, such as TZCYX")
    if len(letters) != len(own):
        raise InputError(f"axes {axes} are {len(letters)}, but the file has {len(own)} ({size})")
    pages = (
        [own.index(a) for a in OF_PAGE if a in own],
        [letters.find(a) for a in OF_PAGE if a in letters],
    )
    if pages[0] != pages[1]:
        raise InputError(f"axes {axes} do not fit: pages of {size} are {own[-2:]} in the file")
    return letters
