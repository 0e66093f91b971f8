"""How long a task will take: by its pixels, and by how fast this machine was so far."""

from __future__ import annotations

#: Seconds of a task at the first, and for a megapixel, before anything was seen of the machine:
#: rather too many, as cores may be busy. Chains take hours for a large picture, and say so.
FIRST = {
    "auto": (6.0, 260.0),
    "marginal": (6.0, 260.0),
    "gibbs": (60.0, 4000.0),
    "sky": (12.0, 0.0),
}
LEAST = 0.15  # share of the time taken so far that is left at least, until it is over


class Pace:
    """An estimate that learns: the ratio of true to expected times, newer ones counting more."""

    def __init__(self) -> None:
        self._ratio: dict[str, float] = {}

    def expected(self, kind: str, pixels: int) -> float:
        """Seconds of a whole task."""
        fixed, rate = FIRST[kind]
        return (fixed + rate * pixels / 1e6) * self._ratio.get(kind, 1.0)

    def learn(self, kind: str, pixels: int, seconds: float) -> None:
        """A task was finished in this time."""
        fixed, rate = FIRST[kind]
        seen = seconds / (fixed + rate * pixels / 1e6)
        before = self._ratio.get(kind)
        self._ratio[kind] = seen if before is None else 0.5 * (before + seen)

    def left(self, kind: str, pixels: int, taken: float) -> float:
        """Seconds left after some were taken: finite and positive, whatever the task does."""
        return max(self.expected(kind, pixels) - taken, LEAST * taken, 1.0)
