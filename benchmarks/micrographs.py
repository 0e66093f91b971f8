"""Real micrographs with a truth: PSNR of the default command, and of what others do.

    python benchmarks/micrographs.py --data FMD [--noise auto] [--every 1] [--told] [--baselines]

The folder has raw/ (one shot) and gt/ (the mean of 50): grey, 8 bits. Blind is
`gibbsdiff.denoise(file, noise="auto")`, which chooses between photographs' noise and counted light
by itself. `--told` adds one call told gain, c and the spectrum of the truth; `--baselines` the
generalised Anscombe transform with BM3D told gain and c, non-local means with its own estimate of
σ, and scikit-image's `calibrate_denoiser` of a wavelet denoiser. PSNR is of results rounded to 8
bits. Each picture is kept as it is done in --records; a stopped run goes on.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import gibbsdiff
from gibbsdiff.evidence.baselines import anscombe_bm3d, non_local_means
from gibbsdiff.fourier import REFERENCE, half_plane
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.noise import SpectralCovariance, WhiteNoise
from gibbsdiff.noise.level import LevelMap, brightness
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams
from records import Records

LEAST = 0.02  # of the mean variance, where a line would be below 0
BANDS = 22


def read(path):
    """(H, W) on [0, 1]."""
    return torch.from_numpy(np.asarray(Image.open(path), dtype=np.float32) / 255)


def psnr(found, truth):
    """In dB, rounded to 8 bits."""
    rounded = (found.clamp(0, 1) * 255).round() / 255
    return float(-10 * torch.log10((rounded - truth).square().mean()))


def true_line(y, x):
    """Gain and c by a regression of (y - x)² on x, in 40 bins of x."""
    edges = torch.quantile(x.flatten(), torch.linspace(0, 1, 41))
    light, variance = [], []
    for low, high in pairwise(edges):
        here = (x >= low) & (x <= high)
        if int(here.sum()) > 50:
            light.append(x[here].mean())
            variance.append((y - x)[here].square().mean())
    light, variance = torch.stack(light), torch.stack(variance)
    A = torch.stack([light, torch.ones_like(light)], 1) / variance[:, None]
    gain, c = torch.linalg.lstsq(A, torch.ones(len(A), 1)).solution[:, 0].tolist()
    return gain, c


@torch.no_grad()
def told(model, y, x):
    """One call told the truth's line and the spectrum of what it leaves."""
    gain, c = true_line(y, x)
    shape, modes = tuple(y.shape), half_plane(tuple(y.shape))
    v = gain * x + c
    white = (y - x) / v.clamp(min=LEAST * float(v.mean())).sqrt()
    P = torch.fft.rfft2((white - white.mean()).double(), norm="ortho").abs().square().flatten()
    edges = torch.logspace(-2, np.log10(0.72), BANDS, dtype=torch.float64)
    at, N = torch.bucketize(modes.k, edges), torch.zeros_like(P)
    for band in at.unique():
        here = at == band
        N[here] = (P[here] * modes.weight[here]).sum() / modes.weight[here].sum()
    s = 1 / max(0.05, float(torch.quantile(y.flatten(), 0.999)))
    seen = gain * brightness(y[None, None]) + c
    seen = seen.clamp(min=LEAST * float(seen.mean()))
    # Luma of a grey picture is √3 of it; chroma is shown noise of the same kind.
    N = 3 * s * s * float(seen.mean()) * N
    near = torch.stack([N[(modes.k / k - 1).abs().argmin()] for k in REFERENCE])
    covariance = SpectralCovariance(
        N.reshape(1, 1, shape[0], -1).float(),
        shape,
        0.5 * near.log()[None, None].float(),
        level_map=LevelMap((seen / seen.mean()).sqrt()),
    )
    grey = ObservationModel(WhiteNoise(), shape, grey=True)
    shown = grey.show(s * y[None, None], covariance, Streams(0, [(0, 1)]))
    return grey.take(model(shown, covariance).mean)[0, 0] / s


def calibrated(y):
    """scikit-image's: the wavelet denoiser whose σ a self-supervised loss prefers."""
    from skimage.restoration import calibrate_denoiser, denoise_wavelet

    image = y.numpy()
    grid = {"sigma": list(np.geomspace(0.01, 0.5, 12)), "rescale_sigma": [True]}
    return torch.from_numpy(calibrate_denoiser(image, denoise_wavelet, grid)(image)).float()


def one(path, data, model, given):
    """All figures of one picture."""
    y, x = read(path), read(data / "gt" / path.name)
    row = {"noisy": psnr(y, x)}
    if given.told:
        row["told"] = psnr(told(model, y, x), x)
    if given.baselines:
        row["Anscombe + BM3D, told"] = psnr(anscombe_bm3d(y[None], *true_line(y, x))[0], x)
        row["non-local means"] = psnr(non_local_means(y[None])[0], x)
        row["calibrated wavelets"] = psnr(calibrated(y), x)
    if not given.no_blind:
        began = time.process_time()
        found = gibbsdiff.denoise(str(path), noise=given.noise, model=given.model)
        row["blind"] = psnr(torch.from_numpy(np.asarray(found.image, dtype=np.float32) / 255), x)
        row["CPU s"] = time.process_time() - began
        row["counted"] = float(found.line is not None)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--noise", default="auto")
    parser.add_argument("--model", default="natural")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--told", action="store_true")
    parser.add_argument("--baselines", action="store_true")
    parser.add_argument("--no-blind", action="store_true")
    parser.add_argument("--records", default="micrographs.jsonl")
    given = parser.parse_args()
    model = load_model(given.model)
    records = Records(given.records, {"benchmark": "micrographs", "noise": given.noise})
    rows = {}
    for path in sorted((given.data / "raw").glob("*.png"))[:: given.every]:
        key = (path.stem, given.told, given.baselines, not given.no_blind)
        if key not in records:
            records.add(key, row=one(path, given.data, model, given))
        rows[path.stem] = records[key]["row"]
        print(path.stem, {k: round(v, 2) for k, v in rows[path.stem].items()}, flush=True)
    groups = {"all": list(rows)}
    for name in rows:
        groups.setdefault(name.split("_")[0], []).append(name)
    columns = list(next(iter(rows.values())))
    print(f"| microscope | pictures | {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * (len(columns) + 1))
    for group, names in groups.items():
        means = [float(np.mean([rows[n][c] for n in names])) for c in columns]
        print(f"| {group} | {len(names)} | {' | '.join(f'{v:.2f}' for v in means)} |")


if __name__ == "__main__":
    main()
