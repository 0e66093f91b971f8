"""A small noisy photograph that comes with the package, for a first try and for release checks."""

from __future__ import annotations

from pathlib import Path

#: The file: scikit-image's "astronaut" (NASA, public domain) at half its size, 128² pixels.
PICTURE = Path(__file__).with_name("example.png")

#: The noise in it is that of `gibbsdiff demo`: σ of a pixel on [0, 1], and the slope of |k|^φ.
TRUTH = (0.1, -0.7)
