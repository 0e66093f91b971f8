"""How much one may ask of the page, and what one may choose there."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gibbsdiff.errors import InputError

#: Families of the noise and methods, as `gibbsdiff denoise` knows them (a test holds them equal);
#: repeated here because the server, unlike its worker, does without torch.
NOISES = (
    "auto",
    "photo",
    "poisson-gaussian",
    "counts",
    "curves",
    "power-law",
    "white",
    "banded",
)
METHODS = ("auto", "marginal", "gibbs")
#: Photographs of scikit-image with noise: their (σ, φ) and the side of the crop.
EXAMPLES: dict[str, tuple[str, float, float, int]] = {
    "astronaut, pink noise": ("astronaut", 0.1, -0.7, 160),
    "coffee, white noise": ("coffee", 0.1, 0.0, 160),
    "cat, blue noise": ("chelsea", 0.15, 0.7, 144),
}
#: H0, ω_b and σ of a mock sky: lowest, highest and first value (the prior's ends; a test).
SKY = {"H0": (50.0, 90.0, 70.0), "omega_b": (0.0075, 0.0567, 0.032), "sigma": (0.05, 1.2, 0.5)}


@dataclass(frozen=True)
class Limits:
    """Of the server: bytes of a file, pixels that are denoised and pixels that are read to cut a
    crop from them, jobs that wait, results kept for a tab, and seconds until a tab counts as gone.
    """

    size: int = 200_000_000
    pixels: int = 4_000_000
    decoded: int = 50_000_000
    waiting: int = 32
    kept: int = 40
    gone: float = 600.0


@dataclass(frozen=True)
class Wishes:
    """What is to be done with a picture; `crop` is left, top, width and height, or one number, the
    side of a square in the middle.
    """

    noise: str = "auto"
    method: str = "auto"
    keep: float = 0.0
    crop: tuple[int, ...] = ()

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Wishes:
        """From the query of a request; what cannot be used is one line."""
        noise, method = given.get("noise", "auto"), given.get("method", "auto")
        if noise not in NOISES:
            raise InputError(f"noise: there are {', '.join(NOISES)}")
        if method not in METHODS:
            raise InputError(f"method: there are {', '.join(METHODS)}")
        keep = number(given.get("keep", "0"), "keep", 0.0, 1.0)
        text = given.get("crop", "")
        try:
            crop = tuple(int(part) for part in text.split(",") if text)
        except ValueError:
            crop = (0, 0)
        if len(crop) not in (0, 1, 4):
            raise InputError("crop: left, top, width and height, in pixels, or a side")
        return cls(noise, method, keep, crop)

    @property
    def options(self) -> dict[str, Any]:
        """Those of `gibbsdiff.denoise`; as in the command, chains are for the power law unless
        another family is asked for.
        """
        plain = self.noise == "auto" and self.method == "gibbs"
        noise = "power-law" if plain else self.noise
        return {"noise": noise, "method": self.method, "keep": self.keep}

    def command(self, *names: str) -> str:
        """The command that does the same."""
        parts = ["gibbsdiff denoise", *map(shlex.quote, names)]
        parts += ["--same-noise"] * (len(names) > 1)
        parts += [f"--noise {self.noise}"] * (self.noise != "auto")
        parts += [f"--method {self.method}"] * (self.method != "auto")
        parts += [f"--keep {self.keep:g}"] * (self.keep > 0)
        return " ".join(parts)


def number(text: str, name: str, low: float, high: float) -> float:
    """A number of a request, within its limits."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InputError(f"{name}: a number from {low:g} to {high:g}")
    return value


def safe_name(given: str) -> str:
    """The last part of a name, without what no file may be called; short enough for any disk."""
    last = given.replace("\\", "/").rpartition("/")[2]
    kept = "".join(c for c in last if c.isprintable() and c != "\0").strip()
    if kept.strip(".") == "":
        return "picture"
    stem, dot, suffix = kept.rpartition(".")
    if not dot or not stem:
        return kept[:80]
    short = stem[:60].encode()[:180].decode(errors="ignore")  # disks count bytes
    return f"{short}.{suffix[:10]}"
