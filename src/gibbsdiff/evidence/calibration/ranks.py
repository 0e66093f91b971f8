r"""Ranks of true values among posterior draws, and what uniform ranks look like.

If φ ~ p(φ), y ~ p(y | φ) and φ₁..φ_L ~ p(φ | y), then the rank of φ among the φ_l is uniform on
{0..L} (Talts et al. 2018). With V uniform on [0, 1], u = (rank + V)/(L + 1) is uniform on [0, 1]
whatever L is, so that runs with more and with fewer effective draws can be put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Array = np.ndarray[Any, np.dtype[Any]]
LEVELS = (0.5, 0.8, 0.95)


def thinned(draws: Array, count: int) -> Array:
    """`count` draws, equally spaced along the chains laid end to end: (chain, draw) -> (count,)."""
    flat = draws.reshape(-1)
    if not 1 <= count <= len(flat):
        raise ValueError(f"cannot keep {count} of {len(flat)} draws")
    places = (np.arange(count) + 0.5) * len(flat) / count
    return flat[places.astype(int)]


def rank_fraction(truth: float, draws: Array, tie: float) -> float:
    """u = (rank + V)/(L + 1), V = `tie` in [0, 1); equal values share their places alike."""
    below, equal = int((draws < truth).sum()), int((draws == truth).sum())
    return float((below + tie * (equal + 1)) / (len(draws) + 1))


@dataclass(frozen=True)
class Uniformity:
    """Whether values u (n,) are uniform on [0, 1]: p-values of two tests."""

    chi2: float
    ks: float


def uniformity(u: Array) -> Uniformity:
    """χ² on the histogram of `bins_for` bins, and Kolmogorov-Smirnov."""
    counts, _ = np.histogram(u, bins_for(len(u)), (0.0, 1.0))
    chi2 = stats.chisquare(counts).pvalue
    return Uniformity(float(chi2), float(stats.kstest(u, "uniform").pvalue))


def bins_for(n: int) -> int:
    """Bins of a histogram of n ranks: 15 expected in each, between 4 and 20 of them."""
    return int(np.clip(n // 15, 4, 20))


def coverage(u: Array, levels: tuple[float, ...] = LEVELS) -> list[float]:
    """The share of true values inside the central intervals of these masses."""
    return [float((np.abs(u - 0.5) <= level / 2).mean()) for level in levels]


@dataclass(frozen=True)
class EcdfBand:
    """The empirical distribution of u minus the uniform one at `z`, and its band."""

    z: Array
    difference: Array
    low: Array
    high: Array

    @property
    def inside(self) -> bool:
        """Whether the whole curve lies in the band."""
        return bool(((self.low <= self.difference) & (self.difference <= self.high)).all())


def ecdf_band(u: Array, level: float = 0.95, simulations: int = 4000, seed: int = 0) -> EcdfBand:
    """F_n(z) - z with a simultaneous band (Säilynoja, Bürkner & Vehtari 2022).

    n F_n(z_i) is binomial in every point z_i = i/K; the band is made of its central intervals of
    one mass 1 - γ, where γ is such that the whole curve of uniform values stays inside with
    probability `level`: the (1 - level)-quantile, over simulated curves, of the smallest
    two-sided tail probability that a curve meets.
    """
    n = len(u)
    if n < 2:
        raise ValueError("a band needs at least two ranks")
    points = min(n, 100)
    z = np.arange(1, points) / points
    gamma = _adjusted(n, points, level, simulations, seed)
    low = stats.binom.ppf(gamma / 2, n, z) / n - z
    high = stats.binom.ppf(1 - gamma / 2, n, z) / n - z
    seen = np.searchsorted(np.sort(u), z, side="right") / n
    return EcdfBand(z, seen - z, low, high)


def _adjusted(n: int, points: int, level: float, simulations: int, seed: int) -> float:
    """γ: tails of this mass on both sides of every point together hold 1 - level."""
    z = np.arange(1, points) / points
    rng = np.random.default_rng([seed, n, points])
    counts = rng.multinomial(n, np.full(points, 1 / points), size=simulations)
    reached = counts.cumsum(1)[:, :-1]
    below = stats.binom.cdf(np.arange(n + 1)[:, None], n, z)
    above = stats.binom.sf(np.arange(n + 1)[:, None] - 1, n, z)
    tail = 2 * np.minimum(below, above)
    smallest = np.take_along_axis(tail, reached, 0).min(1)
    return float(np.quantile(smallest, 1 - level))
