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
    # Adobe's mark 0 says that the planes are red, green and blue.
    if planes != len(layers) or (planes == 3 and image.info.get("adobe_transform") == 0):
        return None
    if tuple(layer[0] for layer in layers) == COLOURS or any(x[3] not in found for x in layers):
        return None
    if any(min(layer[1], layer[2]) < 1 for layer in layers):
        return None
    tables = [np.asarray(found[layer[3]], dtype=np.float64) for layer in layers]
    if any(table.size != 64 or table.min() < 1 for table in tables):
        return None
    steps = np.stack([table.reshape(8, 8) for table in tables])
    if planes == 1:
        return JpegSteps(steps)
    (_, h, v, _), *chroma = layers
    ways = {(h / layer[1], v / layer[2]) for layer in chroma}
    across, down = ways.pop()
    # Luma that is coarser than chroma, or chroma planes that differ: no camera writes these.
    if ways or not (across.is_integer() and down.is_integer()):
        return None
    return JpegSteps(steps, int(down), int(across))
