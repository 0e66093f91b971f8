"""Files of a run: checkpoints that resume it bit by bit, and its logs."""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state of tensors, numbers and containers of these, in one move."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    write_atomically(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a state back; nothing in the file is executed."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no checkpoint to resume") from None
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as trouble:
        reason = str(trouble).split("\n", 1)[0]
        raise InputError(f"{path}: not a checkpoint ({reason})") from None
    if not isinstance(state, dict) or "step" not in state:
        raise InputError(f"{path}: not a checkpoint of this package")
    return state


class TableLog:
    """A CSV file that grows by rows, each with its step; and the same in TensorBoard.

    A resumed run first drops the rows written after its checkpoint.
    """

    def __init__(self, path: Path, step: int, board: Any | None = None) -> None:
        self.path = path
        self.board = board
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        kept = [row for row in rows if int(row["step"]) <= step]
        text = io.StringIO(newline="")
        if kept:
            writer = csv.DictWriter(text, list(kept[0]))
            writer.writeheader()
            writer.writerows(kept)
        write_atomically(path, text.getvalue())

    def write(self, row: Mapping[str, float | int]) -> None:
        """Append a row; `step` is one of its columns."""
        rounded = {k: v if isinstance(v, int) else f"{v:.6g}" for k, v in row.items()}
        self._append(rounded)
        if self.board is not None:
            for key, value in row.items():
                if key != "step":
                    self.board.add_scalar(f"{self.path.stem}/{key}", value, row["step"])
            self.board.flush()

    def _append(self, row: Mapping[str, Any]) -> None:
        new = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            if new:
                writer.writeheader()
            writer.writerow(row)


def tensorboard(folder: Path) -> Any | None:
    """A TensorBoard writer, if it is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder))
