"""Colours, sizes and names of parameters: what the figures have in common."""

from __future__ import annotations

import re

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, get_font

SMALL, NORMAL, LARGE = 7.0, 8.5, 11.0
INK, GREY = "#222222", "#8c8c8c"
#: Okabe and Ito's colours, which colour-blind readers can tell apart too.
BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
)
CHAINS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
#: Draws with the network's own error, eq. (12): fills of 95 and 68 %, and their lines.
WIDE_FILLS, WIDE_LINE = ("#f5eedd", "#eadfc0"), "#a8894a"
TRUTH = (0, (4, 2))  # dashes of lines at the truth
_GREEK = re.compile(
    "alpha|beta|gamma|delta|epsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|"
    "upsilon|phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Upsilon|Phi|Psi|Omega"
)


def chain_colours(chains: int) -> list[str]:
    """One colour per chain: a fixed palette for few, a perceptual ramp for many."""
    if chains <= len(CHAINS):
        return list(CHAINS[:chains])
    ramp = colormaps["viridis"](np.linspace(0.0, 0.92, chains))
    return ["#" + "".join(f"{round(255 * v):02x}" for v in colour[:3]) for colour in ramp]


def label(name: str) -> str:
    """A parameter's name for an axis: sigma -> σ, phi -> φ, a3 -> a₃, omega_b -> ω_b."""
    parts = re.fullmatch(r"([A-Za-z]+?)(?:_([A-Za-z0-9]+)|(\d+))?", name)
    if parts is None:
        return name.replace("$", r"\$")
    stem, below = parts[1], parts[2] or parts[3]
    if _GREEK.fullmatch(stem):
        stem = r"\varphi" if stem == "phi" else rf"\{stem}"
    elif len(stem) > 1:
        return name
    return f"${stem}_{{{below}}}$" if below else f"${stem}$"


def plain(text: str, family: str = "DejaVu Sans") -> str:
    """The text with characters that the font lacks replaced: a file may have any name."""
    font = get_font(findfont(FontProperties(family=family)))
    return "".join(c if c == "\n" or font.get_char_index(ord(c)) else "?" for c in text)


def tidy(axis: Axes) -> None:
    """Small ticks, no box."""
    axis.tick_params(labelsize=SMALL, length=2.5, width=0.6)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_linewidth(0.6)
