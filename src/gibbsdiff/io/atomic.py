"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
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


def move_together(files: Sequence[Path], folder: Path) -> None:
    """Move new files of the same names from a folder on the same disk to their places.

    All of them or none: if one cannot be moved, what was there before is put back.
    """
    before: list[tuple[Path, Path | None]] = []
    try:
        for file in files:
            kept = folder / f"{file.name}.before" if file.exists() else None
            if kept is not None:
                _keep(file, kept)
            before.append((file, kept))
            os.replace(folder / file.name, file)
    except BaseException:
        for file, kept in before:
            if kept is not None:
                os.replace(kept, file)
            else:
                file.unlink(missing_ok=True)
        raise


def _keep(file: Path, kept: Path) -> None:
    """A second name for the same file, or a copy where the disk has no such thing."""
    try:
        os.link(file, kept)
    except OSError:
        shutil.copy2(file, kept)
