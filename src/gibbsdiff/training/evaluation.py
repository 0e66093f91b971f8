"""How good a denoiser is at the true noise parameters: PSNR, loss (6), both likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.signal import wiener
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.noise.families import PowerLawNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams

SIGMA = (0.06, 0.1, 0.2)
PHI = (-1.0, 0.0, 1.0)


class Cell(NamedTuple):
    """Means over the images at one (σ, φ)."""

    sigma: float
    phi: float
    psnr: float
    relative: float
    whitened: float
    pixel: float
    spectral: float

    @property
    def name(self) -> str:
        """A column's heading, as in psnr_0.1_-1."""
        return heading(self.sigma, self.phi)


@torch.no_grad()
def evaluate(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = SIGMA,
    phi: Sequence[float] = PHI,
    batch: int = 5,
    seed: int = 1,
) -> list[Cell]:
    """D(y, N) at the true (σ, φ), for power-law noise on images (B, C, H, W) on [0, 1].

    Image b's noise is keyed by b: a cell does not depend on the batch, nor on other cells.
    """
    cells = []
    for s in sigma:
        for p in phi:
            rows = [
                _scores(denoiser, images[i : i + batch], s, p, seed, i)
                for i in range(0, len(images), batch)
            ]
            psnr, *means = torch.cat(rows, 1).mean(1).tolist()
            cells.append(Cell(s, p, psnr, *means))
    return cells


def summary(cells: Sequence[Cell]) -> dict[str, float]:
    """PSNR of every cell, and the means over cells."""
    row = {cell.name: cell.psnr for cell in cells}
    for name in ("psnr", "relative", "whitened", "pixel", "spectral"):
        row[name] = sum(getattr(cell, name) for cell in cells) / len(cells)
    return row


@torch.no_grad()
def psnr_table(
    denoiser: Denoiser,
    images: Tensor,
    sigma: Sequence[float] = SIGMA,
    phi: Sequence[float | tuple[float, ...]] = PHI,
    batch: int = 5,
    seed: int = 1,
    device: torch.device | str = "cpu",
    family: StationaryNoise | None = None,
) -> dict[str, float]:
    """PSNR of D(y, N) at the true (σ, φ) in every cell, and the mean over cells, as `evaluate`."""
    table = {}
    for s in sigma:
        for p in phi:
            errors = []
            for i in range(0, len(images), batch):
                x = images[i : i + batch]
                y, noise = observed(x, s, p, seed, i, family)
                mean = denoiser(y.to(device), noise.to(device)).mean
                errors.append((mean - x.to(mean)).square().mean((1, 2, 3)).double())
            table[heading(s, p)] = float(-10 * torch.log10(torch.cat(errors)).mean())
    return {**table, "psnr": sum(table.values()) / len(table)}


def cell_name(sigma: float, phi: float | tuple[float, ...]) -> str:
    """The ending of a column, as in psnr_0.1_-1 or gain_0.5_67.4_0.0224."""
    rest = phi if isinstance(phi, tuple) else (phi,)
    return "_".join(f"{v:g}" for v in (sigma, *rest))


def heading(sigma: float, phi: float | tuple[float, ...]) -> str:
    """A column's heading, as in psnr_0.1_-1."""
    return f"psnr_{cell_name(sigma, phi)}"


def observed(
    images: Tensor,
    sigma: float,
    phi: float | tuple[float, ...],
    seed: int,
    first: int = 0,
    family: StationaryNoise | None = None,
) -> tuple[Tensor, SpectralCovariance]:
    """y = x + ε and the covariance of ε; row b's noise is keyed by first + b.

    The noise is a power law with the slope φ, or of a `family` whose parameters are (σ, *φ).
    """
    shape = (images.shape[-2], images.shape[-1])
    parameters = parameters_of(sigma, phi, len(images))
    noise = (family or PowerLawNoise()).covariance(shape, parameters, images.dtype)
    rng = Streams(seed, [(first + i,) for i in range(len(images))])
    return images + noise.draw(rng, images.shape[1]), noise


def parameters_of(sigma: float, phi: float | tuple[float, ...], count: int) -> Tensor:
    """(count, d): σ, then φ, the same for all."""
    values = [sigma, *phi] if isinstance(phi, tuple) else [sigma, phi]
    return torch.tensor([values], dtype=torch.float64).expand(count, -1)


def _scores(
    denoiser: SpectralDenoiser, x: Tensor, sigma: float, phi: float, seed: int, first: int
) -> Tensor:
    """PSNR and the losses per image: (5, B)."""
    y, noise = observed(x, sigma, phi, seed, first)
    device = next(denoiser.parameters()).device
    x, y, noise = x.to(device), y.to(device), noise.to(device)
    found = losses(denoiser, x, y, noise)
    # Loss (6) is the squared error over mean V: one call serves both figures.
    V = wiener(denoiser.signal.power(noise.shape).to(x), noise.power).V
    error = found.relative * half_plane(noise.shape).mean(V.flatten(2)).mean((1, 2))
    psnr = -10 * torch.log10(error)
    return torch.stack([row.double() for row in (psnr, *found)])
