"""One φ-update (10 HMC transitions), 16 chains on 3×256×256: binned against all modes.

Prints the two times of one run and their ratio, and the shift of the posterior by binning.
"""

import math
import time

import torch

from gibbsdiff.fourier import Wavevectors
from gibbsdiff.mcmc import run, warm_up
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams

CHAINS, SHAPE, TRUTH = 16, (256, 256), (0.1, -0.5)


def full_plane():
    """Every mode of the full transform, each for itself."""
    ky, kx = (torch.fft.fftfreq(n, dtype=torch.float64) for n in SHAPE)
    grid_y, grid_x = torch.meshgrid(ky, kx, indexing="ij")
    return Wavevectors(
        grid_x.flatten(), grid_y.flatten(), torch.ones(SHAPE[0] * SHAPE[1]).double(), SHAPE
    )


def all_modes(noise, eps):
    """Eq. (8) written down plainly: the FFT's 3·H·W modes in every gradient."""
    k = full_plane()
    P = torch.fft.fft2(eps, norm="ortho").abs().square().flatten(2).expand(CHAINS, -1, -1)

    def log_density(phi):
        log_n = noise.log_power(k, phi)[:, None]
        terms = math.log(2 * math.pi) + log_n + P * torch.exp(-log_n)
        return -0.5 * terms.sum((1, 2)) + noise.log_prior(phi)

    return log_density


def seconds(log_density, position, tuning, repeats):
    best = math.inf
    for i in range(repeats):
        rng = Streams(1, [(c, i) for c in range(CHAINS)])
        start = time.perf_counter()
        run(log_density, position, tuning, rng, transitions=10)
        best = min(best, time.perf_counter() - start)
    return best


def moments(log_likelihood, width=0.05, points=81):
    """Mean and sd of φ on a grid around the truth."""
    sigma = TRUTH[0] * (1 + torch.linspace(-width / 4, width / 4, points).double())
    phi = TRUTH[1] + torch.linspace(-width, width, points).double()
    grid = torch.cartesian_prod(sigma, phi)
    p = torch.softmax(torch.cat([log_likelihood(g) for g in grid.split(64)]), 0)
    mean = p @ grid
    return mean, (p @ (grid - mean) ** 2).sqrt()


def main():
    torch.set_num_threads(1)
    noise = PowerLawNoise()
    eps = noise.draw(SHAPE, TRUTH, Streams.batch(0, 1), 3)
    binned = noise.statistic(eps)
    density = noise.log_posterior(binned.rows(torch.zeros(CHAINS, dtype=torch.int64)))
    rng = Streams.batch(2, CHAINS)
    start = torch.tensor([TRUTH], dtype=torch.float64).expand(CHAINS, -1)
    position, tuning = warm_up(density, start, noise.low, noise.high, rng)
    fast = seconds(density, position, tuning, repeats=5)
    slow = seconds(all_modes(noise, eps), position, tuning, repeats=1)
    at = position.clone()
    plain, quick = all_modes(noise, eps)(at), density(at)
    assert torch.allclose(plain - plain[0], quick - quick[0], atol=0.1), "they must agree"
    print(f"groups: {len(binned.k.weight)} bins, {3 * SHAPE[0] * SHAPE[1]} modes")
    print(f"one φ-update: binned {fast:.3f} s, all modes {slow:.2f} s, ratio {slow / fast:.0f}")
    exact = noise.statistic(eps, exact=True)
    mean, sd = moments(lambda phi: noise.log_likelihood(phi, exact))
    shifted, _ = moments(lambda phi: noise.log_likelihood(phi, binned))
    shift = ((shifted - mean) / sd).abs()
    print(f"binning shifts the posterior mean by {shift[0]:.4f} sd (σ), {shift[1]:.4f} sd (φ)")


if __name__ == "__main__":
    main()
