"""How φ is drawn given x, where it is not HMC: the paper "does not strictly require" it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.streams import Streams

PhiStep = Callable[[NoiseModel, Any, Tensor, Streams], Tensor]
"""(noise, statistic of ε = y - x, φ (B, d), streams) -> φ (B, d): a draw that leaves p(φ | ε)
invariant, each row from its own stream.
"""


def conjugate_amplitude(noise: NoiseModel, statistic: Any, phi: Tensor, rng: Streams) -> Tensor:
    """σ² exactly from its inverse-gamma conditional, eq. (8); other parameters stay as they are.

    It is a whole φ-step where the amplitude is the only unknown: white noise, or a power law of
    known index.
    """
    return noise.redraw_amplitude(phi, statistic, rng)
