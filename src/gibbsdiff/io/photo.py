"""JPEG, WebP and AVIF by Pillow. EXIF goes out as it came in; pixels are never rotated by it."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from PIL import Image, JpegImagePlugin, WebPImagePlugin, features

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, tiff_map
from gibbsdiff.io.jpeg_steps import steps_of
from gibbsdiff.io.png import planes_of

#: Below this the codec would put back what denoising took away.
QUALITY = 95

#: One JPEG segment holds no more; longer notes cannot be written in one piece.
SEGMENT = 65000


def read_jpeg(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W), uint8, not rotated; of a stereo or depth file the first picture."""
    with Image.open(io.BytesIO(content), formats=["JPEG"]) as image:
        if image.mode not in ("L", "RGB"):
            raise InputError(f"a {image.mode} picture; convert it to RGB or grey first")
        options, steps = {**_notes(image, SEGMENT), **_compression(image)}, steps_of(image)
        for name in ("comment", "dpi"):
            if name in image.info:
                options[name] = image.info[name]
        if image.info.get("progressive"):
            options["progressive"] = True
        pixels = planes_of(image)
    form = pillow_format("JPEG", (".jpg", ".jpeg"), None, options)
    return pixels, replace(form, steps=steps)


def read_webp(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (3, H, W), uint8."""
    with Image.open(io.BytesIO(content), formats=[WebPImagePlugin.WebPImageFile.format]) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise InputError("an animation; save the frame to be denoised as a picture of its own")
        options = _notes(image)
        planes = planes_of(image)
    if _is_lossless(content):
        options |= {"lossless": True, "quality": 80, "exact": True}
    else:
        options |= {"quality": QUALITY, "exact": True}
    alpha = planes[3:].copy() if len(planes) == 4 else None
    return planes[:3], pillow_format("WEBP", (".webp",), alpha, options)


def read_avif(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W), uint8."""
    if not features.check("avif"):
        raise InputError("this Pillow knows no AVIF: pip install 'pillow>=11.3'")
    planes, options = read_with_pillow(content, "AVIF")
    options |= {"quality": QUALITY, "subsampling": "4:4:4"}
    alpha = planes[3:].copy() if len(planes) == 4 else None
    return planes[:3], pillow_format("AVIF", (".avif",), alpha, options)


def read_with_pillow(content: bytes, name: str) -> tuple[Array, dict[str, Any]]:
    """Planes of grey, RGB or RGBA, and what is to be written with them."""
    with Image.open(io.BytesIO(content), formats=[name]) as image:
        if getattr(image, "n_frames", 1) > 1 and getattr(image, "is_animated", False):
            raise InputError("an animation; save the frame to be denoised as a picture of its own")
        if image.mode not in ("L", "RGB", "RGBA"):
            raise InputError(f"a {image.mode} picture; convert it to RGB or grey first")
        return planes_of(image), _notes(image)


def pillow_format(
    name: str, suffixes: tuple[str, ...], alpha: Array | None, options: dict[str, Any]
) -> FileFormat:
    """Enough to write such a file again by Pillow."""
    encode = partial(_encode, name=name, alpha=alpha, options=options)
    return FileFormat(
        name, suffixes, np.dtype(np.uint8), encode, tiff_map, unit_name="levels", alpha=alpha
    )


def _encode(pixels: Array, name: str, alpha: Array | None, options: dict[str, Any]) -> bytes:
    planes = pixels if alpha is None else np.concatenate([pixels, alpha])
    samples = planes[0] if len(planes) == 1 else np.ascontiguousarray(planes.transpose(1, 2, 0))
    buffer = io.BytesIO()
    Image.fromarray(samples).save(buffer, format=name, **options)
    return buffer.getvalue()


def _notes(image: Image.Image, longest: int | None = None) -> dict[str, Any]:
    """EXIF, ICC profile and XMP, as bytes."""
    found = {name: image.info.get(name) for name in ("exif", "xmp", "icc_profile")}
    return {
        name: data
        for name, data in found.items()
        if data and (longest is None or name == "icc_profile" or len(data) <= longest)
    }


def _compression(image: Image.Image) -> dict[str, Any]:
    """The input's subsampling and tables, each entry at most that of quality 95.

    So the output is nowhere coarser than the input, and a coarse input does not press its
    blocks upon the denoised picture.
    """
    assert isinstance(image, JpegImagePlugin.JpegImageFile)
    fine = io.BytesIO()
    Image.new(image.mode, (16, 16)).save(fine, format="JPEG", quality=QUALITY)
    with Image.open(fine) as example:
        assert isinstance(example, JpegImagePlugin.JpegImageFile)
        finest = example.quantization
    own = image.quantization
    options: dict[str, Any] = {"quality": QUALITY}
    if set(own) >= set(finest):
        tables = [
            [min(pair) for pair in zip(own[i], finest[i], strict=True)] for i in sorted(finest)
        ]
        options = {"qtables": tables}  # and no quality, by which they would be multiplied
    if image.mode == "RGB":
        options["subsampling"] = max(JpegImagePlugin.get_sampling(image), 0)
    return options


def _is_lossless(content: bytes) -> bool:
    """Whether the pixel chunk of a WebP is VP8L: walks over the others."""
    place = 12
    while place + 8 <= len(content):
        if content[place : place + 4] == b"VP8L":
            return True
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        place += 8 + length + length % 2
    return False
