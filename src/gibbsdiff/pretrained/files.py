"""Model files by name or path, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from gibbsdiff.errors import InputError

Module = TypeVar("Module", bound=nn.Module)

SUFFIX = ".safetensors"
CHECKPOINTS = (".ckpt", ".pt", ".pth")
ARCHIVE, PICKLE = b"PK\x03\x04", b"\x80"  # what a file of torch.save begins with, new and old


def available() -> list[str]:
    """Names of the models inside the package."""
    here = resources.files(__package__)
    return sorted(p.name.removesuffix(SUFFIX) for p in here.iterdir() if p.name.endswith(SUFFIX))


def find(name: str | Path) -> Path:
    """The file of a model of the package, by name, or the file given."""
    packaged = Path(str(resources.files(__package__))) / f"{name}{SUFFIX}"
    if isinstance(name, str) and name in available():
        return packaged
    path = Path(name)
    if path.is_file():
        return path
    known = ", ".join(available()) or "none"
    raise InputError(f"{name}: neither a file nor a model of this package (there are: {known})")


def is_checkpoint(path: Path) -> bool:
    """Whether it is a file of torch.save, by its first bytes, or is called one by its name."""
    with path.open("rb") as file:
        first = file.read(9)
    if first[8:] == b"{":  # a safetensors file, after the length of its description
        return False
    return first.startswith((ARCHIVE, PICKLE)) or path.suffix in CHECKPOINTS


def format_of(path: Path) -> str:
    """The format that a safetensors file says it has; "" if it says nothing."""
    return metadata_of(path).get("format", "")


def metadata_of(path: Path) -> dict[str, str]:
    """The description in a safetensors file; its tensors are not read."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError) as trouble:
        raise _unreadable(path, trouble) from None


def open_file(path: Path, form: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The description and the tensors of a model file of some format."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            if metadata.get("format") != form:
                raise foreign(path)
            return metadata, {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as trouble:
        raise _unreadable(path, trouble) from None


def foreign(path: Path) -> InputError:
    """What is wrong with a safetensors file of another program."""
    return InputError(f"{path}: a safetensors file, but not a model of this package")


def _unreadable(path: Path, trouble: Exception) -> InputError:
    return InputError(f"{path}: not a safetensors file ({' '.join(str(trouble).split())})")


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


def channels_last(denoiser: Module) -> Module:
    """The same denoiser, its convolutions laid out as CPUs like them."""
    module: nn.Module = denoiser
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return denoiser
