"""Several pictures with one noise: φ from parts of all of them, then one call for each.

Scores of φ add up over pictures as they do over windows of one, eq. (11): parts of up to 256² are
laid under each other, a contact sheet, and its windows are those parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.encoding import Given, Shared, is_several, read
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.progress import Progress, reporter
from gibbsdiff.inference.setting import FAMILIES, depth_of, family_of, light_of, seen
from gibbsdiff.inference.windows import SIDE, USEFUL, places
from gibbsdiff.noise.base import NoiseModel

PARTS = 16  # of a contact sheet: 4 × 4 windows are what one large picture has
#: What is asked of the pictures beside their noise.
OF_PICTURES = (
    *("model", "calls", "samples", "sampler", "turned", "keep", "best"),
    *("tile", "device", "precision", "seed"),
)


class Frames(Protocol):
    """Pictures that are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Given: ...


@dataclass(frozen=True)
class Series:
    """One noise, and the pictures that have it: iterating denoises one after the other, and holds
    none but the one at hand.

    `noise` is the posterior of φ, its picture the contact sheet of parts that it was found from.
    """

    noise: Posterior
    frames: Frames = field(repr=False)
    options: dict[str, Any] = field(repr=False)
    shared: Shared | None = field(repr=False)
    progress: bool | Progress = field(default=False, repr=False)

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Posterior]:
        with reporter(self.progress) as report:
            for i in range(len(self)):
                yield self.denoised(self.frames[i], report)

    def denoised(self, given: Given, progress: bool | Progress = False) -> Posterior:
        """p(x | y, φ) of one of them, by one call at the mode of φ."""
        found: Posterior = denoise(
            given._replace(shared=self.shared), progress=progress, check=False, **self.options
        )
        if self.shared is None:
            return replace(found, check=self.noise.check)
        phi = self.noise.phi.clone()
        if "sigma" in self.noise.names:  # that of the same N(k) on the grid of the picture
            phi[..., self.noise.names.index("sigma")] *= found.level / self.noise.level
        one = f"one noise for {len(self)} pictures"
        return replace(
            found,
            phi=phi,
            box=self.noise.box,
            model_error=self.noise.model_error,
            method=self.noise.method,
            how=(*self.noise.how, one),
            check=self.noise.check,
            ended=self.noise.ended,
            notes=(*self.noise.notes, *found.notes),
        )


def denoise_series(pictures: Any, *, progress: bool | Progress = False, **options: Any) -> Series:
    """p(φ | all pictures) as a `Series`, which gives the posterior of one after the other.

    Arguments:
        pictures: A list of files, arrays, tensors or PIL images of one kind (channels, type), of
            any sizes; an array (B, C, H, W) or (B, H, W); or whatever has a length and items that
            are `Given`.
        progress, options: Those of `gibbsdiff.denoise`, with the marginal method or known noise.
    """
    frames = _frames(pictures)
    if options.pop("level_map", None) not in (None, False):
        raise InputError("level_map: for single pictures, not for a series")
    if len(frames) == 0:
        raise InputError("pictures: there are none")
    sheet = contact_sheet(frames)
    noise: Posterior = denoise(sheet, progress=progress, **options)
    mine = {name: options[name] for name in OF_PICTURES if name in options}
    if noise.method == "known noise":
        mine |= {"noise": options.get("noise", "power-law"), "known": options["known"]}
        return Series(noise, frames, mine, None, progress)
    depth = depth_of(sheet.encoding.dtype)
    family = _family(options.get("noise", "power-law"), noise, len(sheet.values), depth)
    # The mean of draws would do for few parameters; of many the level at it is another.
    at = torch.tensor(noise.mode or noise.phi.double().mean((0, 1)).tolist(), dtype=torch.float64)
    known = dict(options.get("known") or {}) | dict(zip(noise.names, at.tolist(), strict=True))
    phi = torch.tensor([known[name] for name in family.names], dtype=torch.float64)
    phi = phi.clamp(family.low, family.high)
    mine |= {"noise": family, "known": dict(zip(family.names, phi.tolist(), strict=True))}
    y, _, hidden = seen(sheet.values, depth, sheet.pages)
    height, width = sheet.values.shape[-2:]
    shared = Shared((height, width), light_of(y, hidden).whole)
    return Series(noise, frames, mine, shared, progress)


def contact_sheet(frames: Frames) -> Given:
    """Parts of at most 256² of pictures spread over the series, under each other."""
    count = min(len(frames), PARTS)
    picked = [int((i + 0.5) * len(frames) / count) for i in range(count)]
    parts: list[Tensor] = []
    first: Given | None = None
    for number, index in enumerate(picked):
        given = frames[index]
        first = given if first is None else first
        check_alike(given, first, index, picked[0])
        parts += _parts(given.values, -(-PARTS // count), number)
    assert first is not None
    if not parts:
        raise InputError("pictures: every one of them is constant, or has hardly a pixel")
    height, width = (min(part.shape[axis] for part in parts) for axis in (-2, -1))
    sheet = torch.cat([part[:, :height, :width] for part in parts], 1)
    return Given(sheet, replace(first.encoding, alpha=None), len(parts))


def check_alike(given: Given, first: Given, index: int, of: int) -> None:
    """Refuse pictures that cannot have one noise: of other channels, depth or scale."""
    channels = len(given.values), len(first.values)
    if channels[0] != channels[1]:
        raise InputError(
            f"pictures: number {index} has {channels[0]} channels, number {of} has {channels[1]}"
        )
    own, other = (replace(g.encoding, alpha=None) for g in (given, first))
    if own != other:
        raise InputError(
            f"pictures: number {index} is {own.dtype} in units of {own.unit:g}, "
            f"number {of} is {other.dtype} in units of {other.unit:g}"
        )


def _parts(values: Tensor, count: int, number: int) -> list[Tensor]:
    """Up to `count` parts of a picture that have something to say, other ones in every picture."""
    shape = (values.shape[-2], values.shape[-1])
    corners = places(shape)
    turned = number * count % len(corners)
    parts = []
    for top, left in (corners[turned:] + corners[:turned])[:count]:
        part = values[:, top : top + SIDE, left : left + SIDE].clone()
        finite = part[torch.isfinite(part)]
        if len(finite) > USEFUL * part.numel() and bool(finite.min() < finite.max()):
            parts.append(part)
    return parts


def _family(noise: str | NoiseModel, found: Posterior, channels: int, depth: Any) -> NoiseModel:
    """The family that was found: "auto" leaves it open."""
    if isinstance(noise, NoiseModel):
        return noise
    names = [noise, *FAMILIES] if noise in FAMILIES else list(FAMILIES)
    families = (family_of(name, channels, depth) for name in names)
    return next(f for f in families if set(f.names) >= set(found.names))


class _Read(Sequence[Given]):
    """Pictures in memory or in files, each read when it is asked for."""

    def __init__(self, pictures: Sequence[Any]) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: Any, /) -> Any:
        return read(self.pictures[index])


def _frames(pictures: Any) -> Frames:
    if isinstance(pictures, Tensor | np.ndarray) and pictures.ndim == 3:
        return _Read([page[None] for page in pictures])
    if isinstance(pictures, str | Path | Given):
        raise InputError("pictures: one picture is no series; `gibbsdiff.denoise` takes it")
    if is_several(pictures) or isinstance(pictures, list | tuple):
        return _Read(pictures)
    if hasattr(pictures, "__len__") and hasattr(pictures, "__getitem__"):
        return pictures
    raise InputError("pictures: a list of them, or an array (B, H, W) or (B, C, H, W)")
