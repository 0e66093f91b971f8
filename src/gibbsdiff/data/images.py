"""Folders of photographs: reading, the split into roles, the paper's crop, random crops."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from gibbsdiff.errors import InputError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff"})

#: The paper tests at 256²: the shorter side resized to it, then the centre.
PROTOCOL_SIDE = 256


def image_files(folder: str | Path) -> list[Path]:
    """JPEG, PNG and TIFF files of a folder, sorted by name."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"{place}: no such folder")
    found = (p for p in place.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file())
    files = sorted(found, key=lambda p: p.name)
    if not files:
        raise InputError(f"{place}: holds no JPEG, PNG or TIFF image")
    return files


def read_image(path: str | Path) -> Tensor:
    """An image as RGB, uint8 (3, H, W). 16-bit grey is reduced to its high byte."""
    try:
        with Image.open(path) as image:
            if image.mode.startswith("I;16"):
                grey = (np.asarray(image) >> 8).astype(np.uint8)
                pixels = np.repeat(grey[:, :, None], 3, axis=2)
            elif image.mode in ("I", "F"):
                raise InputError(f"{path}: pixels of mode {image.mode} have no fixed range")
            else:
                pixels = np.array(image.convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as trouble:
        reason = " ".join(str(trouble).split())
        raise InputError(f"{path}: not a readable image ({reason})") from None
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()


def resized(image: Tensor, side: int) -> Tensor:
    """Shorter side resized to `side`, bilinear with antialiasing: uint8 (3, H, W)."""
    height, width = image.shape[-2:]
    short, long = min(height, width), max(height, width)
    if short == side:
        return image
    other = int(side * long / short)
    size = (side, other) if width <= height else (other, side)
    picture = Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
    smaller = np.array(picture.resize(size, Image.Resampling.BILINEAR))
    return torch.from_numpy(smaller).permute(2, 0, 1).contiguous()


def centre(image: Tensor, side: int = PROTOCOL_SIDE) -> Tensor:
    """Shorter side resized to `side`, then the centre: uint8 (3, side, side)."""
    small = resized(image, side)
    top = round((small.shape[-2] - side) / 2)
    left = round((small.shape[-1] - side) / 2)
    return small[:, top : top + side, left : left + side]


def protocol_crop(image: Tensor, side: int = PROTOCOL_SIDE) -> Tensor:
    """The paper's test image: `centre`, as float32 on [0, 1]."""
    return centre(image, side).float() / 255


def protocol_images(paths: Iterable[str | Path], side: int = PROTOCOL_SIDE) -> Tensor:
    """The paper's test images of some files: (B, 3, side, side)."""
    crops = [protocol_crop(read_image(path), side) for path in paths]
    return torch.stack(crops) if crops else torch.empty(0, 3, side, side)


@dataclass(frozen=True)
class Folder:
    """A folder and what is held out of it, by sorted name.

    Every `hold_out_every`-th image (the first one included; 0 for none) is never trained on.
    The first `selection` of these choose between checkpoints, the others have the role `rest`.
    """

    path: str
    hold_out_every: int = 0
    selection: int = 0
    rest: Literal["test", "calibration"] = "test"


class Split(NamedTuple):
    """Files by role: no file has two."""

    train: list[Path]
    selection: list[Path]
    calibration: list[Path]
    test: list[Path]


def split(root: str | Path, folders: Sequence[Folder]) -> Split:
    """The roles of the images of some folders below `root`."""
    roles = Split([], [], [], [])
    for folder in folders:
        files = image_files(Path(root) / folder.path)
        every = folder.hold_out_every
        held_out = files[::every] if every > 0 else []
        kept = set(held_out)
        roles.train.extend(f for f in files if f not in kept)
        roles.selection.extend(held_out[: folder.selection])
        rest = roles.calibration if folder.rest == "calibration" else roles.test
        rest.extend(held_out[folder.selection :])
    return roles


Symmetry = Literal["none", "horizontal", "all"]

#: Which of flipping rows (1), flipping columns (2) and transposing (4) may happen.
SYMMETRIES: dict[Symmetry, int] = {"none": 0, "horizontal": 2, "all": 7}


def turned(image: Tensor, symmetry: int) -> Tensor:
    """The image (C, H, W) flipped and transposed as the bits of `symmetry` say."""
    flips = [axis for axis in (1, 2) if symmetry & axis]
    image = image.flip(flips) if flips else image
    return image.transpose(1, 2) if symmetry & 4 else image


class RandomCrops:
    """Square crops with random flips and transposes from images in memory.

    An image is chosen with weight √(area): large ones hold more, but not in proportion.
    """

    def __init__(self, images: Sequence[Tensor], symmetries: Symmetry = "all") -> None:
        if not images:
            raise InputError("there is no image to train on")
        self.images = list(images)
        self.allowed = SYMMETRIES[symmetries]

    def weights(self, side: int) -> Tensor:
        """√(area), or 0 where the crop does not fit."""
        shapes = [(image.shape[-2], image.shape[-1]) for image in self.images]
        fitting = [math.sqrt(h * w) if min(h, w) >= side else 0.0 for h, w in shapes]
        if not any(fitting):
            raise InputError(f"no training image has both sides of {side} pixels or more")
        return torch.tensor(fitting)

    def draw(self, count: int, side: int, rng: torch.Generator) -> Tensor:
        """(count, 3, side, side), float32 on [0, 1]."""
        chosen = torch.multinomial(self.weights(side), count, replacement=True, generator=rng)
        out = torch.empty(count, 3, side, side)
        for row, index in zip(out, chosen.tolist(), strict=True):
            image = self.images[index]
            top = _below(image.shape[-2] - side + 1, rng)
            left = _below(image.shape[-1] - side + 1, rng)
            crop = image[:, top : top + side, left : left + side]
            row.copy_(turned(crop, _below(8, rng) & self.allowed))
        return out / 255

    def batch(
        self, step: int, count: int, side: int, rows: Sequence[int], rng: torch.Generator
    ) -> Tensor:
        """Some rows of a batch; all are drawn, so that a row does not depend on which are asked."""
        return self.draw(count, side, rng)[list(rows)]

    def close(self) -> None:
        """Nothing is open."""


def _below(high: int, rng: torch.Generator) -> int:
    return int(torch.randint(high, (), generator=rng))
