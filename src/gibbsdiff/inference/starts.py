r"""Where a search or a chain may start: the noise's spectrum guessed from y alone.

The paper starts σ by a linear regression on y, fitted on held-out images, and φ from the prior.
Here the descriptor of eq. (5), ½ log N at eight frequencies, is regressed on the logarithm of y's
own power around these frequencies. Any family then starts at the φ whose descriptor is nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, between_references, half_plane, power, to_opponent
from gibbsdiff.inference.observation import stationary, taper
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams

LOWEST = 2  # of the eight frequencies: below, photographs outshine the noise
MARGIN = 0.3
CANDIDATES = 2048
STEPS = 12


@dataclass(frozen=True)
class Regression:
    """Descriptor ≈ features(y) @ weight, for pictures of some number of channels.

    `weight` (features, 8), and `sd` (8,), what it missed by on the images it was fitted on.
    """

    weight: Tensor
    sd: Tensor

    def descriptor(self, y: Tensor) -> Tensor:
        """½ log N at the reference frequencies: (B, C, H, W) -> (B, 8).

        The noise cannot have much more power than y has, in any channel.
        """
        descriptor = features(y) @ self.weight
        most = log_powers(y).amin(1) + MARGIN
        descriptor[:, LOWEST:] = torch.minimum(descriptor[:, LOWEST:], most)
        return descriptor

    @classmethod
    def fit(cls, x: Tensor, descriptor: Tensor, ridge: float = 1e-2) -> Regression:
        """Ridge regression of descriptors (n, 8) on features x (n, f)."""
        normal = x.T @ x + ridge * torch.eye(x.shape[1], dtype=x.dtype)
        weight = torch.linalg.solve(normal, x.T @ descriptor)
        return cls(weight, (x @ weight - descriptor).std(0))


def features(y: Tensor) -> Tensor:
    """1, the log-powers less their centre, and their products: (B, features)."""
    p = log_powers(y).flatten(1) + 2.0
    first, second = torch.triu_indices(p.shape[1], p.shape[1])
    return torch.cat([torch.ones_like(p[:, :1]), p, p[:, first] * p[:, second]], 1)


def log_powers(y: Tensor) -> Tensor:
    """½ log of y's power around each reference frequency but the two lowest: (B, C, 6).

    The picture is tapered: its borders need not match.
    """
    shape = (y.shape[-2], y.shape[-1])
    w = taper(shape).to(y)
    mean = (w * y).sum((-2, -1), keepdim=True) / w.sum()
    P = power(to_opponent((y - mean) * w)).flatten(2).double() / float(w.square().mean())
    hats = (between_references(shape) * half_plane(shape).weight)[LOWEST:]
    level = (P @ hats.T) / hats.sum(1).clamp(min=1e-12)
    # A small picture has no mode near the lowest frequencies: they repeat the next one.
    for j in range(len(hats) - 2, -1, -1):
        if float(hats[j].sum()) < 1:
            level[..., j] = level[..., j + 1]
    return 0.5 * torch.log(level.clamp(min=1e-12))


def regression_start(y: Tensor, noise: NoiseModel) -> Tensor:
    """φ (B, d) from y alone, inside the prior box."""
    shape = (y.shape[-2], y.shape[-1])
    regression = fitted(y.shape[1])
    target = regression.descriptor(y)[:, None]
    return nearest(stationary(noise), shape, target, regression.sd)


def nearest(noise: StationaryNoise, shape: Shape, descriptor: Tensor, sd: Tensor) -> Tensor:
    """The φ whose descriptor is nearest, frequencies weighted by 1/sd²: (B, 1 or R, 8) -> (B, d).
    One row is the aim of all spectra.

    The best of many draws of the prior, then Gauss-Newton inside the box.
    """
    width = noise.high - noise.low

    def scaled(u: Tensor) -> Tensor:
        return (noise.descriptor(shape, noise.low + u * width) / sd).flatten(1)

    candidates = Streams(0, [(0,)]).uniform(CANDIDATES, len(width))[0]
    target = (descriptor / sd).expand(-1, noise.spectra, -1).flatten(1)
    best = torch.cdist(target, scaled(candidates)).argmin(1)
    u = candidates[best]
    h = 1e-4
    for _ in range(STEPS):
        here = scaled(u)
        columns = []
        for i in range(len(width)):
            side = torch.where(u[:, i] > 0.5, -h, h)
            moved = u.clone()
            moved[:, i] += side
            columns.append((scaled(moved) - here) / side[:, None])
        J = torch.stack(columns, -1)
        ridge = 1e-3 * torch.eye(len(width), dtype=torch.float64)
        step = torch.linalg.solve(J.mT @ J + ridge, (J.mT @ (target - here)[..., None])[..., 0])
        moved = (u + step.clamp(-0.2, 0.2)).clamp(0, 1)
        better = (scaled(moved) - target).norm(dim=1) < (here - target).norm(dim=1)
        u = torch.where(better[:, None], moved, u)
    return torch.minimum(noise.low + u * width, noise.high)


def spread(mean: Tensor, covariance: Tensor, noise: NoiseModel, rng: Streams) -> Tensor:
    """Over-dispersed starts, one for each stream: N(mean, 4 Cov) inside the prior box, (B, d)."""
    factor = torch.linalg.cholesky(covariance)
    z = 2 * rng.normal(mean.shape[-1])
    return (mean + (factor @ z[..., None])[..., 0]).clamp(noise.low, noise.high)


def paper_starts(y: Tensor, noise: NoiseModel, rng: Streams) -> Tensor:
    """As the paper starts chains on pictures: σ by the regression on y (1, C, H, W), the rest from
    the prior; one row for each stream, (B, d).
    """
    starts, amplitude = noise.draw_prior(rng), stationary(noise).amplitude
    if amplitude in noise.names:
        column = noise.names.index(amplitude)
        starts[:, column] = regression_start(y, noise)[:, column]
    return starts


def save_regressions(path: str | Path, by_channels: dict[int, Regression]) -> None:
    """Write the regressions, one for each number of channels."""
    arrays = {}
    for channels, r in by_channels.items():
        arrays[f"weight{channels}"] = r.weight.float().numpy()
        arrays[f"sd{channels}"] = r.sd.float().numpy()
    np.savez_compressed(path, allow_pickle=False, **arrays)


@lru_cache(maxsize=4)
def fitted(channels: int) -> Regression:
    """The regression in the package for grey (1) or colour (3) pictures."""
    with np.load(str(resources.files("gibbsdiff.pretrained") / "start.npz")) as file:
        if f"weight{channels}" not in file:
            raise InputError(f"no start is known for pictures of {channels} channels")
        weight, sd = (torch.from_numpy(file[f"{n}{channels}"]) for n in ("weight", "sd"))
    return Regression(weight.double(), sd.double())
