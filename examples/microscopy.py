"""The picture of the page on microscopy: drawn filaments and spots, counted photon by photon.

    python examples/microscopy.py [FILE]      # by default docs/images/microscopy.jpg

Prints gain and c, which are put in and found blind, and PSNR before and after.
"""

import sys

import numpy as np
import torch
from matplotlib.figure import Figure
from skimage.filters import gaussian

import gibbsdiff

SIDE, GAIN, PEDESTAL, READ = 256, 40.0, 100.0, 12.0  # in the units of the camera


def filaments(side: int = SIDE) -> np.ndarray:
    """Expected light, in the camera's units: threads that bend, and spots, out of focus by 1.5."""
    rng = np.random.default_rng(4)
    x = np.zeros((side, side))
    for _ in range(22):
        at, angle, light = rng.uniform(0, side, 2), rng.uniform(0, np.pi), rng.uniform(0.2, 1)
        for _ in range(side):
            angle += rng.normal(0, 0.06)
            at = (at + np.array([np.sin(angle), np.cos(angle)])) % side
            x[int(at[0]) % side, int(at[1]) % side] += light
    for _ in range(30):
        x[rng.integers(side), rng.integers(side)] += rng.uniform(5, 20)
    x = gaussian(x, 1.5)
    return 30.0 + 2500.0 * x / x.max()


def shot(x: np.ndarray) -> np.ndarray:
    """What the camera writes, uint16: counts times the gain, a pedestal, read noise."""
    rng = np.random.default_rng(5)
    light = GAIN * rng.poisson(x / GAIN) + PEDESTAL + rng.normal(0, READ, x.shape)
    return np.clip(np.rint(light), 0, 65535).astype(np.uint16)


def main() -> None:
    """Denoise, print, draw."""
    path = sys.argv[1] if len(sys.argv) > 1 else "docs/images/microscopy.jpg"
    torch.set_num_threads(1)
    x = filaments()
    y = shot(x)
    found = gibbsdiff.denoise(y, noise="auto", offset=PEDESTAL)
    print(found.summary())
    assert found.line is not None
    clean, truth = np.asarray(found.image, dtype=float), x + PEDESTAL
    peak = truth.max() - truth.min()
    before, after = (10 * np.log10(peak**2 / np.mean((z - truth) ** 2)) for z in (y, clean))
    print(f"PSNR {before:.1f} dB before, {after:.1f} dB after")
    print(f"gain {found.line.gain:.1f} ± {found.line.gain_sd:.1f}, put in {GAIN:g}")
    print(f"read noise {found.line.read:.1f}, put in {READ:g}")
    top = np.quantile(truth, 0.998)
    figure = Figure(figsize=(12, 4.2), layout="constrained")
    assert found.sd is not None
    sd = found.unit * found.sd[0].numpy()
    panels = (
        ("one shot", y, PEDESTAL, top),
        ("found", clean, PEDESTAL, top),
        ("truth", truth, PEDESTAL, top),
        ("standard deviation", sd, 0, np.quantile(sd, 0.998)),
    )
    for axes, (title, image, low, high) in zip(figure.subplots(1, 4), panels, strict=True):
        axes.imshow(
            image, cmap="magma" if title.startswith("standard") else "gray", vmin=low, vmax=high
        )
        axes.set_title(title)
        axes.axis("off")
    figure.savefig(path, dpi=110, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    main()
