"""What a user asks `gibbsdiff denoise` for, beside the pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gibbsdiff.inference.files import Results, results_for
from gibbsdiff.io.file_format import Picture
from gibbsdiff.io.transfer import Transfer


@dataclass(frozen=True)
class Wishes:
    """What is to be written where, and the options of `gibbsdiff.denoise`."""

    output: Path | None
    figure: bool
    posterior: bool
    clobber: bool
    options: dict[str, Any]
    html: bool = False
    save_noise: Path | None = None
    axes: str | None = None
    each: bool = False
    transfer: Transfer = "auto"
    memory: float | None = None

    def results_for(self, picture: Picture, place: Path) -> Results:
        """The files to be written for a picture."""
        wanted = {"figure": self.figure, "posterior": self.posterior, "html": self.html}
        return results_for(picture, place, **wanted)
