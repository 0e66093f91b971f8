"""Models in files: weights, architecture, signal, calibration and card in one safetensors.

Weights are stored as fp16 by default, and are fp32 in memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.signal import PowerLawSignal, TabulatedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.networks.unet import UNet

Module = TypeVar("Module", bound=nn.Module)

FORMAT = "gibbsdiff-1"
SUFFIX = ".safetensors"


def available() -> list[str]:
    """Names of the models inside the package."""
    here = resources.files(__name__)
    return sorted(p.name.removesuffix(SUFFIX) for p in here.iterdir() if p.name.endswith(SUFFIX))


def load_model(name: str | Path) -> SpectralDenoiser:
    """A denoiser, ready to use: a model of the package by name, or a file by path."""
    path = find(name)
    metadata, tensors = open_file(path)
    try:
        network = UNet(**json.loads(metadata["architecture"]))
        spectrum = signal_of(json.loads(metadata["signal"]))
    except (KeyError, TypeError, ValueError) as trouble:
        raise InputError(f"{path}: its description is damaged ({trouble})") from None
    fill(network, tensors, path)
    denoiser = SpectralDenoiser(network, spectrum, _calibration(tensors, path))
    return channels_last(denoiser).eval().requires_grad_(False)


def read_card(name: str | Path) -> dict[str, Any]:
    """The card that a model of any kind was saved with."""
    path = find(name)
    try:
        card: dict[str, Any] = json.loads(describe(path)["card"])
    except (KeyError, ValueError) as trouble:
        raise InputError(f"{path}: its description is damaged ({trouble})") from None
    return card


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


def channels_last(denoiser: Module) -> Module:
    """The same denoiser, its convolutions laid out as CPUs like them."""
    module: nn.Module = denoiser
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return denoiser


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
        "padding": network.padding,
    }


def _tables(calibration: Calibration | None) -> dict[str, Tensor]:
    if calibration is None:
        return {}
    c = calibration
    found = {"log_c": c.log_c, "correlation": c.scatter, "gain": c.gain}
    return {
        f"calibration.{name}": table.float().contiguous()
        for name, table in found.items()
        if table is not None
    }


def _calibration(tensors: Mapping[str, Tensor], path: Path) -> Calibration | None:
    log_c, gain, scatter = (
        tensors[key].double() if (key := f"calibration.{name}") in tensors else None
        for name in ("log_c", "gain", "correlation")
    )
    if log_c is None:
        return None
    if scatter is None:
        raise InputError(
            f"{path}: calibrated by an older version; calibrate the trained file again"
        )
    return Calibration(log_c, scatter, gain)


def signal_of(fields: Mapping[str, Any]) -> PowerLawSignal | TabulatedSignal:
    """The signal whose fields were stored."""
    if "log_power" in fields:
        rows = tuple(tuple(row) for row in fields["log_power"])
        return TabulatedSignal(tuple(fields["log_k"]), rows, fields["mean"])
    return PowerLawSignal(tuple(fields["amplitude"]), tuple(fields["slope"]), fields["mean"])


def find(name: str | Path) -> Path:
    """The file of a model of the package, by name, or the file given."""
    packaged = Path(str(resources.files(__name__))) / f"{name}{SUFFIX}"
    if isinstance(name, str) and name in available():
        return packaged
    path = Path(name)
    if path.is_file():
        return path
    known = ", ".join(available()) or "none"
    raise InputError(f"{name}: neither a file nor a model of this package (there are: {known})")


def describe(path: Path) -> dict[str, str]:
    """What a model file of any kind says of itself; its `format` is the kind."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
    except (SafetensorError, OSError) as trouble:
        reason = " ".join(str(trouble).split())
        raise InputError(f"{path}: not a safetensors file ({reason})") from None
    if not metadata.get("format", "").startswith("gibbsdiff-"):
        raise InputError(f"{path}: a safetensors file, but not a model of this package")
    return metadata


def open_file(path: Path, form: str = FORMAT) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The description and the tensors of a model file of some format."""
    metadata = describe(path)
    if metadata["format"] != form:
        raise InputError(f"{path}: not a model of this kind: {metadata['format']}, not {form}")
    with safe_open(path, framework="pt") as file:
        return metadata, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def fill(network: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy the weights in, naming the first one that does not fit."""
    own = network.state_dict()
    for key, value in own.items():
        given = tensors.get(f"network.{key}")
        if given is None:
            raise InputError(f"{path}: the weight {key} is missing")
        if given.shape != value.shape:
            raise InputError(
                f"{path}: the weight {key} has shape {tuple(given.shape)}, "
                f"its architecture needs {tuple(value.shape)}"
            )
    network.load_state_dict({key: tensors[f"network.{key}"].float() for key in own})
