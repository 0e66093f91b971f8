"""Noise as cameras make it, put on two photographs and found blind.

Luma noise that rolls off at small scales, chroma noise that is gone there, and a level that goes
with brightness, rounded to 8 bits: what no power law can say. The photographs are brought to
[0.08, 0.92] first, so that hardly any noise is cut off at black or white. The figure has the noisy
pictures, what `gibbsdiff.denoise(picture, noise="photo")` makes of them, and the spectra that it
found against those of the noise that was put in, by opponent channel.

    python examples/real_noise.py [figure.jpg]
"""

import sys

import numpy as np
import torch
from matplotlib.figure import Figure
from skimage import data

from gibbsdiff import LevelledNoise, PhotoNoise, denoise, psnr
from gibbsdiff.fourier import power, to_opponent
from gibbsdiff.noise import Light
from gibbsdiff.noise.level import brightness
from gibbsdiff.plots.arithmetic import radial_average, spectrum_bins
from gibbsdiff.plots.style import BLUE, GREEN, NORMAL, SMALL, VERMILION, tidy

SIDE = 256
SHAPE = (SIDE, SIDE)
LOW, HIGH = 0.08, 0.92
PICTURES = {"coffee": (data.coffee, 130, 170), "astronaut": (data.astronaut, 0, 130)}
#: Two cameras: σ at |k| = 0.1, slope, roll-off and floor of luma and of chroma, and (a, b).
CAMERAS = {
    "coffee": {
        **{"log_sigma": np.log(0.05), "slope": -0.3, "cut": 2.2, "power": 1.8, "floor": -5.0},
        **{"log_ratio": 0.2, "log_ratio2": -0.2, "slope_c": 0.0, "cut_c": 6.0, "power_c": 1.5},
        **{"floor_c": -6.0, "a": 0.8, "b": 0.0},
    },
    "astronaut": {
        **{"log_sigma": np.log(0.08), "slope": 0.0, "cut": 1.5, "power": 1.6, "floor": -5.0},
        **{"log_ratio": 0.0, "log_ratio2": 0.1, "slope_c": -0.3, "cut_c": 5.0, "power_c": 1.5},
        **{"floor_c": -6.0, "a": -0.6, "b": 0.4},
    },
}
BANDS = ((0.02, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 0.6))
CHANNELS = ("luma", "red-blue chroma", "green chroma")


def noisy(name: str) -> tuple[torch.Tensor, np.ndarray]:
    """A clean picture (3, H, W) and the same with camera noise, (H, W, 3) of 8 bits."""
    read, top, left = PICTURES[name]
    pixels = LOW + (HIGH - LOW) * read()[top : top + SIDE, left : left + SIDE] / 255.0
    x = torch.from_numpy(pixels).permute(2, 0, 1)
    family = LevelledNoise(PhotoNoise()).lit(Light.of(brightness(x[None])))
    phi = [CAMERAS[name][parameter] for parameter in family.names]
    y = x + family.draw(SHAPE, phi, channels=3, seed=1)[0]
    return x, (255 * y.clamp(0, 1)).round().permute(1, 2, 0).numpy().astype(np.uint8)


def by_radius(spectra: torch.Tensor) -> torch.Tensor:
    """Radial means (3, bins) of powers (3, H, W//2+1)."""
    return torch.stack([radial_average(N.double(), spectrum_bins(*SHAPE)) for N in spectra])


def main(path: str) -> None:
    """Both pictures, as rows of one figure."""
    page = Figure(figsize=(10.4, 6.6), dpi=120, layout="constrained")
    axes = page.subplots(len(PICTURES), 3, width_ratios=[1, 1, 1.15])
    k = spectrum_bins(*SHAPE).k.k.numpy()
    for row, name in zip(axes, PICTURES, strict=True):
        x, y = noisy(name)
        p = denoise(y, noise="photo")
        print(f"{name}\n{p.summary()}\n")
        before, after = (float(psnr(z, x)) for z in (p.observed, p.mean))
        for axis, z, title in ((row[0], y, f"noisy, {before:.1f} dB"),
                               (row[1], p.image, f"found blind, {after:.1f} dB")):  # fmt: skip
            axis.imshow(z, interpolation="none")
            axis.set_title(title, fontsize=NORMAL)
            axis.set_axis_off()
        put_in = by_radius(power(to_opponent((p.observed - x)[None]))[0])
        found = by_radius(p.noise_power)
        print(f"PSNR {before:.1f} -> {after:.1f} dB; √N found over put in, by band and channel:")
        for low, high in BANDS:
            seen = torch.from_numpy((k >= low) & (k < high))
            ratios = (found[:, seen] / put_in[:, seen]).sqrt().mean(1).tolist()
            print(f"  |k| {low} to {high}: " + ", ".join(f"{r:.2f}" for r in ratios))
        for c, colour in enumerate((BLUE, VERMILION, GREEN)):
            row[2].loglog(k, put_in[c].sqrt(), ".", ms=3, color=colour, alpha=0.6)
            row[2].loglog(k, found[c].sqrt(), color=colour, lw=1.4, label=CHANNELS[c])
        row[2].set_xlim(0.008, 0.72)
        row[2].set_xlabel("|k|, cycles per pixel", fontsize=SMALL)
        row[2].set_title("√N: put in (dots), found (lines)", fontsize=NORMAL)
        row[2].legend(fontsize=SMALL, frameon=False, loc="lower left")
        tidy(row[2])
    page.savefig(path, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "real-noise.jpg")
