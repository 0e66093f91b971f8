"""What makes a run what it is: the fingerprint that a checkpoint is compared by."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from torch import Tensor

from gibbsdiff.errors import InputError


def fingerprint(y: Tensor, parts: dict[str, Any]) -> str:
    """SHA-256 of the picture and of the digests of everything else, by name.

    A part without a digest (a denoiser or a noise of one's own) cannot be recognised again, and
    is refused by name.
    """
    content = hashlib.sha256(y.contiguous().numpy().tobytes())
    for name, part in parts.items():
        if part is None:
            raise InputError(
                f"checkpoint: the {name} has no digest, so that a run could go on with another; "
                "give it one"
            )
        content.update(f"{name}={part};".encode())
    return content.hexdigest()


def callable_digest(function: Any) -> str | None:
    """The name and bound arguments of a function of this package; a `digest` of one's own."""
    if function is None:
        return "default"
    own = getattr(function, "digest", None)
    if own is not None:
        return str(own() if callable(own) else own)
    if isinstance(function, partial):
        name = callable_digest(function.func)
        bound = [*map(repr, function.args), *sorted(map(repr, function.keywords.items()))]
        return None if name is None else f"{name}({', '.join(bound)})"
    module = getattr(function, "__module__", "") or ""
    if not module.startswith("gibbsdiff.") or "<" in function.__qualname__:
        return None
    return f"{module}.{function.__qualname__}"
