"""DPS and ΠGDM on dust under the CMB, beside our kernel: the paper's appendix.

    python benchmarks/guidance_cosmo.py [--model dust128] [--dust maps.npz]

Dust is Gaussian here, with the spectrum that the model of dust was made with, and the CMB has
known parameters: p(x | y, φ) is known mode by mode and D is exact at every level, so that what is
wrong in a draw is the sampler's doing. The table is that of `guidance.py`.

The network itself cannot be guided: guidance diffuses the prior with white noise from a level far
above the dust's to 0, and the network was trained under the CMB alone. With --dust, the last table
shows it: MSE of D over that of the Wiener filter on held-out maps, under the CMB and white noise.
"""

import argparse
from functools import partial

import torch

from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.evidence.baselines import dps, pigdm
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_model, read_card
from gibbsdiff.streams import Streams
from guidance import spectrum, table

SHAPE = (64, 64)
#: Upper ends of the bands of |k|: 32, 8 and 4 pixels of 8 arcminutes.
EDGES = (1 / 31.9, 1 / 8, 1 / 4)
NAMES = ("≥ 32 px", "8-32 px", "4-8 px", "< 4 px")
#: Where the network is compared with the Wiener filter.
LEVELS = (1.2, 0.5, 0.2, 0.1, 0.05)


def problem(denoiser, phi, observations, draws):
    """Observations, each repeated for its draws, and their noise."""
    noise = CMBNoise().covariance(SHAPE, phi.expand(observations, -1))
    x = denoiser.prior(SHAPE, Streams.batch(0, observations))
    y = x + noise.draw(Streams.batch(1, observations), 1)
    rows = torch.arange(observations).repeat_interleave(draws)
    return y[rows], noise.rows(rows)


def samplers(signal, steps):
    """Name and sampler of every row. Dust has unit variance, as the authors' ΠGDM wants it."""
    v = float(half_plane(SHAPE).mean(signal.power(SHAPE).flatten(2)))
    run = {"steps": steps, "highest": 200.0, "floor": 4e-3}
    rows = {f"our kernel, {n}": partial(few_step, calls=n, floor=0.02) for n in (1, 12)}
    for zeta in (1.0, 0.01, 1e-4):
        rows[f"DPS as published, ζ = {zeta:g}"] = partial(dps, strength=zeta, **run)
    rows["DPS, score"] = partial(dps, weight="score", **run)
    rows["ΠGDM as published, r_t² = t²/(1+t²)"] = partial(
        pigdm, weight="adaptive", variance=1.0, **run
    )
    rows["the same, a hundredth as strong"] = partial(
        pigdm, weight="adaptive", variance=1.0, strength=0.01, **run
    )
    rows[f"ΠGDM, score, r² = {v:.2f}"] = partial(pigdm, regularisation="constant", **run)
    rows[f"ΠGDM, score, r_t² = v t²/(v+t²), v = {v:.2f}"] = partial(pigdm, **run)
    return rows


@torch.no_grad()
def relative_errors(model, dust, maps):
    """MSE of the network's D over the Wiener filter's, under the CMB and under white noise."""
    denoiser, card = load_model(model), read_card(model)
    linear = GaussianDenoiser(denoiser.signal)
    x = held_out(dust, card["maps"]["side"], card)[0][:maps]
    shape, cmb = (x.shape[-2], x.shape[-1]), CMBNoise()
    print("| level | CMB | white noise |\n| ---: | ---: | ---: |")
    for level in LEVELS:
        ratios = []
        for family, rest in ((cmb, cmb.emulator.fiducial.tolist()), (WhiteNoise((0.01, 10.0)), [])):
            phi = torch.tensor([[level, *rest]] * maps, dtype=torch.float64)
            noise = family.covariance(shape, phi, x.dtype)
            y = x + noise.draw(Streams.batch(3, maps), 1)
            mse = [(d(y, noise).mean - x).square().mean() for d in (denoiser, linear)]
            ratios.append(float(mse[0] / mse[1]))
        print(f"| {level:g} | {ratios[0]:.2f} | {ratios[1]:.3g} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="dust128")
    parser.add_argument("--dust", help="maps of `gibbsdiff cmb simulate`")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--observations", type=int, default=2)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    torch.set_num_threads(1)
    denoiser = GaussianDenoiser(load_model(given.model).signal)
    cosmology = CMBNoise().emulator.fiducial.tolist()
    phi = torch.tensor([[given.sigma, *cosmology]], dtype=torch.float64)
    y, noise = problem(denoiser, phi, given.observations, given.draws)
    print(
        f"{spectrum(noise)}; {given.observations} observations of {SHAPE[0]}×{SHAPE[1]}, "
        f"{given.draws} draws of each: exact ones have mean {given.draws**-0.5:.2f}, var 1\n"
    )
    rows = samplers(denoiser.signal, given.steps)
    table(rows, y, noise, given.draws, denoiser, EDGES, NAMES)
    if given.dust:
        print()
        relative_errors(given.model, given.dust, 2)


if __name__ == "__main__":
    main()
