"""TIFF: one page of grey or RGB, with or without alpha, of any depth, its tags kept.

tifffile reads; the writer is our own, as the tags (EXIF is a directory of its own) go from file
to file as bytes.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, TiffImagePlugin

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, check_size, tiff_map

WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, YCBCR = 0, 1, 2, 6
SHORT, LONG, LONG8 = 3, 4, 16
ORIENTATION, EXIF, GPS, INTEROPERABILITY = 274, 34665, 34853, 40965

#: Tags on how pixels are stored: written anew. Then pointers, colour tables of codecs, layers.
STRUCTURE = frozenset({256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 317, 338, 339})
DROPPED = frozenset({320, 322, 323, 324, 325, 330, 347, *range(512, 522), 529, 530, 532, 37724})

#: Bytes of one value of each type.
SIZES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}

#: Those of a file below 4 GB, which is what we write.
CLASSIC = frozenset(range(1, 14))


class Entry(NamedTuple):
    """A tag; `data` is in the byte order of the file."""

    code: int
    kind: int
    number: int
    data: bytes


@dataclass(frozen=True)
class Form:
    """How a page is stored."""

    order: str  # "<" or ">"
    photometric: int
    planar: bool
    packed: bool
    extra: int  # what the fourth sample means
    tags: tuple[Entry, ...]
    directories: tuple[tuple[int, tuple[Entry, ...]], ...]


def read(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W) of the only page; thumbnails and masks beside it are passed over."""
    import tifffile

    with tifffile.TiffFile(io.BytesIO(content)) as file:
        everything: list[Any] = list(file.pages)
        pages = [page for page in everything if is_picture(page)]
        whole = sum(int(np.prod(s.shape)) for s in file.series[:1])
        if len(pages) != 1 or whole != int(np.prod(pages[0].shape)):
            raise InputError(f"a stack of pages ({len(everything)}); save each as its own file")
        page = pages[0]
        photometric, axes = int(page.photometric), page.axes
        if photometric not in (WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, YCBCR):
            raise InputError(f"a {page.photometric.name} picture; convert it to RGB or grey first")
        if axes not in ("YX", "YXS", "SYX") or page.dtype is None:
            raise InputError(f"axes {axes} are not those of one picture")
        if page.dtype.kind not in "iuf" or page.bitspersample % 8:
            raise InputError(f"{page.bitspersample} bits per sample; need 8, 16 or 32")
        check_size(page.imagelength, page.imagewidth)
        samples = _samples(content, page)
        form = form_of(content, file, page)
    planes = samples[None] if samples.ndim == 2 else samples
    if samples.ndim == 3 and axes == "YXS":
        planes = np.moveaxis(samples, -1, 0)
    channels = 1 if photometric < RGB else 3
    if len(planes) - channels not in (0, 1):
        raise InputError(f"{len(planes)} channels; need grey or RGB, with or without alpha")
    if planes.nbytes > 4e9:
        raise InputError("more than 4 GB of pixels do not fit into a TIFF")
    alpha = planes[channels:].copy() if len(planes) > channels else None
    dtype = planes.dtype.newbyteorder("=")
    file_format = FileFormat(
        "TIFF",
        (".tif", ".tiff"),
        dtype,
        partial(encode_page, alpha=alpha, form=form),
        tiff_map,
        unit_name="levels" if dtype.kind in "iu" else "",
        alpha=alpha,
    )
    return planes[:channels].astype(dtype), file_format


def is_picture(page: Any) -> bool:
    """Whether a page is neither a thumbnail nor a mask."""
    return not int(page.subfiletype) & 5


def _samples(content: bytes, page: Any) -> Array:
    """What tifffile decodes, and for codecs it lacks (LZW, JPEG) what Pillow does."""
    try:
        if page.photometric != YCBCR:
            return page.asarray()
    except ValueError as trouble:
        if "imagecodecs" not in str(trouble):
            raise
    if ORIENTATION in page.tags:  # Pillow turns the picture by it; the file keeps both as they are
        at, upright = (
            page.tags[ORIENTATION].valueoffset,
            struct.pack(page.parent.byteorder + "H", 1),
        )
        content = content[:at] + upright + content[at + 2 :]
    with Image.open(io.BytesIO(content), formats=[TiffImagePlugin.TiffImageFile.format]) as image:
        array = np.array(image)
    if array.dtype.newbyteorder("=") != page.dtype or array.shape != page.shape:
        raise InputError(
            f"{page.compression.name} compression at this depth; save it uncompressed or as ZIP"
        )
    return array


