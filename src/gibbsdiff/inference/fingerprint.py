"""What makes a run what it is: the fingerprint that a checkpoint is compared by."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of


def fingerprint(y: Tensor, parts: dict[str, str | None]) -> str:
    """One digest of the picture and of the digests of everything else, by name.

    A part without a digest (a denoiser or a noise of one's own) could not be recognised when the
    run goes on, and is refused by name.
    """
    for name, part in parts.items():
        if part is None:
            raise InputError(
                f"checkpoint: the {name} has no digest, and could be another one when the run goes "
                "on; give it one"
            )
    found = digest_of(y, parts)
    assert found is not None
    return found


def callable_digest(function: Any) -> str | None:
    """Of a function of this package by its name and bound arguments; of another by its `digest`, a
    text or a method; None where there is none.
    """
    if function is None:
        return "default"
    own = getattr(function, "digest", None)
    if own is not None:
        return str(own() if callable(own) else own)
    if isinstance(function, partial):
        name = callable_digest(function.func)
        bound = digest_of(function.args, dict(sorted(function.keywords.items())))
        return None if name is None or bound is None else f"{name} {bound}"
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    ours = str(module).startswith("gibbsdiff.") and "<" not in name
    return f"{module}.{name}" if ours and name else None
