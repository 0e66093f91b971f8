"""A parameter of the noise: its name and the range of its prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gibbsdiff.errors import InputError


@dataclass(frozen=True)
class Parameter:
    """A named parameter and its prior range."""

    name: str
    low: float
    high: float
    latex: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise InputError(
                f"parameter {self.name}: the prior range needs low < high, "
                f"both finite, not [{self.low:g}, {self.high:g}]"
            )
