"""The name of a file's content: what tells two versions of a model or of a data set apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

from gibbsdiff.errors import InputError


def file_digest(path: str | Path) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a file's content."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as trouble:
        raise InputError(f"{path}: cannot be read ({trouble.strerror})") from None
