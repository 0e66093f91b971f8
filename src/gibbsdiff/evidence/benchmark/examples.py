"""The paper's examples: noisy, truth, a sample, the mean, and p(φ | y) with the truth marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torch import Tensor

from gibbsdiff.data.images import PROTOCOL_SIDE
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.benchmark.images import Task, observe
from gibbsdiff.evidence.benchmark.methods import Setup, chains
from gibbsdiff.evidence.cluster import Mapper, serial
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.metrics import psnr
from gibbsdiff.plots import corner, picture
from gibbsdiff.plots.style import NORMAL

SLOPES = (-0.4, -0.2, 0.0, 0.2, 0.4)
SIGMA = 0.2


@dataclass(frozen=True)
class Example:
    """A row of the figure."""

    index: int
    x: Tensor
    posterior: Posterior

    @property
    def facts(self) -> dict[str, Any]:
        """PSNR of y, of a sample and of the mean; φ found and true; what it cost."""
        p = self.posterior
        assert p.samples is not None
        return {
            "truth": p.truth,
            "found": [r.mean for r in p.rows],
            "sd": [r.sd for r in p.rows],
            "total_sd": [r.total_sd for r in p.rows],
            "rhat": [r.rhat for r in p.rows],
            "noisy": self._psnr(p.observed),
            "sample": self._psnr(p.samples[0]),
            "mean": self._psnr(p.mean),
            "calls": p.calls,
            "seconds": p.seconds,
        }

    def _psnr(self, image: Tensor) -> float:
        return float(psnr(image.to(self.x), self.x))


def work(task: Task) -> Example:
    """One example, by Gibbs chains."""
    x, seen = observe(task)
    posterior = chains(seen, task.setup)
    return Example(task.index, x[0], posterior.with_truth((task.sigma, task.phi)))


def examples(
    files: Sequence[Path],
    setup: Setup,
    *,
    sigma: float = SIGMA,
    slopes: Sequence[float] = SLOPES,
    side: int = PROTOCOL_SIDE,
    seed: int = 1,
    mapper: Mapper = serial,
    watch: Callable[[int], None] | None = None,
) -> list[Example]:
    """Another image for each φ, in the order of the files; they start again when used up.

    `watch` is called with the number that are done.
    """
    if not files or not slopes:
        raise InputError("examples need images and values of φ")
    wanted = [
        Task("", i, str(files[i % len(files)]), sigma, phi, "gibbs", setup, side, seed)
        for i, phi in enumerate(slopes)
    ]
    found = []
    for example in mapper(work, wanted):
        found.append(example)
        if watch is not None:
            watch(len(found))
    return sorted(found, key=lambda example: example.index)


def examples_figure(rows: Sequence[Example]) -> Figure:
    """A row for each example: four pictures with their PSNR above, then the corner plot."""
    page = Figure(figsize=(12.5, 3.0 * len(rows)))
    page.set_layout_engine("constrained", w_pad=0.03, h_pad=0.03)
    parts: Any = page.subfigures(len(rows), 2, width_ratios=[3.2, 1.0], squeeze=False)
    for (left, right), row in zip(parts, rows, strict=True):
        p, facts = row.posterior, row.facts
        assert p.samples is not None
        assert p.truth is not None
        shown = [
            (f"noisy y, {facts['noisy']:.1f} dB", p.observed),
            ("truth x", row.x),
            (f"sample x̂, {facts['sample']:.1f} dB", p.samples[0]),
            (f"mean E[x|y], {facts['mean']:.1f} dB", p.mean),
        ]
        for axis, (title, image) in zip(left.subplots(1, len(shown)), shown, strict=True):
            picture(axis, image, title)
        left.axes[0].set_ylabel(f"σ = {p.truth[0]:g}, φ = {p.truth[1]:g}", fontsize=NORMAL)
        d = len(p.names)
        corner(right.subplots(d, d, squeeze=False), p)
    return page
