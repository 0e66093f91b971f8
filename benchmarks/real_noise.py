"""Real camera noise with a truth: PSNR of photographs blind, told the truth's spectra, and by Nam.

    python benchmarks/real_noise.py --data CC15 [--noise photo] [--told] [--quiet] [--every 1]
                                    [--baselines] [--dncnn FILE]

The folder has real/ (one shot), mean/ (the mean of many) and nam/ (the output of Nam et al.'s
method). Blind is `gibbsdiff.denoise` as it comes. `--told` adds one call that is told the radial
spectra of real - mean in each opponent channel, and another by eq. (17), `--quiet` one that is told
what quiet places say, without a search, `--baselines` BM3D of each channel and non-local means,
each with its own estimate of the noise, and `--dncnn` the colour-blind DnCNN of its authors. The
last row has the pictures that no number of the first quiet places was chosen on.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import gibbsdiff
from gibbsdiff.diffusion.correlated import Correlated
from gibbsdiff.evidence.baselines import bm3d_as_used, load_dncnn, non_local_means
from gibbsdiff.fourier import REFERENCE, half_plane, power, to_opponent
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_start import RAISED, start_of
from gibbsdiff.noise import SpectralCovariance
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.noise.photo import PhotoNoise
from gibbsdiff.pretrained import load_model

ROUNDING = (0.3 / 255) ** 2


def read(path):
    """(1, 3, H, W) on [0, 1]."""
    pixels = np.asarray(Image.open(path).convert("RGB"), dtype=np.float32) / 255
    return torch.from_numpy(pixels).permute(2, 0, 1)[None]


def true_covariance(eps):
    """Radial means of the true noise's power, by channel."""
    shape = (eps.shape[-2], eps.shape[-1])
    P, modes = power(to_opponent(eps.double()))[0].flatten(1), half_plane(shape)
    edges = torch.logspace(-2, math.log10(0.72), 22, dtype=torch.float64)
    at = torch.bucketize(modes.k, torch.cat([torch.zeros(1).double(), edges]))
    N = torch.zeros_like(P)
    for b in at.unique():
        here = at == b
        N[:, here] = (P[:, here] @ modes.weight[here] / modes.weight[here].sum())[:, None]
    N = N.clamp(min=ROUNDING)
    near = torch.stack([N[:, (modes.k / k - 1).abs().argmin()] for k in REFERENCE], 1)
    grid = N.reshape(1, 3, shape[0], -1).float()
    return SpectralCovariance(grid, shape, 0.5 * near.log()[None].float())


def quiet_covariance(y):
    """What quiet places tell, with a level that goes with brightness."""
    noise = LevelledNoise(PhotoNoise()).lit(Light.of(brightness(y.double())))
    quiet = quiet_patches(y)
    phi = start_of(noise, quiet, (RAISED[0], 0.0))
    return noise.covariance((y.shape[-2], y.shape[-1]), phi, torch.float32)


def psnr(found, truth):
    """In dB, of a picture on [0, 1]."""
    return float(-10 * torch.log10((found.clamp(0, 1) - truth).square().mean()))


@torch.no_grad()
def one_call(model, y, covariance):
    """D(y, N)."""
    return model(y, covariance).mean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--noise", default="photo")
    parser.add_argument("--model", default="natural")
    parser.add_argument("--told", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--no-blind", action="store_true")
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--dncnn", type=Path)
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    model = load_model(given.model)
    dncnn = None if given.dncnn is None else load_dncnn(given.dncnn)
    rows, untouched = [], []
    for i, path in enumerate(sorted((given.data / "real").glob("*.png"))):
        if i % given.every:
            continue
        y, x = read(path), read(given.data / "mean" / path.name)
        row = {"noisy": psnr(y, x), "nam": psnr(read(given.data / "nam" / path.name), x)}
        if given.told:
            told = true_covariance(y - x)
            row["told"] = psnr(one_call(model, y, told), x)
            row["told, (17)"] = psnr(one_call(Correlated(model), y, told), x)
        if given.quiet:
            row["quiet"] = psnr(one_call(model, y, quiet_covariance(y)), x)
        if given.baselines:
            channels = [bm3d_as_used(y[0, c : c + 1]) for c in range(3)]
            row["BM3D"] = psnr(torch.cat(channels)[None], x)
            row["NLM"] = psnr(non_local_means(y[0])[None], x)
        if dncnn is not None:
            row["DnCNN"] = psnr(dncnn(y[0])[None], x)
        if not given.no_blind:
            began = time.perf_counter()
            found = gibbsdiff.denoise(str(path), noise=given.noise, model=given.model)
            pixels = torch.from_numpy(np.asarray(found.image, dtype=np.float32) / 255)
            row["blind"] = psnr(pixels.permute(2, 0, 1)[None], x)
            row["seconds"] = time.perf_counter() - began
        if not rows:
            print("| picture |", " | ".join(row), "|")
        rows.append(row)
        if i % 2:
            untouched.append(row)
        print(f"| {path.stem} |", " | ".join(f"{v:.2f}" for v in row.values()), "|", flush=True)
    for name, some in (("mean", rows), ("mean of those apart", untouched)):
        if some:
            means = [float(np.mean([r[key] for r in some])) for key in rows[0]]
            print(f"| {name} ({len(some)}) |", " | ".join(f"{v:.2f}" for v in means), "|")


if __name__ == "__main__":
    main()
