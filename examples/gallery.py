"""The pictures of the gallery page: noises put on photographs of scikit-image, and found blind.

Each figure has the noisy picture, the clean one that was found, how sure it is (the standard
deviation of every pixel) and the spectrum that was found against that of the noise put in.

    python examples/gallery.py [FOLDER] [NAME ...]      # by default all, docs/images/gallery
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from skimage import data
from torch import Tensor

from gibbsdiff import PowerLawNoise, SpectralNoise, StationaryNoise, denoise, psnr
from gibbsdiff.fourier import power

SIZE = 160


class Case(NamedTuple):
    """A photograph, a noise with its true parameters, and what else is done to the picture."""

    photograph: Callable[[], np.ndarray]
    corner: tuple[int, int]
    noise: StationaryNoise
    truth: tuple[float, ...]
    holes: bool = False


def one_over_f(kx: Tensor, ky: Tensor, sigma: Tensor, knee: Tensor) -> Tensor:
    """White noise, and 1/f² noise below a knee: log N."""
    return 2 * torch.log(sigma) + torch.log1p(knee**2 / (kx**2 + ky**2))


KNEE = SpectralNoise(one_over_f, {"sigma": (0.01, 1), "knee": (0.005, 0.5)}, isotropic=True)
CASES = {
    "white": Case(data.chelsea, (40, 120), PowerLawNoise(), (0.15, 0.0)),
    "pink": Case(data.coffee, (60, 250), PowerLawNoise(), (0.1, -0.9)),
    "blue": Case(data.astronaut, (0, 150), PowerLawNoise(), (0.2, 0.9)),
    "knee": Case(data.rocket, (120, 240), KNEE, (0.06, 0.06)),
    "holes": Case(data.camera, (100, 160), PowerLawNoise(), (0.1, 0.0), holes=True),
}


def observe(case: Case) -> tuple[Tensor, Tensor]:
    """x and y = x + ε, (C, H, W); noise is cut from a larger field: its borders do not match."""
    top, left = case.corner
    picture = case.photograph()[top : top + SIZE, left : left + SIZE] / 255.0
    x = torch.from_numpy(picture).reshape(SIZE, SIZE, -1).permute(2, 0, 1)
    wide = case.noise.draw((2 * SIZE, 2 * SIZE), case.truth, channels=len(x), seed=0)[0]
    y = x + wide[:, :SIZE, :SIZE]
    if case.holes:
        rng = np.random.default_rng(0)
        lost = torch.from_numpy(rng.random((SIZE, SIZE)) < 0.2)
        y[:, lost] = torch.nan
    return x, y


def radial(N: Tensor) -> np.ndarray:
    """√N, the mean over rings of |k|: cycles per pixel from 1/32 to 1/2."""
    ky = np.fft.fftfreq(N.shape[-2])[:, None]
    k = np.hypot(ky, np.fft.rfftfreq(SIZE)[None])
    rings = np.digitize(k, np.linspace(1 / 32, 0.5, 24))
    values = N.double().numpy().reshape(-1, *k.shape).mean(0)
    return np.array([np.sqrt(values[rings == i].mean()) for i in range(1, 24)])


def draw(name: str, case: Case, folder: Path) -> str:
    """The figure as a file, and a line about it."""
    x, y = observe(case)
    found = denoise(y, noise=case.noise)
    figure = Figure(figsize=(11, 2.9), layout="constrained")
    axes = figure.subplots(1, 4)
    pictures = {"noisy": y, "found": found.mean}
    for axis, (title, picture) in zip(axes, pictures.items(), strict=False):
        axis.imshow(
            picture.permute(1, 2, 0).clamp(0, 1).nan_to_num(1.0).numpy(),
            cmap="gray",
            vmin=0,
            vmax=1,
        )
        seen = picture if title == "found" or not case.holes else None
        axis.set_title(title if seen is None else f"{title}, {float(psnr(seen, x)):.1f} dB", size=9)
    axes[2].imshow(found.sd.mean(0).numpy(), cmap="magma")
    axes[2].set_title("how unsure", size=9)
    for axis in axes[:3]:
        axis.set_axis_off()
    k = np.linspace(1 / 32, 0.5, 24)
    middle = (k[1:] + k[:-1]) / 2
    true = case.noise.power((SIZE, SIZE), torch.tensor([case.truth], dtype=torch.float64))
    axes[3].plot(middle, radial(true), color="black", lw=1, label="put in")
    axes[3].plot(middle, radial(found.noise_power), "--", color="tab:red", label="found")
    if not case.holes:
        axes[3].plot(middle, radial(power(y - x)), ".", ms=3, color="grey", label="this draw")
    centre = np.sqrt(radial(true).min() * radial(true).max())
    reach = max(3.0, 1.5 * radial(true).max() / centre)
    axes[3].set(yscale="log", xlabel="|k|, cycles per pixel", ylim=(centre / reach, centre * reach))
    axes[3].set_title("√N", size=9)
    axes[3].legend(frameon=False, fontsize=8)
    figure.savefig(folder / f"{name}.jpg", dpi=90, pil_kwargs={"quality": 85})
    rows = ", ".join(f"{r.name} {r.mean:.3f} ± {r.total_sd:.3f}" for r in found.rows)
    gain = f"{float(psnr(found.mean, x)):.2f} dB"
    return f"{name}: truth {case.truth}, found {rows}; {gain}; {found.verdict}"


def main() -> None:
    """All figures, or those that are named."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/images/gallery")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        print(draw(name, CASES[name], folder))


if __name__ == "__main__":
    main()
