"""Effective draws of φ per denoiser call: Gibbs and the marginal method on a Gaussian signal.

Bulk ESS of the slowest parameter over all calls, burn-in or search included, one call per draw of
x. Both are exact here, so the ratio is what a method costs; seconds are those of this machine.

    python benchmarks/effective_draws.py
"""

import time
from functools import partial

import torch

from gibbsdiff import GaussianDenoiser, PowerLawNoise, Streams, WhiteNoise, few_step
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.posterior import summarise

DENOISER = GaussianDenoiser(PowerLawSignal(NATURAL.amplitude[:1], NATURAL.slope[:1], NATURAL.mean))
SETTINGS = Settings(
    chains=4,
    iterations=300,
    burn_in=60,
    transitions=2,
    warm_up=100,
    stop_when_converged=False,
)


def by_gibbs(y, noise):
    sampler = partial(few_step, calls=1)
    (p,) = gibbs(y, noise, DENOISER, settings=SETTINGS, sampler=sampler)
    return p.phi, p.calls


def by_marginal(y, noise):
    marginal = Marginal(y, noise, DENOISER)
    draws = marginal.draws(marginal.mode(), 250)[0]
    return draws, marginal.calls


def observe(noise, sigma, shape):
    phi = (sigma, -0.4)[: len(noise.parameters)]
    x = DENOISER.prior(shape, Streams(0, [(0,)]))
    return x + noise.draw(shape, phi, Streams(0, [(1,)]))


def main():
    torch.set_num_threads(1)
    print("| noise | pixels | σ | method | calls | effective draws | per call | R-hat | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for noise in (PowerLawNoise(), WhiteNoise()):
        name = "power law" if len(noise.parameters) == 2 else "white"
        for shape in ((32, 32), (48, 64)):
            for sigma in (0.1, 0.3):
                y = observe(noise, sigma, shape)
                for method in (by_gibbs, by_marginal):
                    start = time.process_time()
                    draws, calls = method(y, noise)
                    seconds = time.process_time() - start
                    rows = summarise(draws, noise.names)
                    ess, rhat = min(r.ess_bulk for r in rows), max(r.rhat for r in rows)
                    print(
                        f"| {name} | {shape[0]}×{shape[1]} | {sigma} "
                        f"| {method.__name__.removeprefix('by_')} | {calls} | {ess:.0f} "
                        f"| {ess / calls:.3f} | {rhat:.3f} | {seconds:.1f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
