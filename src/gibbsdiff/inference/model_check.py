"""The result of the check of a noise model: what was found, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One test: the power `observed` over what the model expects, so that 1 is right and it is the
    misfit as well; the sd that it has if the model is right, and how many sd it is off.

    `low` and `high` are the ends of a band of |k|. Where a test is not of a power, `observed` is
    what a power is changed by: kurtosis/3, 1 + |coherence|, impulses over those of a photograph.
    """

    kind: str
    channel: str
    where: str
    observed: float
    sd: float
    z: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ModelCheck:
    """Whether the model of the noise fits, None if that cannot be told, and why, in a sentence.

    `misfits` are the findings that say no, the worst first; `bands` are those of all bands.
    """

    fits: bool | None
    verdict: str
    misfits: tuple[Finding, ...] = ()
    bands: tuple[Finding, ...] = ()

    @property
    def short(self) -> str:
        """The verdict in a few words."""
        if self.fits is None:
            return "cannot tell whether the noise model fits"
        return "the noise model fits" if self.fits else "the noise model does NOT fit"

    def as_dict(self) -> dict[str, Any]:
        """For a file: numbers and texts alone."""
        return asdict(self)

    @classmethod
    def from_dict(cls, held: Mapping[str, Any]) -> ModelCheck:
        """The inverse of `as_dict`."""
        rows = {n: tuple(Finding(**row) for row in held[n]) for n in ("misfits", "bands")}
        return cls(held["fits"], held["verdict"], **rows)


def channel_names(channels: int) -> tuple[str, ...]:
    """Of opponent colours."""
    return {1: ("",), 3: ("luma", "red-blue chroma", "green chroma")}.get(
        channels, tuple(f"channel {i + 1}" for i in range(channels))
    )
