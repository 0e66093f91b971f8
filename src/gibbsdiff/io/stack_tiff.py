"""Stacks in TIFF: plain pages, ImageJ's and OME's; every page keeps its tags.

tifffile reads, and Pillow what it has no codec for; the writer is that of `tiff`, page after page,
in the order of the input, so that what OME-XML says of pages stays true.
"""

from __future__ import annotations

import logging
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, check_size
from gibbsdiff.io.stack_format import Stack, named_axes
from gibbsdiff.io.tiff import (
    BLACK_IS_ZERO,
    RGB,
    WHITE_IS_ZERO,
    YCBCR,
    Entry,
    Form,
    form_of,
)
from gibbsdiff.io.tiff_pages import TiffPages

SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
DESCRIPTION, IMAGEJ = 270, (50838, 50839)
LAYOUT = (b"ImageJ=", b"<OME", b'{"shape"')  # descriptions that say how many pages there are
CUT = ("invalid page offset", "invalid value offset", "metadata invalid or corrupted")
LARGE = 3.9e9  # bytes beyond which a TIFF needs longer offsets


def open_tiff(path: Path, axes: str | None) -> Stack | None:
    """The stack, or None if the file holds one page."""
    import tifffile

    with _heard() as said:
        file = tifffile.TiffFile(path)
        try:
            found = _stack(file, path, axes, said)
        except BaseException:
            file.close()
            raise
    if found is None:
        file.close()
    return found


def _stack(file: Any, path: Path, axes: str | None, said: list[str]) -> Stack | None:
    pages = _pages(file, path, said)
    key = pages.key
    if pages.read is None:
        if axes is not None:
            raise InputError(
                f"axes {axes}: there is one page of {key.imagelength}×{key.imagewidth}"
            )
        return None
    if not pages.order:
        raise InputError("not one page can be read")
    short = pages.expected is None or len(pages.order) < pages.expected
    own, shape, order = _axes(file.series[0], key), tuple(file.series[0].shape), pages.order
    if short or shape == key.shape:
        own, shape = "I" + key.axes, (len(order), *key.shape)
        order = list(range(len(order)))
    elif axes is not None and len(axes) == len(file.series[0].get_axes(False)):
        own, shape = file.series[0].get_axes(False), file.series[0].get_shape(False)
    own = named_axes(axes, own, shape)
    if "Y" not in own or "X" not in own:
        raise InputError(f"axes {own} are not those of pages")
    content = mmap.mmap(file.filehandle.fileno(), 0, access=mmap.ACCESS_READ)
    form = partial(_form, content, file, pages.listed, short)
    written = partial(
        TiffPages, order=file.byteorder, big=file.is_bigtiff or len(order) * _bytes(key) > LARGE
    )

    def close() -> None:
        content.close()
        file.close()

    dtype = key.dtype.newbyteorder("=")
    return Stack(
        path,
        own,
        shape,
        order,
        pages.expected,
        FileFormat("TIFF", (".tif", ".tiff"), dtype, _none, _none, unit_name=_unit(dtype)),
        pages.read,
        _samples(key) in (2, 4),
        partial(written, form=form),
        partial(written, form=lambda i: _of_map(form(i))),
        close,
    )


class Pages(NamedTuple):
    """How the pages of a file can be read (None: there is one), where each lies in the series, how
    many there should be, and those that have a directory of their own.
    """

    key: Any
    read: Callable[[int], Array] | None
    order: list[int]
    expected: int | None
    listed: list[Any]


def _pages(file: Any, path: Path, said: list[str]) -> Pages:
    listed: list[Any] = [page for page in file.pages if not int(page.keyframe.subfiletype) & 5]
    series = file.series[0]
    key = series.keyframe
    cut = any(mark in line for line in said for mark in CUT)
    told = int(np.prod(series.shape)) // int(np.prod(key.shape))
    start = key.dataoffsets[0] if key.is_contiguous and key.dataoffsets else 0
    room = (path.stat().st_size - start) // _bytes(key) if start else 0
    if series.dataoffset is not None and (told > 1 or (cut and room > 1)):
        _check(key)
        expected = max(told, _promised(key))
        read = partial(_in_a_row, path, start, _bytes(key), key)
        order = list(range(min(told, room) if told > 1 else room))
        return Pages(key, read, order, expected if expected > 1 else None, listed)
    if len(listed) < 2 and told < 2:
        return Pages(key, None, [], 1, listed)
    others = sum(len(s.pages) for s in file.series[1:])
    if others > len(file.pages) - len(listed):
        raise InputError(f"{len(file.series)} series of pages; save each as a file of its own")
    _check(key)
    if told > 1 and not cut:  # else its own word of the layout is lost, or of more than is there
        listed = [page for page in series.pages if page is not None]
    if any(page.parent.filehandle.path != file.filehandle.path for page in listed):
        raise InputError("its pages lie in several files; save it as one")
    place = {id(page): i for i, page in enumerate(listed)}
    listed = sorted(listed, key=lambda page: page.index)
    order = [place[id(page)] for page in listed]
    good = _readable(partial(_page, path, listed), len(order))
    wanted: int | None = told
    if cut or good < len(order):
        wanted = max(told, _promised(listed[0]), len(order))
        wanted = None if cut and wanted == len(order) else wanted
    return Pages(key, partial(_page, path, listed), order[:good], wanted, listed[:good])


