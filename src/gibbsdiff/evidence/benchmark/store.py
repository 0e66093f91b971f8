"""Results of a benchmark on disk: JSON lines that are only ever appended.

The first line names the protocol. A line with "setting" says what a method's results depend on,
before its first record. A line that was cut off by a crash is forgotten, and its task done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError

FORMAT = "gibbsdiff-benchmark-2"
KEYS = ("set", "index", "image", "sigma", "phi", "group", "row", "psnr", "ssim")
BenchmarkRecord = dict[str, Any]


class Store:
    """The file, what it holds, and a way to add to it.

    `protocol` and the `settings` of the groups that will run must be those of the file: anything
    else is refused, and the file stays as it is.
    """

    def __init__(
        self, path: str | Path, protocol: dict[str, Any], settings: dict[str, dict[str, Any]]
    ) -> None:
        self.path = Path(path)
        self.records: list[BenchmarkRecord] = []
        self.settings: dict[str, dict[str, Any]] = {}
        # Through JSON and back, so that a tuple equals the list that it became.
        self.protocol, self.wanted = (json.loads(json.dumps(d)) for d in (protocol, settings))
        self.begun = self.path.exists() and self.path.stat().st_size > 0
        if self.begun:
            self._read()
        for group, there in self.settings.items():
            if group in settings:
                _compare(self.path, group, there, self.wanted[group])

    def add(self, records: Sequence[BenchmarkRecord]) -> None:
        """Append the records of one task, all in one write."""
        lines: list[BenchmarkRecord] = []
        if not self.begun:
            lines.append({"format": FORMAT, "protocol": self.protocol})
        for group in {r["group"] for r in records} - set(self.settings):
            self.settings[group] = self.wanted[group]
            lines.append({"group": group, "setting": self.wanted[group]})
        self._append([*lines, *records])
        self.begun = True
        self.records.extend(records)

    def _append(self, lines: Sequence[BenchmarkRecord]) -> None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _read(self) -> None:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.decode("utf-8").splitlines()]
        except (UnicodeDecodeError, json.JSONDecodeError):
            raise InputError(f"{self.path}: not a file of benchmark results") from None
        head = lines[0] if lines else None
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise InputError(f"{self.path}: not a file of benchmark results")
        _compare(self.path, "protocol", head.get("protocol", {}), self.protocol)
        for number, line in enumerate(lines[1:], 2):
            if isinstance(line, dict) and isinstance(line.get("setting"), dict):
                self.settings[line["group"]] = line["setting"]
            elif isinstance(line, dict) and all(key in line for key in KEYS):
                self.records.append(line)
            else:
                raise InputError(f"{self.path}: line {number} is not a record of a benchmark")
        if len(whole) < len(content):
            # What a crash cut off must not be glued to the next line.
            with self.path.open("r+b") as file:
                file.truncate(len(whole))


def _compare(path: Path, what: str, there: dict[str, Any], here: dict[str, Any]) -> None:
    for name in sorted({*there, *here}):
        if there.get(name) != here.get(name):
            raise InputError(
                f"{path}: holds results of another configuration ({what}: {name} is "
                f"{there.get(name)} there and {here.get(name)} here); move it away or choose "
                "another folder"
            )
