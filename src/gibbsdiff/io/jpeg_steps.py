"""By which steps a JPEG file's cosine coefficients were rounded, as its header says."""

from __future__ import annotations

import numpy as np
from PIL import Image

from gibbsdiff.io.file_format import JpegSteps

COLOURS = (ord("R"), ord("G"), ord("B"))  # components of files that are not in luma and chroma


def steps_of(image: Image.Image) -> JpegSteps | None:
    """The steps, or None of a file that does not say them or is in other planes."""
    layers, found = list(getattr(image, "layer", [])), getattr(image, "quantization", {})
    planes = {"L": 1, "RGB": 3}.get(image.mode)
    if planes != len(layers) or _in_colours(image, layers):
        return None
    if any(min(h, v) < 1 or table not in found for _, h, v, table in layers):
        return None
    tables = [np.asarray(found[layer[3]], dtype=np.float64) for layer in layers]
    if any(table.size != 64 or table.min() < 1 for table in tables):
        return None
    steps = np.stack([table.reshape(8, 8) for table in tables])
    (_, h, v, _), *chroma = layers
    ways = {(h / layer[1], v / layer[2]) for layer in chroma} or {(1.0, 1.0)}
    across, down = ways.pop()
    # Luma that is coarser than chroma, or chroma planes that differ: no camera writes these.
    if ways or not (across.is_integer() and down.is_integer()):
        return None
    return JpegSteps(steps, int(down), int(across))


def _in_colours(image: Image.Image, layers: list[tuple[int, ...]]) -> bool:
    """Whether the planes are red, green and blue: by Adobe's mark 0, or by their names."""
    marked = len(layers) == 3 and image.info.get("adobe_transform") == 0
    return marked or tuple(layer[0] for layer in layers) == COLOURS
