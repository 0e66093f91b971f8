"""What a picture will take, told before the work: memory, time, and tiles that fit into both."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import torch

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.marginal import CHUNK
from gibbsdiff.inference.setting import TILE
from gibbsdiff.io.file_format import Picture
from gibbsdiff.noise import WhiteNoise

PROGRAM = 0.5e9  # bytes of memory before the first picture
SHOWN, HELD = 1200.0, 220.0  # for a pixel that the network sees, and for one of the whole picture
TILES = (1024, 768, 512, 384, 256, 128)
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SEARCH, CHECK = 20.0, 3.0  # calls, about, of all that the search and the check are shown
TRIED = 128  # pixels of a side of the picture that a call is timed on


def memory_needed(picture: Picture, method: str = "auto", tile: int | None = None) -> float:
    """Bytes of memory that a picture will need at the peak, about, as measured on colour pictures.

    The search is shown at most 2²⁰ pixels at once, or all of them where chains are to follow. The
    maps and files of the whole picture come after it, beside one tile in the network. A grey
    picture is shown in three channels.
    """
    pixels = picture.values.shape[-2] * picture.values.shape[-1]
    shown = pixels if method == "gibbs" else min(pixels, CHUNK)
    held = HELD * pixels + SHOWN * min(pixels, (tile or TILE) ** 2)
    return PROGRAM + max(SHOWN * shown, held)


def bytes_of(text: str) -> float:
    """A size such as 4G, 500M or 4GB, in bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(?:I?B)?\s*", text.upper())
    if found is None or float(found[1]) == 0:
        raise InputError(f"memory {text!r}: a size such as 4G or 500M is needed")
    return float(found[1]) * UNITS[found[2]]


def tile_within(memory: float, picture: Picture, method: str = "auto") -> int | None:
    """The largest tile with which a picture needs no more than that memory; None if it needs none.

    Pictures that need more with any are refused, with what they need.
    """
    if max(picture.values.shape[-2:]) <= TILE and memory_needed(picture, method) <= memory:
        return None
    for tile in TILES:
        if memory_needed(picture, method, tile) <= memory:
            return tile
    least = memory_needed(picture, method, TILES[-1])
    raise InputError(
        f"{picture.path}: needs {least / 1e9:.1f} GB of memory with the smallest tiles, "
        f"more than {memory / 1e9:.1f} GB"
    )


@torch.no_grad()
def seconds_needed(
    picture: Picture, denoiser: Denoiser, *, searched: bool, best: bool, check: bool
) -> float:
    """Seconds by the clock for a picture by the marginal method or with known noise, about, from
    one call on a part of it.
    """
    values = torch.from_numpy(picture.values[:, :TRIED, :TRIED])[None]
    y = values.expand(-1, denoiser.channels or values.shape[1], -1, -1)
    y = y if denoiser.dtype is None else y.to(denoiser.dtype)
    shape = (y.shape[-2], y.shape[-1])
    covariance = WhiteNoise().covariance(shape, torch.tensor([[0.1]]).double(), y.dtype)
    denoiser(y, covariance)  # the first call of a program takes longer
    begun = time.perf_counter()
    denoiser(y, covariance)
    each = (time.perf_counter() - begun) / math.prod(shape)
    pixels = picture.values.shape[-2] * picture.values.shape[-1]
    seen = min(pixels, CHUNK)
    calls = SEARCH * searched * seen + CHECK * check * seen + (1 + 8 * best) * pixels
    return each * calls


def in_words(seconds: float) -> str:
    """A time as it is said: 40 s, 12 minutes, 3 hours."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.2g} hours"


def told(picture: Picture, denoiser: Any, options: dict[str, Any]) -> str:
    """Size, memory and, but for Gibbs chains, time of a picture, in one line."""
    height, width = picture.values.shape[-2:]
    needed = memory_needed(picture, options.get("method", "auto"), options.get("tile"))
    line = f"{height * width / 1e6:.1f} megapixels: about {needed / 1e9:.1f} GB of memory"
    if options.get("method") == "gibbs" or not isinstance(denoiser, Denoiser):
        return line
    searched = not (options.get("known") or options.get("noise_from"))
    seconds = seconds_needed(
        picture,
        denoiser,
        searched=searched,
        best=bool(options.get("best")),
        check=bool(options.get("check", True)),
    )
    return f"{line} and {in_words(seconds)}"
