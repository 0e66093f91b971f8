"""Two choices of the paper's network for cosmology: β_max, and Fourier features.

    python benchmarks/paper_cosmo.py --dust maps.npz --models NAME=FILE NAME=FILE ...

Test maps of dust under a CMB of known parameters are drawn again by the reverse SDE of each
network, at the true (σ, H0, ω_b). What is left, y - x, should have the CMB's own spectrum: the
table has its power over that of the true CMB in bands of |k|, as the mean over maps of log ratios;
the mean of their sizes, the error of the spectrum; and dB of D above the Wiener filter. Times are
steps to the unit of time: a draw takes t*(σ) of them. Each map is kept as it is done.
"""

import argparse
import math
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch

from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.diffusion.solvers import ddpm
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_model, read_card
from gibbsdiff.streams import Streams
from records import Records

#: Upper ends of the bands of |k|: 32, 8 and 4 pixels; and their names.
EDGES = (1 / 31.9, 1 / 8, 1 / 4)
NAMES = ("≥ 32 px", "8-32 px", "4-8 px", "< 4 px")


def band_power(x):
    """Mean power of maps (B, 1, H, W) in the bands: (B, bands)."""
    modes = half_plane((x.shape[-2], x.shape[-1]))
    index = torch.bucketize(modes.k, torch.tensor(EDGES, dtype=torch.float64))
    weight = torch.zeros(len(NAMES), len(modes.k), dtype=torch.float64)
    weight[index, torch.arange(len(index))] = torch.where(modes.k > 0, modes.weight, 0.0)
    return power(x.double()).flatten(1) @ (weight / weight.sum(1, keepdim=True)).T


@torch.no_grad()
def one(model, dust, phi, linear, steps, key):
    """One map: log ratios of the bands, and dB of D above the Wiener filter."""
    shape = (dust.shape[-2], dust.shape[-1])
    noise = CMBNoise().covariance(shape, phi, dust.dtype)
    cmb = noise.draw(Streams(12, [(key,)]), 1)
    y = dust[None] + cmb
    began = time.process_time()
    draw = partial(ddpm, process=model.process, steps=steps)(model, y, noise, Streams(13, [(key,)]))
    ratio = torch.log(band_power(y - draw.x) / band_power(cmb))[0]
    mse = [float((m - dust).square().mean()) for m in (draw.mean, linear(y, noise).mean)]
    return {
        "bands": ratio.tolist(),
        "gain": 10 * math.log10(mse[1] / mse[0]),
        "calls": int(draw.calls[0]),
        "seconds": time.process_time() - began,
    }


def render(records, digests, cells):
    """Markdown: a row per model and σ."""
    head = ["network", "σ", "maps", *NAMES, "mean size", "D over Wiener, dB", "calls", "CPU s"]
    lines = ["| " + " | ".join(head) + " |", "| --- " + "| ---: " * (len(head) - 1) + "|"]
    for name, digest in digests.items():
        for sigma in sorted({s for _, s in cells}):
            keys = [(digest, i, s) for i, s in cells if s == sigma]
            found = [records[key] for key in keys if key in records]
            if not found:
                continue
            bands = list(zip(*(r["bands"] for r in found), strict=True))
            shown = [f"{100 * math.expm1(statistics.fmean(b)):+.1f} %" for b in bands]
            size = statistics.fmean(abs(math.expm1(v)) for b in bands for v in b)
            rest = [statistics.fmean(r[n] for r in found) for n in ("gain", "calls", "seconds")]
            lines.append(
                f"| {name} | {sigma:g} | {len(found)} | {' | '.join(shown)} | {100 * size:.1f} % "
                f"| {rest[0]:+.2f} | {rest[1]:.0f} | {rest[2]:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dust", required=True, help="maps of `gibbsdiff cmb simulate`")
    parser.add_argument("--models", nargs="+", required=True, help="NAME=FILE, ε-networks")
    parser.add_argument("--sigma", type=float, nargs="+", default=[0.2, 0.5, 1.0])
    parser.add_argument("--maps", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300, help="to the unit of time")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", default="docs/results/paper-cosmo.jsonl")
    parser.add_argument("--out", default="docs/results/paper-cosmo.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    records = Records(given.records, {"benchmark": "paper cosmo", "steps": given.steps})
    files = dict(pair.split("=", 1) for pair in given.models)
    models = {name: load_model(file) for name, file in files.items()}
    digests = {name: model.digest() for name, model in models.items()}
    card = read_card(next(iter(files.values())))
    maps, _ = held_out(given.dust, card["maps"]["side"], card)
    linear = GaussianDenoiser(TabulatedSignal.measured(maps))
    x = maps[:: max(1, len(maps) // given.maps)][: given.maps].float()
    cells = [(i, sigma) for i in range(len(x)) for sigma in given.sigma]
    fiducial = CMBNoise().emulator.fiducial.tolist()
    for (i, sigma), name in ((c, n) for c in cells for n in models):
        key = (digests[name], i, sigma)
        if key in records or time.monotonic() - began > 60 * given.minutes:
            continue
        phi = torch.tensor([[sigma, *fiducial]], dtype=torch.float64)
        found = one(models[name], x[i], phi, linear, given.steps, i)
        records.add(key, **found)
        print(f"{name}, map {i}, σ {sigma}: {found}", file=sys.stderr, flush=True)
    text = render(records, digests, cells)
    Path(given.out).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
