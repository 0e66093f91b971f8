"""Where a search on dust under the CMB starts: E[φ | y] predicted by a moment network."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.cosmo.local_spectra import BANDS, local_power, log_spectrum
from gibbsdiff.errors import InputError
from gibbsdiff.networks.moment_cnn import MomentCNN
from gibbsdiff.networks.moments import MomentModel, MomentNetwork, Moments
from gibbsdiff.noise.stationary import StationaryNoise

#: Ours, or the paper's convolutional network.
Kind = Literal["ours", "paper"]

_DAMAGE = (OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile)


@dataclass(frozen=True)
class MomentStart:
    """E[φ | y] and the spread of φ | y, by a moment network for maps of one side.

    `names`, `low` and `high` are the noise parameters and the prior box that it was trained for.
    """

    network: MomentModel
    side: int
    names: tuple[str, ...]
    low: Tensor
    high: Tensor

    @torch.no_grad()
    def moments(self, y: Tensor) -> Moments:
        """The mean and the spread of u = (φ - low)/(high - low) for maps y (B, 1, H, W)."""
        if y.shape[-3:] != (1, self.side, self.side):
            raise InputError(
                f"moments: maps of {self.side}×{self.side} are known, not {tuple(y.shape[-3:])}"
            )
        found: Moments = self.network(*views(self.network, y.float()))
        return found

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


def views(network: MomentModel, y: Tensor) -> tuple[Tensor, ...]:
    """What a network takes of y: the paper's all of it, ours its log-power in rings and its local
    log-power in bands.
    """
    if isinstance(network, MomentNetwork):
        return log_spectrum(y), local_power(y, network.centre.cpu())
    return (y,)


def new_moments(side: int, noise: StationaryNoise, kind: Kind = "ours") -> MomentStart:
    """An untrained moment network for maps of a side: it predicts the middle of the prior box."""
    network: MomentModel
    if kind == "paper":
        network = MomentCNN(len(noise.names))
    else:
        rings = log_spectrum(torch.ones(1, 1, side, side)).shape[1]
        network = MomentNetwork(rings, len(BANDS), len(noise.names))
    return MomentStart(network, side, noise.names, noise.low, noise.high)


def _network_of(state: Mapping[str, Tensor], parameters: int) -> MomentModel:
    """The network of either kind that has these weights."""
    network: MomentModel
    if "factor" in state:
        network = MomentCNN(parameters, MomentCNN.widths_of(state))
    else:
        width, bands = state["inputs.weight"].shape[:2]
        hidden = len(state["body.0.bias"])
        network = MomentNetwork(len(state["centre"]), bands, parameters, width, hidden)
    network.load_state_dict(state)
    return network


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
        network = _network_of(state, len(names))
        start = MomentStart(network, int(found["side"]), names, found["low"], found["high"])
        start.moments(torch.ones(1, 1, start.side, start.side))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except _DAMAGE as trouble:
        reason = " ".join(str(trouble).split())[:100]
        raise InputError(f"{path}: not a file of a moment network ({reason})") from None
    network.eval().requires_grad_(False)
    return start
