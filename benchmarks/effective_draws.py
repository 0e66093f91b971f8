"""Effective draws of φ per denoiser call: Gibbs and the marginal method on a Gaussian signal.

Of chains, the bulk ESS of the slowest parameter; draws of the marginal method are independent.
Calls include burn-in and search, one call per draw of x. Both are exact here, so the ratio is what
a method costs; seconds are those of this machine.

    python benchmarks/effective_draws.py
"""

import time

import torch

from gibbsdiff import (
    GaussianDenoiser,
    ObservationModel,
    Options,
    PowerLawNoise,
    PowerLawSignal,
    Problem,
    Streams,
    WhiteNoise,
    infer,
)
from gibbsdiff.diffusion.signal import NATURAL

DENOISER = GaussianDenoiser(PowerLawSignal(NATURAL.amplitude[:1], NATURAL.slope[:1], NATURAL.mean))
OPTIONS = {
    "gibbs": Options(
        "gibbs",
        draws=240,
        burn_in=60,
        calls=1,
        starts="prior",
        transitions=2,
        warm_up=100,
        samples=0,
        stop_when_converged=False,
    ),
    "marginal": Options("marginal", draws=250, samples=0),
}


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
                problem = Problem(y, noise, DENOISER, ObservationModel(noise, shape))
                for method, options in OPTIONS.items():
                    start = time.process_time()
                    (p,) = infer(problem, options)
                    seconds = time.process_time() - start
                    ess, rhat = float(p.phi[..., 0].numel()), "-"
                    if p.is_chains:
                        ess = min(r.ess_bulk for r in p.rows)
                        rhat = f"{max(r.rhat for r in p.rows):.3f}"
                    print(
                        f"| {name} | {shape[0]}×{shape[1]} | {sigma} | {method} | {p.calls} "
                        f"| {ess:.0f} | {ess / p.calls:.3f} | {rhat} | {seconds:.1f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
