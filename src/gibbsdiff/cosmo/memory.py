"""Whether draws of dust are copies of training maps, or copies of each other.

Maps of the test block are hidden under a CMB of known parameters and drawn again. The highest σ of
the prior box, 1.2, leaves the most to the network: the CMB then has 3 to 7 times the power of the
dust below 16 pixels, but half of it at 128. No draw is of the prior alone.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import torch
from torch import Tensor

from gibbsdiff.cosmo.infer import FLOOR, DustModel
from gibbsdiff.cosmo.nearest import Library, Match, rms
from gibbsdiff.data.maps import Blocks, read_maps
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.covariance import SpectralCovariance
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
    maps: int = 6,
    draws: int = 4,
    sigma: float = 1.2,
    calls: int = 12,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
    device: str = "cpu",
) -> Memory:
    """Hide `maps` of the test block, draw each `draws` times given the true parameters, and look
    for the draws among the training maps.

    `path` is the file that the model was trained on. `watch` is called with the number of maps
    done.
    """
    if draws < 2:
        raise InputError(f"draws: how they vary needs at least 2, not {draws}")
    data = found.card["config"]["data"]
    blocks = Blocks(**{role: tuple(block) for role, block in data["blocks"].items()})
    known = read_maps(path, blocks, data["halved"])
    if len(known.train) != found.card["maps"]["train"] or known.side != found.side:
        raise InputError(f"{path}: not the maps that the model was trained on")
    library = Library.of_all_phases(known.finest, data["halved"])
    held_out = [library.nearest(x) for x in known.test]
    order = torch.argsort(Streams(seed, [(0,)]).uniform(len(known.test))[0]).tolist()
    noise, hidden, denoiser = CMBNoise(), [], on_device(found.denoiser, device)
    phi = noise.check([sigma, *noise.emulator.fiducial.tolist()])
    covariance = noise.covariance((known.side, known.side), phi, known.test.dtype)
    for done, which in enumerate(order[:maps]):
        x, rng = known.test[which], Streams(seed, [(1, which)])
        y = x + covariance.draw(rng, 1)[0]
        own = held_out[which]
        hidden.append(_drawn_again(denoiser, x, y, covariance, library, own, draws, calls, rng))
        watch(done + 1)
    return Memory(sigma, hidden, [m.distance for m in held_out], len(known.train))


@torch.no_grad()
def _drawn_again(
    denoiser: Denoiser,
    x: Tensor,
    y: Tensor,
    covariance: SpectralCovariance,
    library: Library,
    own: Match,
    draws: int,
    calls: int,
    rng: Streams,
) -> Hidden:
    """Draw x (1, H, W) again from y, and look for the draws among the training maps."""
    rows = torch.zeros(draws, dtype=torch.int64)
    each = Streams(rng.seed, [(*rng.keys[0], i) for i in range(draws)])
    there = covariance.rows(rows)
    drawn = few_step(denoiser, y[None][rows], there, each, calls=calls, floor=FLOOR).x
    mean, error = denoiser(y[None], covariance)
    E = None if error is None else error.spectrum()
    assert E is not None
    variance = half_plane(covariance.shape).mean(E.flatten(2)).mean()
    pairs = [rms(a - b) ** 2 / 2 for a, b in combinations(drawn, 2)]
    return Hidden(
        [library.nearest(d) for d in drawn],
        own,
        [rms(d - x) for d in drawn],
        rms(drawn) / rms(x),
        statistics.fmean(pairs) ** 0.5,
        float(variance.sqrt()),
        rms(mean[0] - x),
    )
