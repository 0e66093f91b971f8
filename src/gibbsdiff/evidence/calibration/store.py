"""Results of simulation-based calibration on disk: JSON lines, the configuration first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically

FORMAT = "gibbsdiff-sbc-2"


def write(path: str | Path, configuration: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Replace the file by these records at once: a reader sees all of it or none."""
    lines = [{"format": FORMAT, "configuration": configuration}, *records]
    write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))


def lines_of(path: str | Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The configuration of a file, and its records."""
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise InputError(f"{path}: not a file of calibration results") from None
    head = lines[0] if lines else None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise InputError(f"{path}: not a file of calibration results")
    return head["configuration"], lines[1:]


def read(path: str | Path, configuration: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of this very configuration; anything else is refused, and left as it is."""
    there, lines = lines_of(path)
    # Through JSON and back, so that a tuple equals the list that it became.
    wanted = json.loads(json.dumps(configuration))
    if there != wanted:
        raise InputError(
            f"{path}: holds results of another configuration "
            f"({_difference(there, wanted)}); move it away or choose another folder"
        )
    return lines


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    flat_there, flat_here = _flat(there), _flat(here)
    for name in [*flat_here, *flat_there]:
        if flat_there.get(name) != flat_here.get(name):
            return f"{name} is {flat_there.get(name)} there and {flat_here.get(name)} here"
    return "they differ"


def _flat(configuration: dict[str, Any]) -> dict[str, Any]:
    return {**configuration, **configuration.get("arguments", {}), "arguments": None}
