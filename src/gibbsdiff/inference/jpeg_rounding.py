r"""What rounding to multiples of q leaves of a coefficient of JPEG's cosine transform.

For y = x + c, x ~ N(0, d²) of the picture and c ~ N(0, s²) of the noise, D² = d² + s², the rounded
value Q has the moments

    f(D, q) = E Q²      = q² Σ_j (2j-1) · 2Φ(-(j-½) q/D)
    g(D, q) = E Q y/D²  = (q/D) Σ_j 2φ((j-½) q/D)

and by Stein's lemma E Q x = g d², E Q c = g s². What a linear filter has to take for noise in Q is

    n(D, s, q) = E Q (Q - x) = f(D, q) - g(D, q) (D² - s²)

f(s, q) in a flat block, d = 0, next to nothing for s < q/3; s² + q²/12 where d is many steps. The
whole error E (Q - x)² has the lost signal as well, which nobody can tell from Q.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Array = npt.NDArray[np.float64]

FINE = 1.2  # sd in steps above which the sums are their integrals, to 10⁻¹¹
TERMS = 10
LEAST = 0.04  # sd in steps below which f is 10⁻³³ q² and less: nothing
RATIOS = np.concatenate([np.geomspace(LEAST, FINE, 2000), np.geomspace(FINE, 1e4, 1000)[1:]])


def _moments(ratio: Array) -> tuple[Array, Array]:
    """f/q² and g at D/q."""
    j = np.arange(1, TERMS + 1) - 0.5
    t = j / np.clip(ratio, LEAST, FINE)[..., None]
    f = (4 * j * ndtr(-t)).sum(-1)
    g = (2 * t / j * np.exp(-0.5 * t**2)).sum(-1) / np.sqrt(2 * np.pi)
    fine = ratio > FINE
    return np.where(fine, ratio**2 + 1 / 12, f), np.where(fine, 1.0, g)


F_AT, G_AT = _moments(RATIOS)
LOG_F, LOG_RATIO = np.log(F_AT), np.log(RATIOS)


def survived(s: Array, q: Array) -> Array:
    """f(s, q): the variance of a Gaussian coefficient after rounding."""
    return np.asarray(q**2 * _moments(s / q)[0])


def gain(s: Array, q: Array) -> Array:
    """g(s, q): by how much the rounded coefficient goes with what it was."""
    return _moments(s / q)[1]


def before(variance: Array, q: Array) -> Array:
    """D of f(D, q) = variance, by interpolation of logarithms; LEAST q where nothing is left."""
    log_f = np.log(np.maximum(variance / q**2, F_AT[0]))
    return np.asarray(q * np.exp(np.interp(log_f, LOG_F, LOG_RATIO)))


def noise_in(variance: Array, s: Array, q: Array) -> Array:
    """n(D, s, q) of the D of which rounding leaves that variance, f(D, q)."""
    D = before(variance, q)
    g = np.interp(D / q, RATIOS, G_AT)
    return np.asarray(variance - g * (D**2 - s**2))
