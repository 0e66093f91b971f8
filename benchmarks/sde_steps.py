"""How many steps the paper's reverse SDE needs on dust under the CMB.

    python benchmarks/sde_steps.py

Dust is Gaussian here, so that D is the Wiener filter W = S/(S + N u²) and every step of eq. (7) is
linear in a mode: z_s = (W + r (1-W)) z_t + n. The mean and variance of a draw of x | y then are a
recursion over the levels, and errors are exact: nothing in this table is random. The mean has none:
the factors of all steps make up S/(S + N). What is shown:

- the variance over the exact one, in the band of |k| where it is worst;
- E|y-x|² over N, which is 1 for exact draws, in the band where it is worst;
- what Gibbs chains with such draws make of it. They settle where the expected score of φ is 0,
  which is J⁻¹ g from the truth, with g = ½ Σ w ∂log N (E|y-x|²/N - 1) and J what y tells of φ:
  in posterior sd, for σ, H0 and ω_b.
"""

import argparse

import torch

from gibbsdiff.cosmo.calibration import DUST
from gibbsdiff.cosmo.gaussian import fisher
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.solvers import uniform_in_time
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise.cmb import CMBNoise

#: Upper ends of the bands of |k|: 32, 8 and 4 pixels of 8 arcminutes.
EDGES = (1 / 31.9, 1 / 8, 1 / 4)
STEPS = (100, 250, 500, 1000, 2000, 5000)
LEVELS = (0.05, 0.1, 0.2, 0.5, 1.2)
FIDUCIAL = (67.4, 0.0224)


def moments(S, N, levels):
    """The factor of y in the mean of a draw, and its variance, mode by mode."""
    u, ancestral = levels
    factor, variance = torch.ones_like(S), torch.zeros_like(S)
    for t, s, v in zip(u[0, :-1], u[0, 1:], ancestral[0], strict=True):
        N_t, r = N * t**2, (s / t) ** 2
        gain = (S + r * N_t) / (S + N_t)
        factor = gain * factor
        variance = gain**2 * variance + (1 - r) * v * N_t
    return factor, variance


def errors(S, N, levels):
    """The variance of draws over the exact one, and E|y-x|² over N, mode by mode."""
    factor, variance = moments(S, N, levels)
    left = ((1 - factor) ** 2 * (S + N) + variance) / N
    return variance * (S + N) / (S * N), left


def worst(row, weight, band):
    """The mean over the band where it is farthest from 1."""
    sums = torch.zeros(2, len(EDGES) + 1, dtype=torch.float64)
    sums.index_add_(1, band, torch.stack([weight * row, weight]))
    means = sums[0] / sums[1]
    return float(means[(means - 1).abs().argmax()])


def shift(left, weight, slope, J):
    """How far chains settle from the truth, in posterior sd."""
    g = 0.5 * ((weight * (left - 1))[:, None] * slope).sum(0)
    covariance = torch.linalg.inv(J)
    return covariance @ g / covariance.diagonal().sqrt()


def main():
    """Print a table for each level."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--beta-max", type=float, default=2.02)
    given = parser.parse_args()
    shape = (given.side, given.side)
    process, noise, k = VariancePreserving(0.1, given.beta_max), CMBNoise(), half_plane(shape)
    weight, at = k.weight.flatten() * (k.k.flatten() > 0), torch.tensor(EDGES).double()
    S, band = DUST.power(shape)[0, 0].flatten(), torch.bucketize(k.k.flatten(), at)
    print("| σ | steps | calls | variance | left | σ | H0 | ω_b |")
    print("| --- |" + " --- |" * 7)
    for sigma in LEVELS:
        phi = torch.tensor([sigma, *FIDUCIAL], dtype=torch.float64)
        covariance = noise.covariance(shape, phi[None])
        N, J = covariance.power.flatten(), fisher(phi, DUST, noise, shape)
        slope = torch.func.jacfwd(lambda p: noise.log_power(k, p[None]).flatten())(phi)
        for steps in STEPS:
            levels = uniform_in_time(covariance.level, process, steps, "beta")
            variance, left = errors(S, N, levels)
            found = " | ".join(f"{worst(row, weight, band):.4f}" for row in (variance, left))
            moved = " | ".join(f"{v:+.2f}" for v in shift(left, weight, slope, J).tolist())
            print(f"| {sigma:g} | {steps} | {levels.u.shape[1] - 1} | {found} | {moved} |")


if __name__ == "__main__":
    main()
