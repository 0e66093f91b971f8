"""How much of the CMB a dust denoiser leaves: N̂ = |y-D|² + Ê over |y-x|² in bands of |k|.

    python benchmarks/noise_left.py --dust maps.npz

The test block's maps under the CMB at the fiducial cosmology, told the truth, with Ê of the
network's heads and by the derivative, eq. (13), and that without the calibrated gain. A D and Ê
that are right have a mean of 1 in every band, and scatter from map to map by no more than the row
"right": √Σ w² h² (2 Ê² + 4 |y-D|² Ê)/(w N²) / Σ w h.
"""

import argparse
from dataclasses import replace

import torch

from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import REFERENCE, between_references, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.training.error_table import errors

FIDUCIAL = (67.4, 0.0224)
FIRST = 3  # of the reference frequencies: below, a map has a handful of modes


def measured(denoiser, maps, sigma):
    """Mean and sd over maps of N̂/|y-x|², and the sd that is right: (3, 8)."""
    shape = tuple(maps.shape[-2:])
    hats = between_references(shape) * half_plane(shape).weight
    rows, right = [], []
    for e in errors(denoiser, maps, sigma, FIDUCIAL, family=CMBNoise()):
        N = e.noise.double()
        left = ((e.residual + e.predicted) / N).flatten(2)[:, 0] @ hats.T
        true = ((e.residual + e.true - 2 * e.shared) / N).flatten(2)[:, 0] @ hats.T
        rows.append(left / true)
        v = ((2 * e.predicted**2 + 4 * e.residual * e.predicted) / N**2).flatten(2)[:, 0]
        weight = half_plane(shape).weight
        right.append((v @ (hats**2 / weight).T).sqrt() / hats.sum(1))
    ratio = torch.cat(rows)
    return torch.stack([ratio.mean(0), ratio.std(0), torch.cat(right).mean(0)])


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dust", required=True, help="maps that the model was trained on, .npz")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--sigma", type=float, nargs="+", default=[0.2, 0.5, 1.0])
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = dust_model(options.size)
    maps, _ = held_out(options.dust, options.size, found.card)
    whole = found.denoiser
    plain = SpectralDenoiser(whole.network, whole.signal, replace(whole.calibration, gain=None))
    rows = {
        "heads": whole,
        "derivative, no gain": plain.with_derivative_error(),
        "derivative": whole.with_derivative_error(),
    }
    names = [f"1/{1 / k:.0f}" if k < 0.5 else f"{k:g}" for k in REFERENCE[FIRST:]]
    print("| σ | Ê by | " + " | ".join(names) + " |")
    print("| --- | --- |" + " --- |" * len(names))
    for sigma in options.sigma:
        for name, denoiser in rows.items():
            mean, sd, right = measured(denoiser, maps, sigma)[:, FIRST:].tolist()
            cells = " | ".join(f"{m:.3f} ± {s:.3f}" for m, s in zip(mean, sd, strict=True))
            print(f"| {sigma:g} | {name} | {cells} |")
        print(f"| {sigma:g} | right | " + " | ".join(f"± {r:.3f}" for r in right) + " |")


if __name__ == "__main__":
    main()
