"""Models in files: weights, architecture, signal, calibration and card in one safetensors.

Weights are stored as fp16 by default, and are fp32 in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import Denoiser, NoiseError
from gibbsdiff.diffusion.signal import PowerLawSignal, TabulatedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.networks.unet import UNet
from gibbsdiff.pretrained.epsilon import FORMAT as EPSILON
from gibbsdiff.pretrained.epsilon import load_authors, load_epsilon
from gibbsdiff.pretrained.files import (
    available,
    channels_last,
    fill,
    find,
    foreign,
    format_of,
    is_checkpoint,
    metadata_of,
    open_file,
)

__all__ = [
    "architecture",
    "available",
    "channels_last",
    "fill",
    "find",
    "format_of",
    "load_for_pictures",
    "load_model",
    "load_spectral",
    "read_card",
    "save_model",
    "signal_of",
]

FORMAT = "gibbsdiff-1"

#: Fields of a calibration that are a bias and a scatter.
NOISE_ERRORS = ("weighted", "camera", "camera_weighted")


def load_model(name: str | Path) -> Denoiser:
    """A denoiser, ready to use: a model of the package by name, or a file by path.

    A file may be one of `save_model`, one of the paper's models as `gibbsdiff train` writes them,
    or a checkpoint of the paper's authors: which it is, is seen in the file.
    """
    path = find(name)
    if is_checkpoint(path):
        return load_authors(path)
    if format_of(path) == EPSILON:
        return load_epsilon(path)
    return load_spectral(path)


def load_spectral(name: str | Path) -> SpectralDenoiser:
    """As `load_model`, of the package's own kind alone: others are refused."""
    path = find(name)
    if is_checkpoint(path):
        raise InputError(f"{path}: a checkpoint of PyTorch; a model of this package is needed")
    if format_of(path) == EPSILON:
        raise InputError(f"{path}: a model of the paper's kind, which has no model of its error")
    metadata, tensors = open_file(path, FORMAT)
    try:
        network = UNet(**json.loads(metadata["architecture"]))
        spectrum = signal_of(json.loads(metadata["signal"]))
    except (KeyError, TypeError, ValueError) as trouble:
        raise InputError(f"{path}: its description is damaged ({trouble})") from None
    fill(network, tensors, path)
    denoiser = SpectralDenoiser(network, spectrum, _calibration(tensors, path))
    return channels_last(denoiser).eval().requires_grad_(False)


def load_for_pictures(name: str | Path) -> Denoiser:
    """As `load_model`, but a model of dust maps is refused: it knows the CMB alone."""
    if "maps" in read_card(name):
        raise InputError(f"{name}: a model of dust maps, not of pictures")
    found = load_model(name)
    found.pictures = True
    return found


def read_card(name: str | Path) -> dict[str, Any]:
    """The card that a model was saved with; that of a foreign checkpoint is empty."""
    path = find(name)
    if is_checkpoint(path):
        return {}
    metadata = metadata_of(path)
    if metadata.get("format") not in (FORMAT, EPSILON):
        raise foreign(path)
    try:
        return dict(json.loads(metadata["card"]))
    except (KeyError, TypeError, ValueError) as trouble:
        raise InputError(f"{path}: its description is damaged ({trouble})") from None


def save_model(
    denoiser: SpectralDenoiser,
    path: str | Path,
    card: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a denoiser and its card; a reader never sees half a file."""
    signal = denoiser.signal
    if not isinstance(signal, PowerLawSignal | TabulatedSignal):
        raise InputError(f"{path}: only a power-law or a tabulated signal can be saved")
    tensors = {
        f"network.{key}": value.detach().to(dtype).contiguous()
        for key, value in denoiser.network.state_dict().items()
    }
    tensors |= _tables(denoiser.calibration)
    metadata = {
        "format": FORMAT,
        "architecture": json.dumps(architecture(denoiser.network)),
        "signal": json.dumps(asdict(signal)),
        "card": json.dumps(dict(card or {})),
    }
    write_atomically(path, save(tensors, metadata))


def architecture(network: UNet) -> dict[str, Any]:
    """The arguments that make a U-Net of this shape."""
    first = network.embed[0]
    assert isinstance(first, nn.Linear)
    lower = [down.out_channels for down in network.down if isinstance(down, nn.Conv2d)]
    levels = [*network.descent, network.bottom]
    return {
        "channels": network.channels,
        "widths": [network.inputs.out_channels, *lower],
        "blocks": [len(list(level.children())) for level in levels],
        "embedding": first.out_features,
        "descriptor": network.descriptor,
        "told": network.told,
        "level_plane": network.level_plane,
        "padding": network.padding,
    }


def _tables(calibration: Calibration | None) -> dict[str, Tensor]:
    if calibration is None:
        return {}
    c = calibration
    found = {"log_c": c.log_c, "correlation": c.scatter, "gain": c.gain, "bias": c.bias}
    for name in NOISE_ERRORS:
        known: NoiseError | None = getattr(c, name)
        if known is not None:
            found |= {f"{name}_bias": known.bias, f"{name}_correlation": known.scatter}
    return {
        f"calibration.{name}": table.float().contiguous()
        for name, table in found.items()
        if table is not None
    }


def _calibration(tensors: Mapping[str, Tensor], path: Path) -> Calibration | None:
    def table(name: str) -> Tensor | None:
        found = tensors.get(f"calibration.{name}")
        return None if found is None else found.double()

    log_c, scatter = table("log_c"), table("correlation")
    if log_c is None:
        return None
    if scatter is None:
        raise InputError(
            f"{path}: calibrated by an older version; calibrate the trained file again"
        )
    measured = {}
    for name in NOISE_ERRORS:
        mean, around = table(f"{name}_bias"), table(f"{name}_correlation")
        if mean is not None and around is not None:
            measured[name] = NoiseError(mean, around)
    return Calibration(log_c, scatter, table("gain"), table("bias"), **measured)


def signal_of(fields: Mapping[str, Any]) -> PowerLawSignal | TabulatedSignal:
    """The signal whose fields were stored."""
    if "log_power" in fields:
        rows = tuple(tuple(row) for row in fields["log_power"])
        return TabulatedSignal(tuple(fields["log_k"]), rows, fields["mean"])
    return PowerLawSignal(tuple(fields["amplitude"]), tuple(fields["slope"]), fields["mean"])
