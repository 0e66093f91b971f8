"""Whether draws of dust are copies of training maps, or copies of each other.

Maps of the test block are hidden under a CMB and inferred. The highest σ of the prior box, 1.2,
leaves the most to the network: the CMB then has 3 to 7 times the power of the dust below 16 pixels,
but half of it at 128. No draw is of the prior alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import DustModel, infer
from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.cosmo.nearest import Library, Match, rms
from gibbsdiff.data.maps import Blocks, Maps, read_maps
from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams

MARGIN = 0.9  # nearer than this times the nearest held-out map is too near
COLLAPSED = 0.5  # a spread of less than this times the mean's error is too small


@dataclass(frozen=True)
class Hidden:
    """One held-out map and its draws; distances are rms per pixel, in sd of the training maps.

    `nearest` holds each draw's nearest training map, `own` the true map's; `to_truth` each draw's
    distance from the true map; `size` the draws' rms over the true map's, as small maps are near
    to all others. `spread` is the draws' standard deviation, by their distances from each other;
    `sd` what the model says it is, and `error` the rms error of the mean D.
    """

    nearest: list[Match]
    own: Match
    to_truth: list[float]
    size: float
    spread: float
    sd: float
    error: float


@dataclass(frozen=True)
class Memory:
    """All hidden maps, and how near all held-out maps are to training maps."""

    sigma: float
    hidden: list[Hidden]
    held_out: list[float]
    training: int

    @property
    def draws(self) -> list[float]:
        """Each draw's distance from its nearest training map."""
        return [m.distance for h in self.hidden for m in h.nearest]

    @property
    def paired(self) -> float:
        """A draw's distance from training maps over that of its own true map: the mean."""
        return statistics.fmean(m.distance / h.own.distance for h in self.hidden for m in h.nearest)

    @property
    def too_near(self) -> int:
        """Draws that are nearer to a training map than held-out maps are, by a tenth."""
        return sum(d < MARGIN * min(self.held_out) for d in self.draws)

    @property
    def collapsed(self) -> int:
        """Maps whose draws vary by less than half of the mean's error."""
        return sum(h.spread < COLLAPSED * h.error for h in self.hidden)

    @property
    def least(self) -> float:
        """The least spread over the mean's error."""
        return min(h.spread / h.error for h in self.hidden)

    @property
    def verdict(self) -> str:
        """Memory, then diversity."""
        n, maps = len(self.draws), len(self.hidden)
        least = f"{min(self.held_out):.3f}"
        memory = (
            f"MEMORISED: {self.too_near} of {n} draws are nearer to a training map than held-out "
            f"maps are (least {min(self.draws):.3f} against {least})"
            if self.too_near
            else f"no copies found: the nearest of {n} draws is {min(self.draws):.3f} from a "
            f"training map, the nearest of {len(self.held_out)} held-out maps {least}"
        )
        diversity = (
            f"COLLAPSED: draws of {self.collapsed} of {maps} maps vary by less than half of the "
            "mean's error"
            if self.collapsed
            else f"no collapse found: the draws' spread is at least {self.least:.2f} of the mean's "
            f"error, over {maps} maps"
        )
        paired = f"draws are at {self.paired:.2f} of their true maps' distances"
        return f"{memory}; {paired}; {diversity}"

    def table(self) -> str:
        """The verdict and a row for each hidden map, as Markdown."""
        rows = [
            f"**{self.verdict}**",
            "",
            f"σ = {self.sigma:g}; {self.training} training maps, each at all shifts and in all 8 "
            f"symmetries; {len(self.held_out)} held-out maps are at {min(self.held_out):.3f} to "
            f"{max(self.held_out):.3f} from the nearest of them, median "
            f"{statistics.median(self.held_out):.3f}. Distances are rms per pixel.",
            "",
            "| map | true map to training | draws to training, least | median | draws to the true "
            "map | rms of draws/true map | spread | model's sd | error of D | spread/error |",
            "| ---: |" + " ---: |" * 9,
        ]
        for i, h in enumerate(self.hidden):
            near = [m.distance for m in h.nearest]
            figures = [h.own.distance, min(near), statistics.median(near)]
            figures += [statistics.fmean(h.to_truth), h.size, h.spread, h.sd, h.error]
            figures.append(h.spread / h.error)
            rows.append(f"| {i} | " + " | ".join(f"{v:.3f}" for v in figures) + " |")
        return "\n".join(rows) + "\n"


def measure_memory(
    found: DustModel,
    path: str | Path,
    options: Options,
    maps: int = 6,
    noise: StationaryNoise | None = None,
    phi: Sequence[float] = (1.2,),
    watch: Callable[[int], None] = lambda _: None,
    device: str = "cpu",
) -> Memory:
    """Hide `maps` of the test block under noise at φ, infer dust and φ, and look for the samples
    of dust among the training maps.

    `path` is the file that the model was trained on. Samples are those of `gibbsdiff cmb infer`:
    the same pipeline with the same options, of which `samples` is the number of draws. `noise` is
    the CMB if it is not given, and what is left out of φ is its fiducial cosmology. `watch` is
    called with the number of maps done.
    """
    if options.samples < 2:
        raise InputError(f"draws: how they vary needs at least 2, not {options.samples}")
    known, library = training_maps(found, path)
    held_out = [library.nearest(x) for x in known.test]
    noise = noise or CMBNoise()
    if isinstance(noise, CMBNoise) and len(phi) == 1:
        phi = (*phi, *noise.emulator.fiducial.tolist())
    covariance = noise.covariance((known.side, known.side), noise.check(phi), known.test.dtype)
    hidden = []
    for done, which in enumerate(chosen(len(known.test), maps, options.seed)):
        x = known.test[which]
        y = x + covariance.draw(Streams(options.seed, [(1, which)]), 1)[0]
        posterior = infer(Mixture(y, 1.0), found, noise, options, device=device)
        if posterior.interrupted:  # half of the draws would spoil the table
            raise KeyboardInterrupt
        hidden.append(_compared(x, posterior, library, held_out[which]))
        watch(done + 1)
    distances = [m.distance for m in held_out]
    return Memory(phi[0], hidden, distances, len(known.train))


def training_maps(found: DustModel, path: str | Path) -> tuple[Maps, Library]:
    """The maps by role, and those of training at all phases; a file of other maps is refused."""
    data = found.card["config"]["data"]
    blocks = Blocks(**{role: tuple(block) for role, block in data["blocks"].items()})
    known = read_maps(path, blocks, data["halved"])
    if len(known.train) != found.card["maps"]["train"] or known.side != found.side:
        raise InputError(f"{path}: not the maps that the model was trained on")
    return known, Library.of_all_phases(known.finest, data["halved"])


def chosen(count: int, maps: int, seed: int) -> list[int]:
    """Which of the held-out maps are hidden."""
    order: list[int] = torch.argsort(Streams(seed, [(0,)]).uniform(count)[0]).tolist()
    return order[:maps]


def _compared(x: Tensor, posterior: Posterior, library: Library, own: Match) -> Hidden:
    """Look for the samples of dust, of which x (1, H, W) is the truth, among the training maps."""
    drawn = posterior.samples
    assert drawn is not None
    assert posterior.sd is not None
    pairs = [rms(a - b) ** 2 / 2 for a, b in combinations(drawn, 2)]
    return Hidden(
        [library.nearest(d) for d in drawn],
        own,
        [rms(d - x) for d in drawn],
        rms(drawn) / rms(x),
        statistics.fmean(pairs) ** 0.5,
        rms(posterior.sd),
        rms(posterior.mean - x),
    )
