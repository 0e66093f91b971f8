"""What the paper prints: its Tables 1 (PSNR) and 2 (SSIM), as (mean, standard error).

Fifty images of each set. There DnCNN is in parentheses where φ ≠ 0: it was trained on white noise
alone.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

QualityMetric = Literal["psnr", "ssim"]
SigmaPhi = tuple[float, float]

SIGMA = (0.06, 0.1, 0.2)
PHI = (-1.0, 0.0, 1.0)
CELLS: tuple[SigmaPhi, ...] = tuple((sigma, phi) for sigma in SIGMA for phi in PHI)
SETS = ("imagenet", "cbsd68")
#: Columns of a cell, as keys and as they are called in tables.
PAPER_ROWS = {
    "bm3d": "BM3D, told the spectrum",
    "dncnn": "DnCNN",
    "sample": "GDiff, one sample x̂",
    "mean": "GDiff, posterior mean",
}


class Printed(NamedTuple):
    """A figure as printed."""

    mean: float
    error: float


# A line for each σ; in it pink, white and blue, each with BM3D, DnCNN, x̂ and the mean.
_PSNR = {
    "imagenet": """
31.0 0.2 30.2 0.2 29.3 0.3 32.2 0.3 33.7 0.3 33.4 0.3 31.5 0.3 34.4 0.3 34.7 0.4 33.8 0.4 32.3 0.4 35.3 0.4
27.8 0.2 26.8 0.1 26.7 0.2 29.4 0.2 31.8 0.3 31.8 0.4 29.7 0.4 32.7 0.4 32.1 0.4 31.5 0.3 29.9 0.4 32.9 0.3
23.5 0.2 21.7 0.1 23.0 0.3 25.7 0.3 28.1 0.4 28.4 0.4 26.5 0.4 29.3 0.4 29.5 0.4 28.6 0.4 27.6 0.4 30.5 0.4
""",  # noqa: E501
    "cbsd68": """
31.2 0.2 30.6 0.1 29.2 0.2 32.2 0.2 33.8 0.3 34.2 0.3 31.2 0.3 34.4 0.3 35.0 0.3 34.8 0.3 32.2 0.3 35.5 0.3
27.9 0.2 26.9 0.1 26.2 0.3 29.1 0.3 31.3 0.3 31.7 0.3 28.6 0.3 31.8 0.3 33.0 0.3 32.7 0.3 30.6 0.4 33.8 0.4
23.5 0.2 21.7 0.1 23.0 0.3 25.6 0.2 27.8 0.3 28.2 0.3 25.4 0.3 28.5 0.3 29.6 0.3 28.9 0.2 27.4 0.3 30.6 0.3
""",  # noqa: E501
}
_SSIM = {
    "imagenet": """
0.90 0.01 0.88 0.00 0.86 0.01 0.92 0.00 0.92 0.00 0.92 0.00 0.88 0.01 0.93 0.00 0.94 0.00 0.92 0.00 0.90 0.00 0.95 0.00
0.81 0.01 0.76 0.01 0.77 0.01 0.86 0.01 0.90 0.01 0.90 0.01 0.84 0.01 0.91 0.00 0.90 0.01 0.88 0.01 0.85 0.01 0.92 0.00
0.63 0.01 0.53 0.01 0.62 0.02 0.74 0.02 0.79 0.01 0.80 0.01 0.74 0.01 0.83 0.01 0.83 0.01 0.79 0.01 0.78 0.01 0.87 0.01
""",  # noqa: E501
    "cbsd68": """
0.90 0.01 0.88 0.00 0.84 0.01 0.92 0.00 0.93 0.00 0.94 0.00 0.88 0.00 0.94 0.00 0.94 0.00 0.94 0.00 0.90 0.00 0.95 0.00
0.82 0.01 0.78 0.01 0.75 0.01 0.85 0.01 0.89 0.00 0.90 0.00 0.81 0.01 0.90 0.00 0.91 0.00 0.90 0.00 0.86 0.00 0.93 0.00
0.65 0.01 0.55 0.01 0.61 0.01 0.74 0.01 0.79 0.01 0.80 0.01 0.69 0.01 0.81 0.01 0.83 0.01 0.79 0.01 0.76 0.01 0.86 0.01
""",  # noqa: E501
}


def _table(text: str) -> dict[SigmaPhi, dict[str, Printed]]:
    table = {}
    for sigma, line in zip(SIGMA, text.strip().splitlines(), strict=True):
        values = [float(word) for word in line.split()]
        pairs = [Printed(*values[i : i + 2]) for i in range(0, len(values), 2)]
        for i, phi in enumerate(PHI):
            table[sigma, phi] = dict(zip(PAPER_ROWS, pairs[4 * i : 4 * i + 4], strict=True))
    return table


PRINTED: dict[QualityMetric, dict[str, dict[SigmaPhi, dict[str, Printed]]]] = {
    "psnr": {name: _table(text) for name, text in _PSNR.items()},
    "ssim": {name: _table(text) for name, text in _SSIM.items()},
}


def printed(
    metric: QualityMetric, dataset: str, sigma: float, phi: float, row: str
) -> Printed | None:
    """A figure of the paper, or None where it has none."""
    return PRINTED[metric].get(dataset, {}).get((sigma, phi), {}).get(row)
