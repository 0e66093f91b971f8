"""What needs a package of its own: HEIC by pillow-heif, raw files of cameras by rawpy."""

from __future__ import annotations

import io
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, tiff_map
from gibbsdiff.io.photo import pillow_format, read_with_pillow
from gibbsdiff.io.tiff import RGB, Form, encode_page

#: Suffixes of raw files; many of them begin as a TIFF does.
RAW = (".dng", ".nef", ".arw", ".cr2", ".cr3", ".raf", ".orf", ".rw2", ".pef", ".srw")


def read_heif(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W), uint8, upright."""
    know_heif()
    planes, options = read_with_pillow(content, "HEIF")
    alpha = planes[3:].copy() if len(planes) == 4 else None
    options |= {"quality": 95, "chroma": 444}
    return planes[:3], pillow_format("HEIF", (".heic", ".heif", ".hif"), alpha, options)


def know_heif() -> None:
    """Let Pillow open HEIC files."""
    _extra("pillow_heif", "a HEIC picture", "heif").register_heif_opener()


def raw_size(path: Path) -> tuple[int, int]:
    """Width and height of a raw file's picture, upright, by its head."""
    with _extra("rawpy", "a raw file of a camera", "raw").imread(str(path)) as raw:
        sizes = raw.sizes
    sides = (int(sizes.iwidth), int(sizes.iheight))
    return sides[::-1] if sizes.flip in (5, 6) else sides


def read_raw(content: bytes) -> tuple[Array, FileFormat]:
    """Demosaiced linear light (3, H, W), uint16, with the camera's white balance, upright; it is
    written as a TIFF.
    """
    rawpy = _extra("rawpy", "a raw file of a camera", "raw")
    try:
        with rawpy.imread(io.BytesIO(content)) as raw:
            pixels = raw.postprocess(
                gamma=(1, 1), no_auto_bright=True, use_camera_wb=True, output_bps=16
            )
    except rawpy.LibRawError as trouble:
        raise InputError(f"not a raw file that LibRaw knows ({trouble})") from None
    form = Form("<", RGB, False, True, 0, (), ())
    file_format = FileFormat(
        "TIFF",
        (".tif", ".tiff"),
        np.dtype(np.uint16),
        partial(encode_page, alpha=None, form=form),
        tiff_map,
        unit_name="levels",
        linear=True,
    )
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)), file_format


def _extra(name: str, what: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.replace("_", "-")
        raise InputError(
            f"{what} needs {package}: pip install 'gibbsdiff[{extra}]', or save it as PNG or TIFF"
        ) from None
