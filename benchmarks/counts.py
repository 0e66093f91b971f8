"""Synthetic counts with a truth: gain and c of poisson-gaussian noise, found blind.

    python benchmarks/counts.py [--runs 60] [--side 256] [--model natural]

Pictures of scikit-image (`immunohistochemistry`, `cell`, `retina`, as grey) and a drawn one of
filaments and spots, under Poisson counts of three gains with Gaussian read noise. Printed are the
errors of gain and c, c by the variance at the mean brightness that it leaves, and whether the 95 %
intervals hold the truth.
"""

import argparse
import math

import numpy as np
import torch

import gibbsdiff

GAINS = (0.003, 0.01, 0.03)
READ = 0.01  # sd of read noise


def pictures(side):
    """Grey pictures (H, W) on about [0.02, 0.98], by name."""
    from skimage import color, data, filters, transform

    def cut(image):
        shorter = min(image.shape)
        scale = max(side / shorter, 0.5)
        size = [math.ceil(scale * n) for n in image.shape]
        small = transform.resize(image, size, anti_aliasing=True)
        top, left = ((n - side) // 2 for n in small.shape)
        return small[top : top + side, left : left + side]

    rng = np.random.default_rng(0)
    drawn = np.zeros((side, side))
    for _ in range(40):
        at, angle, light = rng.uniform(0, side, 2), rng.uniform(0, np.pi), rng.uniform(0.2, 1)
        for _ in range(side):
            angle += rng.normal(0, 0.06)
            at = (at + np.array([np.sin(angle), np.cos(angle)])) % side
            drawn[int(at[0]) % side, int(at[1]) % side] += light
    for _ in range(60):
        drawn[rng.integers(side), rng.integers(side)] += rng.uniform(5, 25)
    found = {
        "ihc": 1 - cut(color.rgb2gray(data.immunohistochemistry())),
        "cell": cut(data.cell() / 255),
        "retina": cut(color.rgb2gray(data.retina())),
        "drawn": filters.gaussian(drawn, 1.5),
    }
    return {n: torch.from_numpy(0.02 + 0.96 * x / x.max()) for n, x in found.items()}


def counted(x, gain, seed):
    """Counts of `gain` each, and read noise."""
    rng = torch.Generator().manual_seed(seed)
    shot = gain * torch.poisson(x / gain, generator=rng)
    return shot + READ * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--model", default="natural")
    given = parser.parse_args()
    torch.set_num_threads(1)
    clean = pictures(given.side)
    errors, inside = [], []
    for run in range(given.runs):
        name, gain = list(clean)[run % len(clean)], GAINS[run // len(clean) % len(GAINS)]
        x = clean[name]
        y = counted(x, gain, run).float()
        found = gibbsdiff.denoise(y, noise="poisson-gaussian", model=given.model, check=False)
        line, mean = found.line, float(x.mean())
        off = (line.gain / gain - 1, (line.c - READ**2) / (gain * mean + READ**2))
        z = ((line.gain - gain) / line.gain_sd, (line.c - READ**2) / line.c_sd)
        errors.append(off)
        inside.append([abs(v) < 1.96 for v in z])
        print(
            f"{name:>8} gain {gain:g}: {line.gain:.4g} ± {line.gain_sd:.2g} "
            f"({100 * off[0]:+.1f} %), "
            f"c {line.c:.2e} ± {line.c_sd:.1e} ({100 * off[1]:+.1f} % of the variance), "
            f"z {z[0]:+.1f} {z[1]:+.1f}, {found.calls} calls",
            flush=True,
        )
    near = (np.abs(errors) < 0.1).mean(0)
    for i, what in enumerate(("gain", "c")):
        rms = float(np.sqrt(np.mean(np.square(errors), 0))[i])
        print(
            f"{what}: rms error {100 * rms:.1f} %, within 10 % in {100 * near[i]:.0f} % of runs, "
            f"95 % intervals hold {100 * np.mean(inside, 0)[i]:.0f} %"
        )


if __name__ == "__main__":
    main()
