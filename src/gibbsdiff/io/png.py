"""PNG: depths that Pillow reduces, and every chunk of the input kept.

Pillow reads the pixels. It gives colours of 16 bits as 8 and writes no such file, so the low
bytes are read by a second pass and the encoder is our own; 1, 2 and 4 bits and palettes, which
cannot hold a denoised picture, come out as 8 bits.
"""

from __future__ import annotations

import io
import struct
import zlib
from functools import partial
from typing import Any

import numpy as np
from PIL import Image, ImageFile

from gibbsdiff.errors import InputError
from gibbsdiff.io.file_format import Array, FileFormat, tiff_map

SIGNATURE = b"\x89PNG\r\n\x1a\n"

#: Chunks that say something of the old samples (or of the date) and not of the picture.
STALE = frozenset({b"bKGD", b"hIST", b"sBIT", b"tIME", b"tRNS"})

#: For 16 bits: the modes that unpack the first and the second byte of each sample.
BYTES: dict[int, tuple[str, tuple[str, ...]]] = {
    2: ("RGB", ("RGB;16B", "RGB;16L")),
    4: ("RGBA", ("RGBA",)),  # grey and alpha, two bytes each, taken for four channels
    6: ("RGBA", ("RGBA;16B", "RGBA;16L")),
}

Chunks = tuple[tuple[bytes, bytes], ...]


def read(content: bytes) -> tuple[Array, FileFormat]:
    """Pixels (C, H, W), uint8 or uint16."""
    chunks = _chunks(content)
    table = dict(chunks)
    if not content.startswith(SIGNATURE) or len(table.get(b"IHDR", b"")) != 13:
        raise InputError("not a PNG picture")
    if b"acTL" in table:
        raise InputError("an animation; save the frame to be denoised as a picture of its own")
    depth, colour = table[b"IHDR"][8:10]
    samples = _samples(content, depth, colour)
    if colour in (0, 2) and b"tRNS" in table:
        samples = np.concatenate([samples, _keyed_alpha(samples, table[b"tRNS"], depth)])
    channels = 1 if len(samples) <= 2 else 3
    alpha = samples[channels:].copy() if len(samples) > channels else None
    kept = tuple((name, data) for name, data in chunks if _is_kept(name))
    file_format = FileFormat(
        "PNG",
        (".png",),
        samples.dtype,
        partial(encode, alpha=alpha, chunks=kept),
        tiff_map,
        unit_name="levels",
        alpha=alpha,
    )
    return samples[:channels], file_format


def encode(pixels: Array, alpha: Array | None, chunks: Chunks) -> bytes:
    """A PNG of pixels (C, H, W), the alpha plane (1, H, W) and further chunks."""
    planes = pixels if alpha is None else np.concatenate([pixels, alpha])
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[len(planes)]
    depth = 8 * planes.dtype.itemsize
    _, height, width = planes.shape
    size = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [(b"IHDR", size), *chunks, (b"IDAT", _compressed(planes)), (b"IEND", b"")]
    return SIGNATURE + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    name, data = part
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _compressed(planes: Array) -> bytes:
    packer = zlib.compressobj(6)
    step = len(planes) * planes.dtype.itemsize
    above = np.zeros(planes.shape[2] * step, dtype=np.uint8)
    parts = []
    for index in range(planes.shape[1]):
        samples = np.ascontiguousarray(planes[:, index].T)
        row = samples.astype(samples.dtype.newbyteorder(">")).view(np.uint8).ravel()
        parts.append(packer.compress(_filtered(row, above, step)))
        above = row
    return b"".join([*parts, packer.flush()])


def _filtered(row: Array, above: Array, step: int) -> bytes:
    """One row by the filter whose differences are smallest, as the standard advises."""
    left, corner = np.zeros_like(row), np.zeros_like(row)
    left[step:], corner[step:] = row[:-step], above[:-step]
    a, b, c = (part.astype(np.int16) for part in (left, above, corner))
    to_left, to_above, to_corner = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    paeth = np.where(to_above <= to_corner, above, corner)
    paeth = np.where((to_left <= to_above) & (to_left <= to_corner), left, paeth)
    tries = {1: row - left, 2: row - above, 4: row - paeth}
    costs = {kind: int(abs(d.view(np.int8).astype(np.int16)).sum()) for kind, d in tries.items()}
    best = min(costs, key=costs.__getitem__)
    return bytes([best]) + tries[best].tobytes()


def _chunks(content: bytes) -> Chunks:
    """Names and data of all chunks but the pixels; a file cut off ends where it ends."""
    found, place = [], len(SIGNATURE)
    while place + 8 <= len(content):
        length, name = struct.unpack(">I4s", content[place : place + 8])
        if name != b"IDAT":
            found.append((name, content[place + 8 : place + 8 + length]))
        place += length + 12
    return tuple(found)


def _is_kept(name: bytes) -> bool:
    return name[:1].islower() and name not in STALE


def _samples(content: bytes, depth: int, colour: int) -> Array:
    """Samples (channels and alpha, H, W)."""
    if depth == 16 and colour in BYTES:
        mode, passes = BYTES[colour]
        parts = [_unpacked(content, mode, raw).astype(np.uint16) for raw in passes]
        if colour == 4:
            parts = [parts[0][0::2], parts[0][1::2]]
        return parts[0] << 8 | parts[1]
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        if depth == 16:
            return np.asarray(image).astype(np.uint16)[None]
        if image.mode == "P":
            alpha = "transparency" in image.info
            return planes_of(image.convert("RGBA" if alpha else "RGB"))
        return planes_of(image.convert("L") if image.mode == "1" else image)


def _unpacked(content: bytes, mode: str, raw: str) -> Array:
    with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
        assert isinstance(image, ImageFile.ImageFile)
        image._mode = mode
        image.tile = [tile._replace(args=raw) for tile in image.tile]
        return planes_of(image)


def planes_of(image: Image.Image) -> Array:
    """The bands of a Pillow image, (bands, H, W)."""
    array: np.ndarray[Any, Any] = np.array(image)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _keyed_alpha(samples: Array, key: bytes, depth: int) -> Array:
    """Alpha (1, H, W) of a picture in which one colour stands for transparency."""
    scale = 255 // (2**depth - 1) if depth < 8 else 1
    colour = np.frombuffer(key, dtype=">u2")[: len(samples)].astype(samples.dtype) * scale
    opaque = (samples != colour[:, None, None]).any(axis=0)
    return (opaque * np.iinfo(samples.dtype).max).astype(samples.dtype)[None]
