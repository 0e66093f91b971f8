"""Stacks of plain numbers: NPY arrays and FITS cubes. Bytes before, pages in a row, bytes after."""

from __future__ import annotations

import io
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, check_size
from gibbsdiff.io.fits import BLOCK, STORED, SUFFIXES, SUMS
from gibbsdiff.io.stack_format import OF_PAGE, Stack, named_axes


class PlainPages:
    """A file that is written page after page: a head, numbers as `dtype`, zeros up to a multiple of
    `block`, and what follows in another file from the byte `after`.
    """

    def __init__(
        self,
        path: Path,
        head: bytes,
        dtype: np.dtype[Any],
        last: bool,
        block: int = 1,
        rest: tuple[Path, int] | None = None,
    ) -> None:
        self.file, self.dtype, self.last = path.open("wb"), dtype, last
        self.block, self.rest, self.written = block, rest, 0
        self.file.write(head)

    def add(self, planes: Array) -> None:
        """The next page."""
        page = np.moveaxis(planes, 0, -1) if self.last else planes
        self.written += self.file.write(np.ascontiguousarray(page).astype(self.dtype).tobytes())

    def close(self) -> None:
        """Fill the last block, and copy what follows."""
        self.file.write(b"\0" * (-self.written % self.block))
        if self.rest is not None:
            with self.rest[0].open("rb") as source:
                source.seek(self.rest[1])
                shutil.copyfileobj(source, self.file)
        self.file.close()


