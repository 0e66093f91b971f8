"""The demonstration: noise is added to a photograph, and both are found from the sum alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from skimage import data
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.denoise import denoise
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.progress import Progress
from gibbsdiff.metrics import psnr
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams

PICTURES = ("astronaut", "coffee", "chelsea", "rocket")
CALLS, DRAWS = 8, 10  # of Gibbs: enough to see the chains agree, in a minute or two


@dataclass(frozen=True)
class Demo:
    """The clean picture x, the noisy one y, and the posterior of each method that ran."""

    x: Tensor
    y: Tensor
    marginal: Posterior
    gibbs: Posterior | None

    def psnr_lines(self) -> list[str]:
        """PSNR of the noisy picture and of the posterior means, a line each."""
        lines = [f"PSNR of the noisy picture   {psnr(self.y, self.x):5.2f} dB"]
        lines += [
            f"PSNR of the mean, {name:<9} {psnr(p.mean, self.x):5.2f} dB"
            for name, p in (("marginal", self.marginal), ("gibbs", self.gibbs))
            if p is not None
        ]
        return lines


def photograph(name: str, size: int) -> Tensor:
    """A crop of one of scikit-image's photographs at half its size: (3, size, size)."""
    if name not in PICTURES:
        raise InputError(f"picture {name!r}: there are {', '.join(PICTURES)}")
    x = torch.from_numpy(getattr(data, name)().copy()).permute(2, 0, 1)[None].float() / 255
    x = torch.nn.functional.avg_pool2d(x, 2)[0]
    most = min(x.shape[-2:])
    if not 32 <= size <= most:
        raise InputError(f"size: {size} pixels; {name} has crops of 32 to {most}")
    left = (x.shape[-1] - size) // 2
    return x[:, :size, left : left + size]


def observe(picture: str, sigma: float, phi: float, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """x and y = x + ε with power-law noise ε, cut from a larger field: its borders do not match."""
    family = PowerLawNoise()
    truth = family.check([sigma, phi])
    x = photograph(picture, size)
    wide = family.draw((2 * size, 2 * size), truth, Streams(seed, [(0,)]), 3, torch.float32)
    return x, x + wide[0, :, :size, :size]


def demonstrate(
    x: Tensor,
    y: Tensor,
    truth: tuple[float, float],
    seed: int,
    *,
    chains: int,
    progress: bool | Progress = False,
    device: str = "cpu",
) -> Demo:
    """The marginal method on y, and Gibbs if there are to be chains. Both are blind: x and the true
    (σ, φ) are for the figures alone.
    """
    found = denoise(y, method="marginal", seed=seed, device=device, progress=progress)
    gibbs = None
    if chains and not found.interrupted:
        gibbs = denoise(
            y,
            method="gibbs",
            chains=chains,
            draws=DRAWS,
            calls=CALLS,
            seed=seed,
            device=device,
            progress=progress,
        )
    return Demo(x, y, found.with_truth(truth), None if gibbs is None else gibbs.with_truth(truth))


def write(demo: Demo, folder: Path, title: str) -> list[Path]:
    """The marginal method's report, and the figures of the Gibbs chains, as files in the folder."""
    files = [folder / "report.png"]
    demo.marginal.plot(files[0], kind="report", title=title)
    if demo.gibbs is not None:
        files.append(folder / "gibbs.png")
        demo.gibbs.plot(files[1])
    return files
