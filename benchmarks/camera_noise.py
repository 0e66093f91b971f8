"""Blind denoising under synthetic camera noise, with the truth: 24 photographs of 256².

    python benchmarks/camera_noise.py --data DIR [--count 24] [--first 0]

Noise is drawn by the law that the network for photographs was trained on: a filter for each
opponent channel, and for every second picture a level that goes with brightness. DIR has the folder
`imagenet`, whose every 15th picture was never trained on; the first 10 of these chose checkpoints,
and are left out, 51 remain. Printed: PSNR of the noisy picture, told the noise, and blind
(`gibbsdiff.denoise(y, noise="photo")`); the rms error of log N where 1 - Ê/N > ½, and how often the
95 % interval of a curve, with eq. (12), holds the truth there.
"""

import argparse
import statistics
from pathlib import Path

import torch

from gibbsdiff import denoise, load_model, psnr
from gibbsdiff.data.images import protocol_images
from gibbsdiff.fourier import radial_bins
from gibbsdiff.noise import LevelMap, Light, SpectralCovariance
from gibbsdiff.noise.level import brightness
from gibbsdiff.training.noise import NoiseLaw, add_noise

SIDE, LEVELS = 256, (0.01, 0.15)
SEEN = 0.5
MEAN, WORST, SPECTRA, HOLDS = 0.15, 0.5, 0.1, (0.90, 0.98)


def observe(x, i):
    """y of one picture (1, 3, H, W), and the covariance of its noise."""
    rng = torch.Generator().manual_seed(i)
    law = NoiseLaw(level=LEVELS, tail_part=0.0, random_part=0.0, wide_part=0.0, camera_part=1.0)
    noise, told = add_noise(torch.zeros_like(x), rng, law)
    if i % 2 == 0:
        return x + noise, told
    curve = torch.tensor([[0.8, -0.6], [-0.6, -1.0], [0.5, 0.8]]).double()[[i // 2 % 3]]
    true = LevelMap.by_light(curve, Light.of(brightness(x, 3))).g.float()
    y = x + true * noise
    seen = LevelMap.by_light(curve, Light.of(brightness(y))).to(dtype=torch.float32)
    return y, SpectralCovariance(told.power, told.shape, told.descriptor, level_map=seen)


def curves(posterior, told, denoiser, y):
    """rms error of log N in the bins that show their noise, and how often the interval holds."""
    bins, found = radial_bins((SIDE, SIDE), most=40), posterior.curves
    true = bins.sum(told.power[0].double()) / bins.k.weight
    with torch.no_grad():
        error = denoiser.with_derivative_error()(y, told).error.spectrum()[0].double()
    share = (bins.sum(error) / bins.k.weight / true).clamp(0, 1)
    some = bins.k.k > 0
    true, seen = true[:, some], (1 - share > SEEN)[:, some]
    low, high = found.interval(0.95)
    weight = bins.k.weight[some].expand_as(true)[seen]
    if not len(weight):
        return 0.0, 1.0
    off = (found.power / true).log()[seen]
    inside = ((true >= low) & (true <= high))[seen].double()
    rms = float(((off.square() * weight).sum() / weight.sum()).sqrt())
    return rms, float((inside * weight).sum() / weight.sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="of the 51")
    given = parser.parse_args()
    torch.set_num_threads(1)
    last = given.first + given.count
    files = sorted((given.data / "imagenet").iterdir())[::15][10:][given.first : last]
    denoiser = load_model("natural")
    rows = []
    print("picture, level, noisy, told, blind, rms of log N, 95 % intervals hold")
    for i, x in enumerate(protocol_images(files, SIDE)):
        y, told = observe(x[None], given.first + i)
        with torch.no_grad():
            best = denoiser(y, told).mean
        found = denoise(y[0], noise="photo", model=denoiser)
        known = [float(psnr(z, x)) for z in (y[0], best[0], found.mean)]
        rows.append((*known, *curves(found, told, denoiser, y)))
        text = " ".join(f"{v:.2f}" for v in rows[-1])
        print(f"{files[i].name} {float(told.level):.3f} {text} ({found.how[-1]})", flush=True)
    noisy, told, blind, rms, holds = (statistics.mean(column) for column in zip(*rows, strict=True))
    gaps = sorted(t - b for _, t, b, *_ in rows)
    print(f"mean: noisy {noisy:.2f}, told {told:.2f}, blind {blind:.2f} dB")
    print(
        f"gap: mean {statistics.mean(gaps):.2f} (bar {MEAN}), median {statistics.median(gaps):.2f}"
    )
    print(f"worst {gaps[-1]:.2f} (bar {WORST}), then {gaps[-2]:.2f}, {gaps[-3]:.2f}")
    print(f"log N: rms {rms:.2f} (bar {SPECTRA}); intervals hold {100 * holds:.0f} % (90 to 98)")


if __name__ == "__main__":
    main()
