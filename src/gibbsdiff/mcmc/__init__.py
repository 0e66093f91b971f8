r"""Hamiltonian Monte Carlo in a box, for many chains at once, eq. (9).

    position, tuning = warm_up(log_density, start, low, high, rng)
    draws, info = run(log_density, position, tuning, rng, transitions=10)

`log_density` maps (B, d) to (B,) in float64, one row per chain; autograd
differentiates it. `rng` draws each row from its own stream, so a chain does not
depend on the batch that it runs in. Positions come and go in the parameters'
own units; the dynamics happen in the unit cube, the prior box scaled to [0, 1]^d.
"""

from gibbsdiff.mcmc.adaptation import OURS, PAPER, Adaptation, warm_up
from gibbsdiff.mcmc.hmc import Info, LogDensity, Rng, State, Tuning, run

__all__ = [
    "OURS",
    "PAPER",
    "Adaptation",
    "Info",
    "LogDensity",
    "Rng",
    "State",
    "Tuning",
    "run",
    "warm_up",
]
