"""Checks on what comes from outside: one clear line that names the trouble."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError

SMALLEST = 8


def as_images(values: Any, name: str = "image", smallest: int = SMALLEST) -> Tensor:
    """A floating-point batch (B, C, H, W) from (H, W), (C, H, W) or (B, C, H, W).

    Real arrays of integers, float32 and float64 pass (integers as float64); anything
    else, non-finite pixels and sides shorter than `smallest` are refused.
    """
    x = _as_tensor(values, name)
    if x.numel() == 0:
        raise InputError(f"{name}: the array is empty (shape {tuple(x.shape)})")
    if not 2 <= x.ndim <= 4:
        raise InputError(
            f"{name}: need (H, W), (C, H, W) or (B, C, H, W), not {x.ndim}-D {tuple(x.shape)}"
        )
    if min(x.shape[-2:]) < smallest:
        height, width = x.shape[-2:]
        raise InputError(f"{name}: {height}×{width} pixels; each side needs at least {smallest}")
    bad = int((~torch.isfinite(x)).sum())
    if bad:
        raise InputError(f"{name}: {bad} of {x.numel()} pixels are NaN or infinite")
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def _as_tensor(values: Any, name: str) -> Tensor:
    if isinstance(values, Tensor):
        x = values.detach()
        if x.dtype in (torch.float32, torch.float64):
            return x
        if x.is_complex() or x.dtype == torch.bool:
            raise InputError(f"{name}: dtype {x.dtype} is not real pixel data")
        return x.double()
    try:
        array = np.asarray(values)
    except ValueError as trouble:  # ragged lists
        raise InputError(f"{name}: not a rectangular array ({trouble})") from None
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name}: dtype {array.dtype} is not real pixel data")
    kind = np.float32 if array.dtype == np.float32 else np.float64
    return torch.from_numpy(np.ascontiguousarray(array, dtype=kind))
