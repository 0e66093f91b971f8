"""The noise that was found, in words: what numbers of a shape do not tell at a glance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gibbsdiff.fourier import half_plane

CHANNELS = ("luma", "chroma", "chroma")
LARGE, SMALL = (0.06, 0.12), (0.4, 0.6)  # |k| between which a fall is stated
DARK, BRIGHT = 0.2, 0.8
FEW = 3  # parameters: those of a shape are often at a wall, such as no roll-off


def spectra_in_words(power: Tensor, width: int, unit: float = 1.0) -> list[str]:
    """A line for luma and one for chroma: pixel sd in the file's units, and how the amplitude at
    small scales compares with that at large ones. `power` is (R, H, W//2+1) of a picture so wide.
    """
    modes = half_plane((power.shape[-2], width))
    rows = power.double().flatten(1)
    parts = [rows[:1], rows[1:].mean(0, keepdim=True)] if len(rows) > 1 else [rows]
    lines = []
    for name, N in zip(CHANNELS, parts, strict=False):
        sd = unit * math.sqrt(float(modes.mean(N)))
        ends = [_mean(N[0], modes.k, modes.weight, *band) for band in (LARGE, SMALL)]
        fall = math.sqrt(ends[0] / max(ends[1], 1e-30))
        shape = "white" if 0.87 < fall < 1.15 else f"{fall:.1f} times weaker at small scales"
        if fall <= 0.87:
            shape = f"{1 / fall:.1f} times stronger at small scales"
        lines.append(f"noise in {name}: {sd:.3g} a pixel, {shape}")
    return lines


def level_in_words(phi: Tensor, names: tuple[str, ...]) -> list[str]:
    """How much stronger the noise is where the picture is bright, by draws (n, d) of (a, b)."""
    if not {"a", "b"} <= set(names):
        return []
    a, b = (phi[:, names.index(name)].double() for name in ("a", "b"))
    change = torch.exp(a * (BRIGHT - DARK) + b * ((BRIGHT - 0.5) ** 2 - (DARK - 0.5) ** 2))
    mean, sd = float(change.mean()), float(change.std())
    return [f"noise at brightness {BRIGHT} over that at {DARK}: {mean:.2f} ± {sd:.2f}"]


def doubts(names: tuple[str, ...], mode: Tensor, phi: Tensor, box: Tensor) -> tuple[str, ...]:
    """What is odd about draws (chain, draw, d) around a mode (d,): parameters at a wall of the
    prior box (2, d), and draws that are few.
    """
    width = box[1] - box[0]
    at = [n for n, v, low, w in zip(names, mode, box[0], width, strict=True) if _ends(v, low, w)]
    flat = phi.flatten(0, 1)
    distinct = len(torch.unique(flat, dim=0))
    notes = []
    if at and len(names) <= FEW:
        notes.append(f"at a wall of the prior: {', '.join(at)}")
    if distinct < len(flat) / 4:
        notes.append(f"only {distinct} of {len(flat)} draws are distinct")
    return tuple(notes)


def _ends(value: Tensor, low: Tensor, width: Tensor) -> bool:
    part = float((value - low) / width)
    return part < 1e-4 or part > 1 - 1e-4


def _mean(N: Tensor, k: Tensor, weight: Tensor, low: float, high: float) -> float:
    seen = ((k >= low) & (k <= high)) * weight
    return float((N * seen).sum() / seen.sum().clamp(min=1e-12))
