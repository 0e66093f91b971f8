"""Quiet places of JPEG files, with and without the steps that the file says it was rounded to.

    python benchmarks/jpeg_steps.py --data FOLDER [--pictures 12] [--every 10] [--fit] [--denoise 0]

Photographs of a folder, the paper's crop of 256², under white and low-passed noise of 3, 6, 12 and
20 levels, written by Pillow with quality 95, 85 or 75 and 4:4:4 or 4:2:0, which go round over
pictures and levels. No network is called. The mean of |log(found/true)|:

- level: the rms of all channels at |k| > 0.09, against that of (decoded - clean).
- luma, chroma: powers at |k| > 0.25, band by band, against those of (decoded - clean).

With `--fit` the level is that of `start_of` by `PhotoNoise` (about three seconds a file);
`--denoise n` gives the PSNR of the first n files by `gibbsdiff.denoise`, without and with steps.
"""

import argparse
import io
import math
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import gibbsdiff
from gibbsdiff.data.images import centre, image_files, read_image
from gibbsdiff.fourier import half_plane, radial_bins, to_opponent
from gibbsdiff.inference.clipped import hidden_places
from gibbsdiff.inference.encoding import read
from gibbsdiff.inference.quiet import BANDS, quiet_patches
from gibbsdiff.inference.quiet_law import window
from gibbsdiff.inference.quiet_start import start_of
from gibbsdiff.inference.quiet_whole import of_the_whole
from gibbsdiff.noise import LevelledNoise, PhotoNoise
from gibbsdiff.noise.level import Light, brightness

KINDS, LEVELS, QUALITIES = ("white", "low"), (3, 6, 12, 20), (95, 85, 75)
CUT = 0.22  # of the low-passed noise: exp(-(|k|/cut)²) in amplitude
GROUPS = [edge for edges in BANDS[0][1] for edge in pairwise(edges)]


def noise_like(kind, level, side, rng):
    white = rng.standard_normal((side, side, 3))
    if kind == "white":
        return level * white
    f = np.fft.fftfreq(side)
    h = np.exp(-((np.hypot(f[:, None], f) / CUT) ** 2))
    low = np.fft.ifft2(np.fft.fft2(white, axes=(0, 1)) * h[..., None], axes=(0, 1)).real
    return level * low / math.sqrt((h**2).mean())


def tensor(pixels):
    return torch.from_numpy(pixels.astype(np.float64) / 255).movedim(-1, 0)[None]


def files(args):
    """What was done, the clean picture, and the bytes of a file."""
    paths = image_files(args.data)[:: args.every][: args.pictures]
    for i, path in enumerate(paths):
        clean = centre(read_image(path)).movedim(0, -1).numpy()
        for a, kind in enumerate(KINDS):
            for b, level in enumerate(LEVELS):
                rng = np.random.default_rng(1000 * i + level)
                noisy = clean + noise_like(kind, level, len(clean), rng)
                quality, sub = QUALITIES[(i + a + b) % 3], (0, 2)[(i // 3 + b) % 2]
                file = io.BytesIO()
                pixels = np.clip(np.round(noisy), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=sub)
                yield (path.stem, kind, level, quality, sub), clean, file.getvalue()


def given_of(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "picture.jpg"
        path.write_bytes(content)
        return read(path)


def true_powers(error):
    """(C, G) of all patches of 32²."""
    n = BANDS[0][0]
    cells = to_opponent(error)[0].unfold(-2, n, n // 2).unfold(-2, n, n // 2).flatten(1, 2)
    P = torch.fft.rfft2(cells * window(n), norm="ortho").abs().square().mean(1).flatten(-2)
    modes = half_plane((n, n))
    w = torch.stack([((modes.k >= a) & (modes.k < b)) * modes.weight for a, b in GROUPS])
    return P @ w.T / w.sum(1)


def level_of(P):
    area = torch.tensor([b**2 - a**2 for a, b in GROUPS], dtype=torch.float64)
    return math.sqrt(float((P * area).sum() / area.sum() / len(P)))


def fitted(quiet, raised, y):
    """The rms of all channels by the start of a search."""
    noise = LevelledNoise(PhotoNoise(3)).lit(Light.of(brightness(y)))
    k = radial_bins((y.shape[-2], y.shape[-1])).k
    N = noise.log_spectra(k, start_of(noise, quiet, raised)).exp()[0]
    return math.sqrt(float((N @ k.weight).mean() / k.weight.sum()))


def errors_of(quiet, raised, y, clean, fit):
    true = true_powers(y - clean)
    found = (quiet.power * math.exp(raised[0]))[:, -len(GROUPS) :]
    small = torch.tensor([a >= 0.25 for a, _ in GROUPS])
    by_band = (found.clamp(min=1e-8) / true.clamp(min=1e-8)).log().abs()[:, small]
    level, rms = level_of(found), level_of(true)
    if fit:
        level, rms = fitted(quiet, raised, y), float((y - clean).square().mean().sqrt())
    return abs(math.log(level / rms)), float(by_band[0].mean()), float(by_band[1:].mean())


def row(name, chosen):
    each = torch.tensor(chosen).mean(0)
    print(f"{name:>10} {len(chosen):5d}" + "".join(f"{v:8.2f}" for v in each.T.flatten()))


def main(args):
    rows = []
    for i, (what, clean, content) in enumerate(files(args)):
        given = given_of(content)
        y, x = given.values[None].double(), tensor(clean)
        hidden = hidden_places(y)
        every = torch.ones(y.shape[-2:], dtype=torch.bool)
        quiet = quiet_patches(y, every if hidden is None else ~hidden)
        if quiet is None:
            continue
        both = [of_the_whole(quiet, y, True, True, steps) for steps in (None, given.steps)]
        rows.append((what, [errors_of(*one, y, x, args.fit) for one in both]))
        if i < args.denoise:
            values = [
                y,
                *(
                    gibbsdiff.denoise(g, noise="photo").mean[None].double().clamp(0, 1)
                    for g in (given._replace(steps=None), given)
                ),
            ]
            psnr = [-10 * math.log10(float((v - x).square().mean())) for v in values]
            print(*what, "given, without, with steps:", *(f"{v:.2f}" for v in psnr), flush=True)
    print(
        f"{'':>16}{'level':>14}{'luma':>16}{'chroma':>16}\n{'':>10} files" + " without    with" * 3
    )
    row("all", [e for _, e in rows])
    for at, values in ((1, KINDS), (2, LEVELS), (3, QUALITIES), (4, (0, 2))):
        for value in values:
            chosen = [e for what, e in rows if what[at] == value]
            if chosen:
                named = {0: "4:4:4", 2: "4:2:0"}[value] if at == 4 else value
                row(str(named), chosen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True, help="a folder of clean photographs")
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--denoise", type=int, default=0)
    torch.set_num_threads(1)
    main(parser.parse_args())
