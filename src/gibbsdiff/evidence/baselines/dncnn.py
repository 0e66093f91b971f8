"""DnCNN, the colour-blind model: one network for white noise of any level, Zhang et al. (2017)."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines.interface import one_image
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.pretrained import fill

DEPTH, WIDTH, COLOURS = 20, 64, 3


class DnCNN(nn.Module):
    """x̂ = y - R(y): R is 20 convolutions of 3×3 with bias, 64 channels, ReLU in between.

    A `Baseline`: told nothing, `noise` is ignored. It was trained on white noise alone.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = [COLOURS, *[WIDTH] * (DEPTH - 1), COLOURS]
        layers: list[nn.Module] = []
        for inward, outward in pairwise(widths):
            layers += [nn.Conv2d(inward, outward, 3, padding=1), nn.ReLU(inplace=True)]
        self.model = nn.Sequential(*layers[:-1])

    @torch.no_grad()
    def forward(self, y: Tensor, noise: SpectralCovariance | None = None) -> Tensor:
        """The estimate of x for one RGB image (3, H, W) on [0, 1]; it is not clipped."""
        image = one_image(y)
        if image.shape[0] != COLOURS:
            raise InputError("DnCNN's colour-blind model takes RGB, not a grey image")
        first = image[None].to(next(self.parameters()))
        residual: Tensor = self.model(first)[0]
        return image - residual.to(image)


def load_dncnn(path: str | Path) -> DnCNN:
    """The network with the weights of a file: safetensors, or KAIR's `.pth`.

    Both have the keys `model.0.weight`, `model.0.bias`, `model.2.weight`, … `model.38.bias`.
    Of a `.pth` only tensors are read: a pickle that wants to run code is refused.
    """
    network = DnCNN()
    tensors = _tensors(Path(path))
    unknown = sorted(set(tensors) - set(network.state_dict()))
    if unknown:
        raise InputError(f"{path}: not DnCNN's colour-blind model, it has the weight {unknown[0]}")
    fill(network, {f"network.{key}": value for key, value in tensors.items()}, Path(path))
    return network.eval().requires_grad_(False)


def _tensors(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        with warnings.catch_warnings():
            # A pickle of another protocol is warned about before it is refused; one line will do.
            warnings.simplefilter("ignore")
            found: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(f"{path}: refused, it is no plain file of tensors") from None
    except (SafetensorError, OSError, EOFError, RuntimeError, ValueError, KeyError) as trouble:
        reason = " ".join(str(trouble).split())[:200]
        raise InputError(f"{path}: not readable as weights ({reason})") from None
    if not isinstance(found, Mapping) or not all(isinstance(v, Tensor) for v in found.values()):
        raise InputError(f"{path}: not a dictionary of weights")
    return {str(key): value for key, value in found.items()}
