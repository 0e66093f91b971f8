"""A TIFF of many pages, written one at a time."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

from gibbsdiff.io.file_format import Array
from gibbsdiff.io.tiff import Form, page_bytes


class TiffPages:
    """A TIFF that is written page after page."""

    def __init__(self, path: Path, form: Callable[[int], Form], order: str, big: bool) -> None:
        self.form, self.order, self.big, self.count = form, order, big, 0
        self.file = path.open("wb")
        mark = b"II" if order == "<" else b"MM"
        if big:
            self.file.write(mark + struct.pack(order + "HHHQ", 43, 8, 0, 0))
        else:
            self.file.write(mark + struct.pack(order + "HI", 42, 0))
        self.link = self.file.tell() - (8 if big else 4)  # where the next page's place goes

    def add(self, planes: Array) -> None:
        """The next page."""
        at = self.file.seek(0, os.SEEK_END)
        if at % 2:
            at += self.file.write(b"\0")
        form = self.form(self.count)
        data, first = page_bytes(planes, form, at, self.big)
        self.file.write(data)
        self.file.seek(self.link)
        self.file.write(struct.pack(self.order + ("Q" if self.big else "I"), first))
        number, entry = ("Q", 20) if self.big else ("H", 12)
        (entries,) = struct.unpack_from(self.order + number, data, first - at)
        self.link = first + struct.calcsize(number) + entry * entries
        self.count += 1

    def close(self) -> None:
        """Nothing is left to write."""
        self.file.close()
