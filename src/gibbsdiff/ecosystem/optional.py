"""Packages of extras, imported when they are asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from gibbsdiff.errors import InputError

#: Operators that `import torchvision` names; of a build for another torch they are not there.
OPERATORS = ("nms", "qnms")


def load_deepinv() -> Any:
    """The package, or one line that names the extra.

    It imports torchvision, of which it uses nothing compiled. A torchvision for CUDA beside a torch
    for CPUs alone cannot load its operators, and fails at the first one that it names; so they are
    declared, without code.
    """
    try:
        _let_torchvision_load()
        return import_module("deepinv")
    except ImportError as trouble:
        raise InputError(
            f"deepinv cannot be imported ({trouble}): pip install 'gibbsdiff[deepinv]'"
        ) from None


def _let_torchvision_load() -> None:
    try:
        import_module("torchvision")
    except RuntimeError as trouble:
        if "operator torchvision::" not in str(trouble):
            raise
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in OPERATORS:
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)  # what it declares goes with it
        import_module("torchvision")


_KEPT: list[Any] = []
