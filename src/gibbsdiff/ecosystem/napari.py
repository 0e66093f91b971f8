"""napari: a widget that denoises a layer, and a reader of posteriors. `napari.yaml` names both.

Nothing here imports napari: it makes the widget of the types of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gibbsdiff.ecosystem.arrays import restored_array
from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior

if TYPE_CHECKING:
    import napari.types

Layer = tuple[Any, dict[str, Any], str]


def denoised_layers(
    image: napari.types.ImageData,
    noise: Literal["auto", "photo", "curves", "power-law", "white"] = "auto",
    model: Literal["natural", "natural-fast"] = "natural",
    keep: float = 0.0,
    rgb: bool = False,
) -> list[napari.types.LayerDataTuple]:
    """The clean picture and its standard deviation as two layers; the noise that was found, and
    whether its model fits, are in the first one's metadata.

    `rgb` says that the last axis holds colours; otherwise the layer is one grey picture.
    """
    options = {"noise": noise, "model": model, "keep": keep}
    found = restored_array(image, -1 if rgb else None, options)
    said = {"summary": "\n".join(one.summary() for one in found.posteriors)}
    sd = found.sd.mean(-1) if rgb else found.sd
    return [
        (found.image, {"name": "denoised", "rgb": rgb, "metadata": said}, "image"),
        (sd, {"name": "uncertainty", "colormap": "magma", "metadata": said}, "image"),
    ]


def posterior_reader(path: str | list[str]) -> Callable[[Any], list[Layer]] | None:
    """What reads it, if it is one posterior as `gibbsdiff denoise` writes it, else None."""
    if isinstance(path, list) or not str(path).endswith(".nc"):
        return None
    try:
        Posterior.load(path)
    except InputError:
        return None
    return _layers


def _layers(path: Any) -> list[Layer]:
    """Noisy, denoised and uncertainty, in the units of the picture."""
    posterior = Posterior.load(path)
    stem = Path(path).name.removesuffix(".nc").removesuffix(".posterior")
    unit = posterior.unit
    zero = posterior.encoding.zero if posterior.encoding is not None else 0.0
    said = {"summary": posterior.summary()}
    maps = {
        "noisy": zero + unit * posterior.observed,
        "denoised": zero + unit * posterior.picture,
        "uncertainty": None if posterior.sd is None else unit * posterior.sd,
    }
    layers: list[Layer] = []
    for name, values in maps.items():
        if values is None:
            continue
        pixels = values.permute(1, 2, 0).double().numpy()
        colours = pixels.shape[-1] == 3 and name != "uncertainty"
        shown = np.clip(pixels / unit, 0, 1) if colours else pixels.mean(-1)
        layers.append(
            (shown, {"name": f"{stem} {name}", "rgb": colours, "metadata": said}, "image")
        )
    return layers
