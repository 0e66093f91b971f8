"""What is to be done for whom: jobs, and the tabs that they belong to."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gibbsdiff.web.limits import Wishes

OVER = ("done", "failed", "cancelled")


@dataclass
class Job:
    """A picture or a sky on its way: waiting, running, done, failed or cancelled."""

    name: str
    folder: Path
    kind: str = "picture"
    wishes: Wishes = field(default_factory=Wishes)
    pixels: int = 0
    example: str | None = None
    truth: tuple[float, float, float] | None = None
    seed: int = 0
    group: str = ""  # of pictures that were dropped together
    peers: tuple[str, ...] = ()  # files of one noise, this one among them
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    state: str = "waiting"
    stage: str = "waiting"
    step: int = 0
    of: int | None = None
    line: str = ""
    facts: dict[str, Any] | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    begun: float | None = None
    cancelled: float | None = None  # when that was asked for

    @property
    def pace(self) -> str:
        """What `Pace` calls it."""
        return "sky" if self.kind == "sky" else self.wishes.method

    @property
    def task(self) -> dict[str, Any]:
        """What the worker is told."""
        return {
            "do": self.kind,
            "name": self.name,
            "folder": str(self.folder),
            "wishes": asdict(self.wishes),
            "example": self.example,
            "truth": self.truth,
            "seed": self.seed,
            "peers": self.peers,
        }

    def offered(self, part: str, name: str) -> Path | None:
        """The file of this name, if the worker said that it is there for the browser."""
        views = (self.facts or {}).get("views", [])
        names = views if part == "views" else [file["name"] for file in self.files]
        return self.folder / part / name if name in names else None


@dataclass
class Tab:
    """An open page: its folder, its jobs by their order, and when it was last heard of."""

    folder: Path
    id: str = field(default_factory=lambda: secrets.token_urlsafe(18))
    jobs: dict[str, Job] = field(default_factory=dict)
    heard: float = field(default_factory=time.monotonic)

    def new_folder(self) -> Path:
        """An empty one, for an upload and what comes of it."""
        folder = self.folder / secrets.token_hex(8)
        folder.mkdir(parents=True, mode=0o700)
        return folder

    def forget(self, job: Job) -> None:
        """The job and all its files."""
        self.jobs.pop(job.id, None)
        shutil.rmtree(job.folder, ignore_errors=True)