def form_of(content: Any, file: Any, page: Any) -> Form:
    """How a page of this content, bytes or a map of them, is stored, and its tags."""
    tags, directories = [], []
    for entry in _entries(content, page.offset, file.byteorder, file.is_bigtiff):
        if entry.code in (EXIF, GPS):
            at = int.from_bytes(entry.data, "little" if file.byteorder == "<" else "big")
            with suppress(struct.error):  # a pointer to nowhere
                inner = _entries(content, at, file.byteorder, file.is_bigtiff)
                directories.append((entry.code, tuple(e for e in inner if e.kind in CLASSIC)))
        elif entry.code not in STRUCTURE | DROPPED and entry.kind in CLASSIC:
            tags.append(entry)
    key = page.keyframe  # the page itself, or the first of those that are like it
    photometric = int(key.photometric)
    return Form(
        order=file.byteorder,
        photometric=RGB if photometric == YCBCR else photometric,
        planar=key.axes == "SYX",
        packed=int(key.compression) != 1,
        extra=int(key.extrasamples[0]) if key.extrasamples else 0,
        tags=tuple(tags),
        directories=tuple(directories),
    )


def _entries(content: Any, at: int, order: str, big: bool) -> list[Entry]:
    """The tags of a directory, as bytes; a pointer from EXIF to a further one is left."""
    number, word = ("Q", "Q") if big else ("H", "I")
    first, inline = struct.calcsize(number), struct.calcsize(word)
    found = []
    for index in range(struct.unpack_from(order + number, content, at)[0]):
        place = at + first + (4 + 2 * inline) * index
        code, kind, count = struct.unpack_from(f"{order}HH{word}", content, place)
        size, start = SIZES.get(kind, 0) * count, place + 4 + inline
        if size > inline:
            start = struct.unpack_from(order + word, content, start)[0]
        data = content[start : start + size]
        if kind in SIZES and code != INTEROPERABILITY and len(data) == size:  # else it is cut off
            found.append(Entry(code, kind, count, data))
    return found


def encode_page(pixels: Array, alpha: Array | None, form: Form) -> bytes:
    """A TIFF of these planes: strips, then the directories, the page's own one last."""
    planes = pixels if alpha is None else np.concatenate([pixels, alpha])
    mark = b"II" if form.order == "<" else b"MM"
    data, first = page_bytes(planes, form, 8)
    return mark + struct.pack(form.order + "HI", 42, first) + data


def page_bytes(planes: Array, form: Form, at: int, big: bool = False) -> tuple[bytes, int]:
    """A page (C, H, W), alpha included, that stands at the byte `at` of a file: strips, then the
    directories, the page's own one last; and where that begins. `big` is for files above 4 GB.
    """
    count, height, width = planes.shape
    kind = planes.dtype
    rows = max(1, (1 << 18) // (width * kind.itemsize))
    out, offsets, lengths = bytearray(), [], []
    layers = [plane[..., None] for plane in planes] if form.planar else [np.moveaxis(planes, 0, -1)]
    differences = form.packed and kind.kind in "iu"
    for layer in layers:
        for top in range(0, height, rows):
            block = layer[top : top + rows].copy()
            if differences:
                block[:, 1:] -= layer[top : top + rows, :-1]
            data = block.astype(kind.newbyteorder(form.order)).tobytes()  # type: ignore[arg-type]
            data = zlib.compress(data) if form.packed else data
            offsets.append(at + len(out))
            lengths.append(len(data))
            out += data + b"\0" * (len(data) % 2)

    def tag(code: int, kind: int, *values: int) -> Entry:
        letter = {SHORT: "H", LONG: "I", LONG8: "Q"}[kind]
        data = struct.pack(f"{form.order}{len(values)}{letter}", *values)
        return Entry(code, kind, len(values), data)

    place = LONG8 if big else LONG
    entries = [
        *form.tags,
        tag(256, LONG, width),
        tag(257, LONG, height),
        tag(258, SHORT, *[8 * kind.itemsize] * count),
        tag(259, SHORT, 8 if form.packed else 1),
        tag(262, SHORT, form.photometric),
        tag(273, place, *offsets),
        tag(277, SHORT, count),
        tag(278, LONG, rows),
        tag(279, place, *lengths),
        tag(284, SHORT, 2 if form.planar else 1),
        tag(339, SHORT, *[{"u": 1, "i": 2, "f": 3}[kind.kind]] * count),
    ]
    if differences:
        entries.append(tag(317, SHORT, 2))
    if count in (2, 4):
        entries.append(tag(338, SHORT, form.extra))
    for code, inner in form.directories:
        entries.append(tag(code, place, at + len(out)))
        out += _directory(inner, at + len(out), form.order, big)
    first = at + len(out)
    return bytes(out + _directory(entries, first, form.order, big)), first


def _directory(entries: Sequence[Entry], at: int, order: str, big: bool = False) -> bytes:
    """A directory that stands at the byte `at`, with the values that do not fit into it."""
    number, word = ("Q", "Q") if big else ("H", "I")
    inline = struct.calcsize(word)
    table = struct.pack(order + number, len(entries))
    beyond, start = b"", at + len(table) + (4 + 2 * inline) * len(entries) + inline
    for code, kind, count, data in sorted(entries):
        value = data.ljust(inline, b"\0")
        if len(data) > inline:
            value = struct.pack(order + word, start + len(beyond))
            beyond += data + b"\0" * (len(data) % 2)
        table += struct.pack(f"{order}HH{word}", code, kind, count) + value
    return table + bytes(inline) + beyond
