"""From what users have at hand to images (C, H, W) near [0, 1], and back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.io.file_format import JpegSteps, Picture
from gibbsdiff.io.transfer import decode

SMALLEST = 16  # pixels of a side
FAR = 10.0  # values on [0, 1], noise included, do not reach this
DEPTHS = {"uint8": 255.0, "uint16": 65535.0}


@dataclass(frozen=True)
class Encoding:
    """How a picture was given: original = zero + unit · values, as `dtype`, with an alpha channel
    (H, W) that is given back as it was. `linear`: it was linear light, and values are sRGB.
    """

    zero: float = 0.0
    unit: float = 1.0
    dtype: str = "float32"
    alpha: Any = None
    linear: bool = False

    def decoded(self, values: Tensor) -> np.ndarray:
        """Values (C, H, W) as they came: (H, W, C), or (H, W) for one channel without alpha."""
        kind = np.dtype(self.dtype)
        given = values.double().permute(1, 2, 0).numpy()
        pixels = self.zero + self.unit * (decode(given) if self.linear else given)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            pixels = np.clip(np.rint(pixels), limits.min, limits.max)
        pixels = pixels.astype(kind)
        if self.alpha is not None:
            return np.concatenate([pixels, np.asarray(self.alpha, kind)[..., None]], -1)
        return pixels[..., 0] if pixels.shape[-1] == 1 else pixels


class Shared(NamedTuple):
    """Where φ of other pictures is from: the grid that it is stated on, and the quantiles of their
    brightness, over which a level that goes with it has the mean square 1.
    """

    grid: Shape
    light: Tensor


class Given(NamedTuple):
    """A picture: values (C, H, W) in float32 or float64, NaN where missing, and its encoding.

    `full` is the value of the full scale of integers; `steps` are those of a JPEG file. `pages` of
    one height may lie under each other, which have one noise; `shared` is where the known noise of
    a picture is from, if from others.
    """

    values: Tensor
    encoding: Encoding
    pages: int = 1
    shared: Shared | None = None
    full: float = 1.0
    steps: JpegSteps | None = None


def is_several(pictures: Any) -> bool:
    """Whether it is a list of pictures, or a batch (B, C, H, W)."""
    if isinstance(pictures, Given):
        return False
    if isinstance(pictures, list | tuple):
        return len(pictures) > 0 and (
            isinstance(pictures[0], str | Path) or np.ndim(pictures[0]) >= 2
        )
    return getattr(pictures, "ndim", 0) == 4


def read(picture: Any) -> Given:
    """A file by its path, a picture that was read, a PIL image, an array or a tensor.

    Arrays are (H, W), (C, H, W) or (H, W, C) with 1 or 3 channels, or 4: the last is alpha. uint8
    and uint16 are scaled by their range; floats are taken as they are.
    """
    if isinstance(picture, Given):
        return picture
    if isinstance(picture, str | Path):
        from gibbsdiff.io.picture import read_picture

        picture = read_picture(picture)
    if isinstance(picture, Picture):
        return _from_picture(picture)
    values = picture if isinstance(picture, Tensor) else _array(picture)
    if values.ndim == 3 and values.shape[0] not in (1, 3, 4) and values.shape[-1] in (1, 3, 4):
        values = values.permute(2, 0, 1)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[0] not in (1, 3, 4)):
        raise InputError(f"picture: need (H, W), (C, H, W) or (H, W, 3), not {tuple(values.shape)}")
    planes = values.detach().cpu().reshape(-1, *values.shape[-2:])
    kind = str(planes.dtype).removeprefix("torch.")
    alpha = None
    if len(planes) == 4:
        planes, alpha = planes[:3], planes[3].numpy()
    if kind in DEPTHS:
        unit = DEPTHS[kind]
        return Given(planes.to(torch.float32) / unit, Encoding(0.0, unit, kind, alpha))
    if kind not in ("float16", "bfloat16", "float32", "float64"):
        raise InputError(
            f"picture: scale {kind} values to [0, 1] first; uint8 and uint16 are known"
        )
    kept = kind if kind == "float64" else "float32"
    return Given(planes.to(getattr(torch, kept)), Encoding(dtype=kept, alpha=alpha))


def check_range(values: Tensor) -> None:
    """Refuse numbers that a model of pictures on [0, 1] was never shown, with a hint."""
    seen = values[torch.isfinite(values)]
    if not len(seen):
        return
    some = seen[:: max(1, len(seen) // 1_000_000)].double()
    low, high = torch.quantile(some, torch.tensor([0.01, 0.99], dtype=torch.float64)).tolist()
    if low < -FAR or high > FAR:
        raise InputError(
            f"picture: values from {low:.3g} to {high:.3g}, but the model knows pictures on about "
            "[0, 1]; divide by the range, or give uint8, uint16 or the file itself"
        )


def observation(values: Tensor) -> tuple[Tensor, Tensor | None]:
    """y (1, C, H, W), its missing pixels filled from their neighbours, and where they were."""
    height, width = values.shape[-2:]
    if min(height, width) < SMALLEST:
        raise InputError(f"picture: {height}×{width} pixels; each side needs at least {SMALLEST}")
    missing = ~torch.isfinite(values).all(0)
    if not bool(missing.any()):
        return values[None], None
    if bool(missing.all()):
        raise InputError("picture: no pixel is finite")
    from gibbsdiff.io.intensity import filled

    whole = np.stack([filled(plane, missing.numpy()) for plane in values.numpy()])
    return torch.from_numpy(whole).to(values.dtype)[None], missing


def _array(picture: Any) -> Tensor:
    if hasattr(picture, "mode") and hasattr(picture, "convert"):  # PIL's
        picture = _with_pixels(picture)
    try:
        array = np.asarray(picture)
    except ValueError as trouble:  # ragged lists
        raise InputError(f"picture: not a rectangular array ({trouble})") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"picture: dtype {array.dtype} is not real pixel data")
    native = array.dtype.newbyteorder("=")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=native).copy())


def _with_pixels(image: Any) -> Any:
    """A PIL image whose numbers are grey levels or colours; a palette is looked up."""
    if image.mode == "P":
        return image.convert("RGBA" if "transparency" in image.info else "RGB")
    if image.mode in ("L", "RGB", "RGBA", "F") or image.mode.startswith("I;16"):
        return image
    raise InputError(f"picture: a PIL image of mode {image.mode}; convert it to RGB or grey first")


def _from_picture(picture: Picture) -> Given:
    values = picture.values.copy()
    values[:, picture.missing] = np.nan
    form = picture.format
    plain = form.integer and form.offset == 0 and form.slope == 1
    kind = str(form.dtype.newbyteorder("=")) if plain else "float32"
    alpha = None if form.alpha is None else form.alpha[0]
    encoding = Encoding(picture.zero, picture.unit, kind, alpha, picture.linear)
    return Given(torch.from_numpy(values), encoding, steps=form.steps)


def shares_kept(keep: float | tuple[float, float]) -> tuple[float, float]:
    """Shares of luma and chroma noise that stay in the picture."""
    both = keep if isinstance(keep, tuple) else (keep, keep)
    if len(both) != 2 or not all(0 <= part <= 1 for part in both):
        raise InputError(f"keep: a share from 0 to 1, or one of luma and one of chroma, not {keep}")
    return both
