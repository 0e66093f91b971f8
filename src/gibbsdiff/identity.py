"""One name for the same numbers: digests that tell whether two things are equal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor


def digest_of(*parts: object) -> str | None:
    """SHA-256, in hexadecimal, of tensors, numbers, texts, and collections and dataclasses of
    them; None if a part is anything else, such as a function, whose identity is not known.

    Tensors count by shape and values, not by device or floating-point type: single precision
    that is only stored as double is the same.
    """
    found = hashlib.sha256()
    for part in parts:
        data = _bytes(part)
        if data is None:
            return None
        # Lengths keep ("ab", "c") from being ("a", "bc").
        found.update(f"{_kind(part)} {len(data)} ".encode() + data)
    return found.hexdigest()


def _kind(part: object) -> str:
    number = isinstance(part, int | float) and not isinstance(part, bool)
    return "number" if number else type(part).__name__


def _bytes(part: object) -> bytes | None:
    if isinstance(part, Tensor):
        values = part.detach().cpu()
        if values.is_floating_point():
            values = values.to(torch.float64)
        return str(tuple(part.shape)).encode() + values.contiguous().numpy().tobytes()
    if isinstance(part, float) and part.is_integer():
        part = int(part)  # 2.0 is 2
    if part is None or isinstance(part, bool | int | float | str):
        return repr(part).encode()
    if is_dataclass(part) and not isinstance(part, type):
        entries = [(field, getattr(part, field.name)) for field in fields(part)]
        # A field that came later leaves the names of what does not have it as they were.
        inside = digest_of(*(v for f, v in entries if v is not None or not f.metadata.get("later")))
    elif isinstance(part, Mapping):
        inside = digest_of(*(item for pair in part.items() for item in pair))
    elif isinstance(part, tuple | list):
        inside = digest_of(*part)
    else:
        return None
    return None if inside is None else inside.encode()
