"""Theorem 2.3 of the paper, checked where all of it is known: a Gaussian signal, white noise.

Gibbs chains alternate σ ~ p(σ | y - x), exact, with x ~ q(x | y, σ), which is wrong in some way.
If the two are the conditionals of one joint distribution, the theorem gives the divergence between
p(σ | y) and what the chains converge to. The table has the theorem's closed form, the divergence
measured from chains, and their difference in Monte-Carlo errors; then the total variation distance
next to Pinsker's bound √(KL/2), and next to ½√KL, which is smaller and no bound.

    python examples/theorem_2_3.py
"""

import math

import torch

from gibbsdiff import GaussianDenoiser, Streams, WhiteNoise
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.evidence.calibration.stationary import (
    Conditional,
    chain_densities,
    exact,
    measured,
    theorem,
    total_variation,
)

SHAPE, SIGMA = (16, 16), 0.45
TRUE = PowerLawSignal((5e-3,), (2.0,))
CASES = {
    "exact": Conditional(TRUE),
    "spectrum × 1.3": Conditional(PowerLawSignal((6.5e-3,), (2.0,))),
    "spectrum × 2": Conditional(PowerLawSignal((1e-2,), (2.0,))),
    "slope 2.4 for 2": Conditional(PowerLawSignal((5e-3,), (2.4,))),
    "mean off by 0.05": Conditional(TRUE, bias=0.05),
    "mean off by 0.1": Conditional(TRUE, bias=0.1),
}


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    noise = WhiteNoise((0.2, 0.8))
    x = GaussianDenoiser(TRUE).prior(SHAPE, Streams(3, [(0,)]))
    y = x + noise.draw(SHAPE, (SIGMA,), Streams(3, [(1,)]))
    p = exact(y, noise, TRUE)
    heads = ("q(x | y, σ)", "theorem", "mass", "measured", "± error", "apart")
    print(f"{heads[0]:>17}" + "".join(f"{h:>10}" for h in (*heads[1:], "TV", "½√KL", "√(KL/2)")))
    for name, q in CASES.items():
        right, mass = theorem(y, p, CASES["exact"], q)
        found = measured(p, chain_densities(y, noise, q, p))
        apart = (found.kl - right) / found.error
        tv, kl = total_variation(p, found.density), max(found.kl, 0.0)
        print(
            f"{name:>17}{right:10.4f}{mass:10.4f}{found.kl:10.4f}{found.error:10.4f}{apart:9.1f}σ"
            f"{tv:10.4f}{math.sqrt(kl) / 2:10.4f}{math.sqrt(kl / 2):10.4f}"
        )
    print(
        "\nA wrong spectrum is compatible: mass 1, and the theorem holds. A mean that is off by a\n"
        "constant is not: the density that the theorem speaks of has no mass 1, and the chains\n"
        "converge to something else."
    )


if __name__ == "__main__":
    main()