def open_npy(path: Path, axes: str | None) -> Stack | None:
    """An array (T, H, W), (T, H, W, 3), or of the axes given."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_2_0
        if version == (1, 0):
            reader = np.lib.format.read_array_header_1_0
        shape, fortran, dtype = reader(file)
        start = file.tell()
    colour = len(shape) == 4 and shape[-1] in (1, 3, 4)
    picture = len(shape) == 3 and (shape[-1] in (1, 3) or shape[0] in (1, 3))
    if dtype.kind not in "iuf" or (axes is None and (len(shape) < 3 or picture)):
        return None  # one picture, or what the reader of pictures refuses
    if fortran:
        raise InputError("a stack in Fortran order; save it in C order")
    own = {3: "TYX", 4: "TYXS" if colour else ""}.get(len(shape), "")
    if not own and axes is None:
        raise InputError(f"{len(shape)} axes {shape}; say what they are, such as --axes TZYX")
    own = _named(axes, own, shape)
    count, expected, shape = _there(path, start, own, shape, dtype)
    own = own if len(shape) == len(own) else "I" + "".join(a for a in own if a in OF_PAGE)

    def head(kind: np.dtype[Any], size: tuple[int, ...]) -> bytes:
        made = io.BytesIO()
        facts = {"descr": kind.str, "fortran_order": False, "shape": size}
        np.lib.format.write_array_header_2_0(made, facts)
        return made.getvalue()

    plain = FileFormat(
        "NPY",
        (".npy",),
        dtype.newbyteorder("="),
        _none,
        _none,
        ".npy",
        unit_name="levels" if dtype.kind in "iu" else "",
    )
    last, alpha = own.endswith("S"), "S" in own and shape[own.index("S")] in (2, 4)
    kind = np.dtype("<f4")
    flat = tuple(n - alpha if a == "S" else n for a, n in zip(own, shape, strict=True))
    return Stack(
        path,
        own,
        shape,
        range(count),
        expected,
        plain,
        partial(_numbers, path, start, own, shape, dtype),
        alpha,
        partial(PlainPages, head=head(dtype, shape), dtype=dtype, last=last),
        partial(PlainPages, head=head(kind, flat), dtype=kind, last=last),
        _nothing,
    )


def open_fits(path: Path, axes: str | None) -> Stack | None:
    """A cube: the first image, if it has further axes and is not one of three colours."""
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong with other parts is not our concern
        with fits.open(path, memmap=True, disable_image_compression=True) as file:
            images = (h for h in file if h.is_image)
            hdu = next((h for h in images if len(getattr(h, "shape", "YX")) >= 2), None)
            if hdu is None or not hasattr(hdu, "shape"):  # packed images are tables here
                return None
            header, shape, place = hdu.header.copy(), tuple(hdu.shape), hdu.fileinfo()
    planes = int(np.prod(shape[:-2]))
    if axes is None and (len(shape) < 3 or planes in (0, 1, 3)):
        return None
    own = _named(axes, "IJK"[: len(shape) - 2][::-1] + "YX" if len(shape) < 6 else "", shape)
    start, dtype = place["datLoc"], np.dtype(STORED[header["BITPIX"]])
    count, expected, shape = _there(path, start, own, shape, dtype)
    own = own if len(shape) == len(own) else "IYX"
    slope = float(header.get("BSCALE", 1.0))
    if slope == 0:
        raise InputError("BSCALE is 0: every pixel has the same value")
    levels = "levels" if dtype.kind in "iu" and slope == 1 else ""
    plain = FileFormat(
        "FITS",
        SUFFIXES,
        dtype.newbyteorder("="),
        _none,
        _none,
        ".fits",
        float(header.get("BZERO", 0.0)),
        slope,
        header.get("BLANK") if dtype.kind in "iu" else None,
        measured=True,
        unit_name=str(header.get("BUNIT", "")).strip() or levels,
    )
    before = b""
    if place["hdrLoc"]:
        with path.open("rb") as source:
            before = source.read(place["hdrLoc"])
    new = _cut(header, shape, count < (expected or 0))
    new.add_history("denoised by gibbsdiff")
    sd = _cut(header.copy(strip=False), shape, count < (expected or 0))
    for name in ("BZERO", "BSCALE", "BLANK"):
        sd.remove(name, ignore_missing=True)
    sd["BITPIX"] = -32
    sd.add_history("posterior standard deviation by gibbsdiff")
    after = start + place["datSpan"]
    rest = (path, after) if path.stat().st_size > after else None
    kind = np.dtype(">f4")
    return Stack(
        path,
        own,
        shape,
        range(count),
        expected,
        plain,
        partial(_numbers, path, start, own, shape, dtype),
        False,
        partial(
            PlainPages,
            head=before + new.tostring().encode("ascii"),
            dtype=dtype,
            last=False,
            block=BLOCK,
            rest=rest,
        ),
        partial(
            PlainPages,
            head=before + sd.tostring().encode("ascii"),
            dtype=kind,
            last=False,
            block=BLOCK,
        ),
        _nothing,
    )


def _named(axes: str | None, own: str, shape: tuple[int, ...]) -> str:
    """The axes: those given end in YX or YXS."""
    if axes is None:
        return own
    letters = axes.upper()
    ends = "YXS" if letters.endswith("S") else "YX"
    if len(letters) == len(shape) and not letters.endswith(ends):
        raise InputError(f"axes {axes}: pages must come last, as YX or YXS")
    like = "ABDEFG"[: max(0, len(shape) - len(ends))] + ends
    return named_axes(axes, like[-len(shape) :], shape)


def _there(
    path: Path, start: int, axes: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[int, int, tuple[int, ...]]:
    """How many pages are there and should be, and the shape of what is there."""
    check_size(shape[axes.index("Y")], shape[axes.index("X")])
    samples = shape[axes.index("S")] if "S" in axes else 1
    if samples > 4:
        raise InputError(f"pages of {samples} channels; need grey or RGB, with or without alpha")
    page = [n for a, n in zip(axes, shape, strict=True) if a in OF_PAGE]
    expected = int(np.prod(shape)) // int(np.prod(page))
    once = int(np.prod(page)) * dtype.itemsize
    count = min(expected, (path.stat().st_size - start) // once)
    if count < 1:
        raise InputError("not one page can be read: the file is cut off")
    return count, expected, shape if count == expected else (count, *page)


def _numbers(
    path: Path,
    start: int,
    axes: str,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    page: int,
) -> Array:
    size = [n for a, n in zip(axes, shape, strict=True) if a in OF_PAGE]
    count = int(np.prod(size))
    with path.open("rb") as file:
        file.seek(start + page * count * dtype.itemsize)
        numbers = np.fromfile(file, dtype, count).reshape(size)
    planes = np.moveaxis(numbers, -1, 0) if axes.endswith("S") else numbers[None]
    return planes.astype(dtype.newbyteorder("="))


def _cut(header: Any, shape: tuple[int, ...], short: bool) -> Any:
    """The header without sums over data; of a file that is cut off, with the axes that are left."""
    new = header.copy()
    for name in SUMS:
        new.remove(name, ignore_missing=True, remove_all=True)
    if short:
        for axis in range(len(shape) + 1, int(new["NAXIS"]) + 1):
            new.remove(f"NAXIS{axis}")
        new["NAXIS"] = len(shape)
        new["NAXIS3"] = shape[0]
    return new


def _none(_: Array) -> bytes:
    raise NotImplementedError("pages are written one by one")


def _nothing() -> None:
    """No file is open between pages."""
