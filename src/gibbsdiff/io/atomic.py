"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gibbsdiff.errors import InputError


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write beside the file, then put it in place in one move; on failure nothing is left.

    Folders on the way are made. Text is UTF-8. Trouble is one line that names the file.
    """
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    beside = ""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, target)
    except OSError as trouble:
        raise InputError(f"{target}: cannot be written ({trouble.strerror})") from None
    finally:
        if beside:
            Path(beside).unlink(missing_ok=True)
