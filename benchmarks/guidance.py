"""DPS and ΠGDM against the exact posterior, beside our kernel, under steep noise.

    python benchmarks/guidance.py

The signal is Gaussian with the spectrum of photographs, so p(x | y, φ) is known mode by mode and D
is exact at every level: what is wrong in a draw is the sampler's doing. The noise falls like
|k|^-3.5 from 25 to 4e-5 per mode, a condition number of 6e5: the paper's figures for its
cosmology. For each sampler and band of scales, over all colours, the table has

    mean   RMS error of the draws' mean in units of the posterior's standard deviation (n exact
           draws have 1/√n)
    var    the draws' variance over the posterior's (1 is exact)

"As published" is the authors' weight of the guidance; "score" is the drift (1-r) t² g that samples
the posterior if g is right. A call of DPS or ΠGDM is one of D and one back through it.
"""

import argparse
import time
from functools import partial

import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.evidence.baselines import dps, pigdm
from gibbsdiff.fourier import fft, half_plane, to_opponent
from gibbsdiff.noise import SpectralNoise
from gibbsdiff.streams import Streams

SHAPE, CHANNELS, SLOPE = (32, 32), 3, 3.5
#: Upper ends of the bands of |k|, cycles per pixel; the first holds the mean and the longest waves.
EDGES = (1 / 15.9, 1 / 8, 1 / 4)
NAMES = ("≥ 16 px", "8-16 px", "4-8 px", "< 4 px")
DENOISER = GaussianDenoiser(NATURAL)


def steep(kx, ky, smallest):
    """log N of |k|^-3.5 noise whose power at the highest frequency is `smallest`."""
    return torch.log(smallest) - SLOPE / 2 * torch.log(2 * (kx**2 + ky**2))


def problem(observations, draws):
    """Observations, each repeated for its draws, and their noise."""
    noise = SpectralNoise(steep, {"smallest": (1e-6, 1e-3)}, isotropic=True)
    phi = torch.full((observations, 1), 4e-5, dtype=torch.float64)
    covariance = noise.covariance(SHAPE, phi)
    x = DENOISER.prior(SHAPE, Streams.batch(0, observations), CHANNELS)
    y = x + covariance.draw(Streams.batch(1, observations), CHANNELS)
    rows = torch.arange(observations).repeat_interleave(draws)
    return y[rows], covariance.rows(rows)


def errors(x, y, noise, draws, denoiser=DENOISER, edges=EDGES):
    """(bands, 2): error of the mean in posterior sd, and ratio of variances."""
    first = torch.arange(0, len(y), draws)
    exact, posterior = denoiser(y[first], noise.rows(first))
    modes = fft(to_opponent(x)).unflatten(0, (-1, draws))
    average = modes.mean(1)
    spread = (modes - average[:, None]).abs().square().sum(1) / (draws - 1)
    off = (average - fft(to_opponent(exact))).abs().square()
    k = half_plane(noise.shape)
    band = torch.bucketize(k.k, torch.tensor(edges, dtype=torch.float64))
    out = []
    for j in range(len(edges) + 1):
        weight = (k.weight * (band == j)).reshape(noise.shape[0], -1)
        shares = [(v / posterior.power).mean((0, 1)) * weight / weight.sum() for v in (off, spread)]
        out.append([shares[0].sum().sqrt(), shares[1].sum()])
    return torch.tensor(out)


def samplers(steps):
    """Name and sampler of every row."""
    v = float(half_plane(SHAPE).mean(NATURAL.power(SHAPE).flatten(2)).mean())
    run = {"steps": steps, "highest": 50.0, "floor": 5e-4}
    rows = {f"our kernel, {n}": partial(few_step, calls=n) for n in (1, 12)}
    for zeta in (1.0, 0.1, 0.01, 0.001):
        rows[f"DPS as published, ζ = {zeta:g}"] = partial(dps, strength=zeta, **run)
    rows["DPS, score"] = partial(dps, weight="score", **run)
    published = partial(pigdm, weight="adaptive", **run)
    rows["ΠGDM as published, r_t² = t²/(1+t²)"] = partial(published, variance=1.0)
    rows["the same, a tenth as strong"] = partial(published, variance=1.0, strength=0.1)
    rows[f"ΠGDM, score, r² = {v:.3f}"] = partial(pigdm, regularisation="constant", **run)
    rows[f"ΠGDM, score, r_t² = v t²/(v+t²), v = {v:.3f}"] = partial(pigdm, **run)
    rows["ΠGDM, score, r_t² = t²/(1+t²)"] = partial(pigdm, variance=1.0, **run)
    return rows


def spectrum(noise):
    """What the noise asks of a sampler, in words."""
    N = noise.power[0]
    return (
        f"condition number {float(N.max() / N.min()):.1e}, largest eigenvalue of Σ^(-½) "
        f"{float(N.min().rsqrt()):.0f}, level {float(noise.level[0]):.2f}"
    )


def table(rows, y, noise, draws, denoiser=DENOISER, edges=EDGES, names=NAMES):
    """Run the samplers on y, each observation repeated for its draws, and print their errors."""
    print("| sampler | calls | " + " | ".join(f"{n}: mean | var" for n in names) + " | CPU s |")
    print("| --- |" + " ---: |" * (2 * len(names) + 2))
    for name, sampler in rows.items():
        began = time.process_time()
        draw = sampler(denoiser, y, noise, Streams.batch(2, len(y)))
        taken = time.process_time() - began
        bands = errors(draw.x, y, noise, draws, denoiser, edges)
        cells = " | ".join(f"{float(mean):.2f} | {float(var):.3g}" for mean, var in bands)
        print(f"| {name} | {int(draw.calls.max())} | {cells} | {taken:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--observations", type=int, default=2)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    torch.set_num_threads(1)
    y, noise = problem(given.observations, given.draws)
    print(
        f"{spectrum(noise)}; {given.observations} observations of {SHAPE[0]}×{SHAPE[1]} in "
        f"colour, {given.draws} draws of each: exact ones have mean {given.draws**-0.5:.2f}, "
        "var 1\n"
    )
    table(samplers(given.steps), y, noise, given.draws)


if __name__ == "__main__":
    main()