def _samples(key: Any) -> int:
    return int(np.prod(key.shape)) // (key.imagelength * key.imagewidth)


def _bytes(key: Any) -> int:
    return int(np.prod(key.shape)) * (1 if key.dtype is None else key.dtype.itemsize)


def _unit(dtype: np.dtype[Any]) -> str:
    return "levels" if dtype.kind in "iu" else ""


def _none(_: Array) -> bytes:
    raise NotImplementedError("pages are written one by one")


def _check(page: Any) -> None:
    if int(page.photometric) not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, YCBCR):
        raise InputError(f"{page.photometric.name} pages; convert them to RGB or grey first")
    if page.axes not in ("YX", "YXS", "SYX") or page.dtype is None:
        raise InputError(f"axes {page.axes} are not those of a page")
    if page.dtype.kind not in "iuf" or page.bitspersample % 8:
        raise InputError(f"{page.bitspersample} bits per sample; need 8, 16 or 32")
    check_size(page.imagelength, page.imagewidth)
    channels = 1 if int(page.photometric) < RGB else 3
    if (samples := _samples(page)) - channels not in (0, 1):
        raise InputError(f"pages of {samples} channels; need grey or RGB, with or without alpha")


def _axes(series: Any, key: Any) -> str:
    """The letters of a series, S standing for samples of a page alone."""
    own = str(series.axes)
    loops = "".join(a for a in own[: len(own) - len(key.axes)])
    if own.endswith(key.axes):
        return loops.replace("S", "Q") + key.axes
    return own


def _in_a_row(path: Path, start: int, once: int, key: Any, page: int) -> Array:
    """A page of numbers that lie one after the other."""
    with path.open("rb") as file:
        file.seek(start + page * once)
        data = file.read(once)
    kind = key.dtype.newbyteorder(key.parent.byteorder)
    return _planes(np.frombuffer(data, kind).reshape(key.shape), key)


def _page(path: Path, pages: list[Any], page: int) -> Array:
    """A page of its own, by tifffile or, for codecs that it lacks, by Pillow."""
    one = pages[page]
    key = one.keyframe
    if key.photometric != YCBCR:
        try:
            return _planes(one.asarray(), key)
        except ValueError as trouble:
            if "imagecodecs" not in str(trouble):
                raise
    with Image.open(path) as image:
        image.seek(one.index)
        array = np.array(image)
    if array.dtype.newbyteorder("=") != key.dtype or array.shape != key.shape:
        name = key.compression.name
        raise InputError(f"{name} compression at this depth; save it uncompressed or as ZIP")
    return _planes(array, key)


def _planes(samples: Array, key: Any) -> Array:
    planes = samples[None] if samples.ndim == 2 else samples
    if key.axes == "YXS":
        planes = np.moveaxis(samples, -1, 0)
    return planes.astype(planes.dtype.newbyteorder("="))


def _readable(read: Callable[[int], Array], count: int) -> int:
    """How many pages there are before the first that cannot be read."""
    for page in range(count):
        try:
            read(page)
        except InputError:
            raise
        except Exception:  # decoders of damaged files raise whatever they meet
            return page
    return count


def _promised(page: Any) -> int:
    """How many pages the description of the first one says there are."""
    text = page.description or ""
    if found := re.search(r"^images=(\d+)", text, re.MULTILINE):
        return int(found[1])
    if found := re.search(r'\{"shape": \[([\d, ]+)\]', text):
        sizes = [int(n) for n in found[1].split(",")]
        return int(np.prod(sizes)) // int(np.prod(page.shape))
    sizes = [int(n) for n in re.findall(r'\bSize[TZC]="(\d+)"', text)]
    return int(np.prod(sizes)) if sizes else 0


def _form(content: Any, file: Any, pages: list[Any], short: bool, index: int) -> Form:
    """That of the page; those without a directory of their own have the first one's, without what
    it says of all.
    """
    own = index < len(pages)
    form = form_of(content, file, pages[index if own else 0])
    if own and not short:
        return form
    return replace(form, tags=tuple(tag for tag in form.tags if not _of_all(tag)))


def _of_all(tag: Entry) -> bool:
    layout = tag.code == DESCRIPTION and any(mark in tag.data[:4096] for mark in LAYOUT)
    return layout or tag.code in IMAGEJ


def _of_map(form: Form) -> Form:
    """The same of float32 maps: OME-XML says the type of the numbers."""
    tags = []
    for own in form.tags:
        tag, data = own, own.data
        if tag.code == DESCRIPTION and b"<OME" in data:
            data = re.sub(rb'(<Pixels[^>]*?\sType=")[^"]*"', rb'\1float"', data)
            data = re.sub(rb'(<Pixels[^>]*?)\sSignificantBits="\d+"', rb"\1", data)
        tags.append(
            tag._replace(data=data, number=len(data) if data is not tag.data else tag.number)
        )
    return replace(form, tags=tuple(tags))


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What tifffile logs of a file, which is told in our own words."""
    lines: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, listener = logging.getLogger("tifffile"), Listener()
    before = logger.propagate
    logger.addHandler(listener)
    logger.propagate = False
    try:
        yield lines
    finally:
        logger.removeHandler(listener)
        logger.propagate = before
