"""The variance of counted light: a line in the brightness."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """variance = gain · value + c in the file's units, with standard deviations; `read` is the sd
    of read noise where the pedestal was given.
    """

    gain: float
    gain_sd: float
    c: float
    c_sd: float
    read: float | None = None

    def __str__(self) -> str:
        line = f"variance = {self.gain:.4g} ± {self.gain_sd:.2g} × value "
        sign = "-" if self.c < 0 else "+"
        line += f"{sign} {abs(self.c):.4g} ± {self.c_sd:.2g}, in the file's units"
        if self.read is None:
            return f"{line}; read noise and pedestal are one number here: --offset tells them apart"
        return f"{line}; read noise {self.read:.3g}"
