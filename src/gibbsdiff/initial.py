r"""Where a search or a chain may start: the noise's spectrum guessed from y alone.

The paper starts σ by a linear regression on y, fitted on held-out images, and φ from the prior.
Here the descriptor of eq. (5), ½ log N at eight frequencies, is regressed on the logarithm of y's
own power around these frequencies. Any family then starts at the φ whose descriptor is nearest.

Maps of dust under the CMB start at E[φ | y] as a moment network tells it.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, between_references, half_plane, power, to_opponent
from gibbsdiff.networks.moments import MomentNetwork, Moments
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.scales import BANDS, local_power, log_spectrum
from gibbsdiff.streams import Streams
from gibbsdiff.view import taper

LOWEST = 2  # of the eight frequencies: below, photographs outshine the noise
MARGIN = 0.3
CANDIDATES = 2048
STEPS = 12
_DAMAGE = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile)


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
        told = features(y) @ self.weight
        most = log_powers(y).amin(1) + MARGIN
        told[:, LOWEST:] = torch.minimum(told[:, LOWEST:], most)
        return told

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
    """½ log of y's power around each reference frequency but the lowest: (B, C, 6).

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


def regression_start(y: Tensor, noise: StationaryNoise) -> Tensor:
    """φ (B, d) from y alone, inside the prior box."""
    shape = (y.shape[-2], y.shape[-1])
    regression = fitted(y.shape[1])
    return nearest(noise, shape, regression.descriptor(y), regression.sd)


def nearest(noise: StationaryNoise, shape: Shape, descriptor: Tensor, sd: Tensor) -> Tensor:
    """The φ whose descriptor is nearest, frequencies weighted by 1/sd²: (B, 8) -> (B, d).

    The best of many draws of the prior, then Gauss-Newton inside the box.
    """
    width = noise.high - noise.low

    def told(u: Tensor) -> Tensor:
        return noise.descriptor(shape, noise.low + u * width) / sd

    candidates = Streams(0, [(0,)]).uniform(CANDIDATES, len(width))[0]
    target = descriptor / sd
    best = torch.cdist(target, told(candidates)).argmin(1)
    u = candidates[best]
    h = 1e-4
    for _ in range(STEPS):
        here = told(u)
        columns = []
        for i in range(len(width)):
            side = torch.where(u[:, i] > 0.5, -h, h)
            moved = u.clone()
            moved[:, i] += side
            columns.append((told(moved) - here) / side[:, None])
        J = torch.stack(columns, -1)
        ridge = 1e-3 * torch.eye(len(width), dtype=torch.float64)
        step = torch.linalg.solve(J.mT @ J + ridge, (J.mT @ (target - here)[..., None])[..., 0])
        moved = (u + step.clamp(-0.2, 0.2)).clamp(0, 1)
        better = (told(moved) - target).norm(dim=1) < (here - target).norm(dim=1)
        u = torch.where(better[:, None], moved, u)
    return torch.minimum(noise.low + u * width, noise.high)


def spread(mean: Tensor, covariance: Tensor, noise: StationaryNoise, rng: Streams) -> Tensor:
    """Over-dispersed starts, one for each stream: N(mean, 4 Cov) inside the prior box, (B, d)."""
    factor = torch.linalg.cholesky(covariance)
    z = 2 * rng.normal(mean.shape[-1])
    return (mean + (factor @ z[..., None])[..., 0]).clamp(noise.low, noise.high)


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


@dataclass(frozen=True)
class MomentStart:
    """E[φ | y] and the spread of φ | y, by a moment network for maps of one side.

    `names`, `low` and `high` are the noise parameters and the prior box that it was trained for.
    """

    network: MomentNetwork
    side: int
    names: tuple[str, ...]
    low: Tensor
    high: Tensor

    @torch.no_grad()
    def moments(self, y: Tensor) -> Moments:
        """The mean and the spread of u = (φ - low)/(high - low), as told, for (B, 1, H, W)."""
        if y.shape[-3:] != (1, self.side, self.side):
            raise InputError(
                f"moments: maps of {self.side}×{self.side} are known, not {tuple(y.shape[-3:])}"
            )
        y = y.float()
        return self.network(log_spectrum(y), local_power(y, self.network.centre))

    def start(self, y: Tensor) -> Tensor:
        """E[φ | y] projected into the prior box: (B, d)."""
        u = self.moments(y).mean.double().clamp(0, 1)
        return torch.minimum(self.low + u * (self.high - self.low), self.high)

    def covariance(self, y: Tensor) -> Tensor:
        """Cov[φ | y]: (B, d, d)."""
        width = self.high - self.low
        return self.moments(y).covariance.double() * width[:, None] * width

    def fits(self, noise: StationaryNoise) -> bool:
        """Whether it was trained for these parameters and this prior box."""
        same = noise.names == self.names
        return same and torch.equal(noise.low, self.low) and torch.equal(noise.high, self.high)


def new_moments(side: int, noise: StationaryNoise) -> MomentStart:
    """An untrained one."""
    rings = log_spectrum(torch.ones(1, 1, side, side)).shape[1]
    network = MomentNetwork(rings, len(BANDS), len(noise.names))
    return MomentStart(network, side, noise.names, noise.low, noise.high)


def moments_bytes(start: MomentStart) -> bytes:
    """A moment network as an npz file; its weights are float16."""
    state = start.network.state_dict()
    arrays = {f"network.{key}": v.numpy().astype(np.float16) for key, v in state.items()}
    arrays |= {"names": np.array(start.names), "side": np.array(start.side)}
    arrays |= {"low": start.low.numpy(), "high": start.high.numpy()}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_moments(path: str | Path) -> MomentStart:
    """The moment network of an npz file, ready to use."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {key: torch.from_numpy(file[key]) for key in file.files if key != "names"}
            names = tuple(str(name) for name in file["names"])
        state = {k.removeprefix("network."): v.float() for k, v in found.items() if "." in k}
        rings, d = len(state["centre"]), len(names)
        width, bands = state["inputs.weight"].shape[:2]
        network = MomentNetwork(rings, bands, d, width, len(state["body.0.bias"]))
        network.load_state_dict(state)
        start = MomentStart(network, int(found["side"]), names, found["low"], found["high"])
        start.moments(torch.ones(1, 1, start.side, start.side))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except _DAMAGE as trouble:
        reason = " ".join(str(trouble).split())[:100]
        raise InputError(f"{path}: not a file of a moment network ({reason})") from None
    network.eval().requires_grad_(False)
    return start
