"""Weights of places, eq. (14), as plain data: the arguments of a run are its identity."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.weights import smoothed
from gibbsdiff.streams import Streams

WeightsName = Literal["sure", "none"]
SMOOTHING, SPREAD = 3.0, 0.7  # of random weights: sd in pixels, and sd of log w


def weights_named(name: str) -> Literal["sure"] | None:
    """What `gibbsdiff.inference.problem.Options` has for a name."""
    if name == "sure":
        return "sure"
    if name == "none":
        return None
    raise InputError(f"weights {name!r}: there are sure, none")


def random_map(size: int) -> Tensor:
    """w = exp(0.7 g) over its maximum, (size, size): g is white noise that is smoothed over 3
    pixels and scaled to unit variance, always the same.

    Weights that are given, whatever they are, leave a score of zero mean at the true φ: coverage
    must be nominal with these, which no observation has had a part in.
    """
    g = smoothed(Streams(14, [(0,)]).normal(1, size, size), SMOOTHING)[0, 0]
    w = torch.exp(SPREAD * g / g.std(correction=0))
    return w / w.max()
