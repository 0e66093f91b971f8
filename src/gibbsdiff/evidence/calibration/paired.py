"""Runs that are judged twice: by the posterior as it is, and with the network's error, eq. (12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.evidence.calibration.sbc import Method, Outcome, Record, settled
from gibbsdiff.fourier import Shape
from gibbsdiff.inference.gibbs import Gibbs, Settings
from gibbsdiff.inference.marginal import Marginal, Mode
from gibbsdiff.inference.model_error import with_model_error
from gibbsdiff.inference.starts import spread
from gibbsdiff.noise.base import NoiseModel, Parameter, StationaryNoise
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.streams import Streams

DRAWS, CHAINS = 100, 4  # of the marginal method

Search = Callable[[Marginal], Mode]
"""How the mode is looked for: where from, and for how long."""

Centre = Callable[[Tensor, Mode], tuple[Tensor, Tensor]]
"""What chains start around, given y and the mode: means (B, d), covariances (B, d, d)."""


class Twice(NoiseModel):
    """A noise whose φ stands twice in a row: judged raw, and with the model's error."""

    def __init__(self, single: NoiseModel) -> None:
        self.single = single
        second = [Parameter(f"{p.name} with model error", p.low, p.high) for p in single.parameters]
        super().__init__([*single.parameters, *second])

    def draw_prior(self, rng: Streams, candidates: int = 4096) -> Tensor:
        """(B, 2d): φ, and φ again."""
        return self.single.draw_prior(rng, candidates).repeat(1, 2)

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> NoiseCovariance:
        """That of the first φ."""
        return self.single.covariance(shape, self._first(phi), dtype)

    def statistic(self, noise: Any, observed: Tensor | None = None) -> Any:
        """That of the noise itself."""
        return self.single.statistic(noise, observed)

    def log_likelihood(self, phi: Tensor, statistic: Any) -> Tensor:
        """That of the first φ."""
        return self.single.log_likelihood(self._first(phi), statistic)

    def _first(self, phi: Tensor) -> Tensor:
        return phi[..., : len(self.single.parameters)]


def halves(records: Sequence[Record]) -> tuple[list[Record], list[Record]]:
    """The records of the raw posterior, and of that with the model's error."""
    lists = ("truth", "mean", "sd", "u", "rhat", "ess")

    def part(r: Record, second: bool) -> Record:
        d = len(r.truth) // 2
        kept = slice(d, 2 * d) if second else slice(0, d)
        return replace(r, **{name: getattr(r, name)[kept] for name in lists})

    return [part(r, False) for r in records], [part(r, True) for r in records]


def once(method: Method, parameters: int) -> Method:
    """The raw posterior alone, for a denoiser that makes no error."""

    def raw(y: Tensor, rng: Streams) -> Outcome:
        found = method(y, rng)
        assert isinstance(found, Outcome)
        return found._replace(draws=[draws[..., :parameters] for draws in found.draws])

    return raw


def by_marginal(
    noise: StationaryNoise,
    denoiser: Denoiser,
    search: Search,
    sampler: Sampler | None = None,
) -> Method:
    """The marginal method, one observation after the other, with a second stage if it is given a
    `sampler` of x. Draws are Gaussian around the mode, inside the box.
    """

    def method(y: Tensor, rng: Streams) -> Outcome:
        found, fine, most = [], [], 0
        for row, seed in zip(y, rng.integers(0, 2**31 - 1).tolist(), strict=True):
            marginal = Marginal(row[None], noise, denoiser, seed=seed)
            mode = search(marginal)
            if sampler is not None:
                mode = marginal.refine(mode, sampler, iterations=5, chains=2, seed=seed)
            both = [
                marginal.draws(m, DRAWS, seed, points=0, chains=CHAINS)[0]
                for m in (mode, with_model_error(marginal, mode))
            ]
            found.append(torch.cat(both, -1))
            fine.append(bool(mode.converged.all()))
            most = max(most, marginal.calls)
        return Outcome(found, most, fine)

    return method


def by_chains(
    noise: StationaryNoise,
    denoiser: Denoiser,
    settings: Settings,
    sampler: Sampler,
    search: Search,
    from_mode: bool = True,
    longer: int = 1,
    centre: Centre = lambda y, mode: (mode.phi, mode.covariance),
) -> Method:
    """Gibbs chains, all observations in one batch; their model error is the marginal method's. One
    observation alone is drawn with a denoiser that is adapted to it, as `gibbsdiff.denoise` does.

    What eq. (12) adds to a covariance is added to the draws as Gaussian noise. Chains that have not
    converged are run once more, with `longer` times as many iterations.
    """
    second = replace(
        settings, iterations=longer * settings.iterations, burn_in=longer * settings.burn_in
    )

    def method(y: Tensor, rng: Streams) -> Outcome:
        marginal = Marginal(y, noise, denoiser)
        mode = search(marginal)
        drawn = marginal.drawing(mode.phi)
        start = None
        if from_mode:
            columns = []
            for phi, covariance, key in zip(*centre(y, mode), rng.keys, strict=True):
                own = Streams(rng.seed, [(*key, 3, chain) for chain in range(settings.chains)])
                columns.append(spread(phi, covariance, noise, own))
            start = torch.stack(columns)

        def run(rows: list[int], how: Settings, label: int) -> tuple[list[Tensor], int]:
            own = Gibbs(y[rows], noise, drawn, how, sampler)
            # Keyed by the run instead of the place in the batch.
            keys = [(*rng.keys[i], label, chain) for i in rows for chain in range(how.chains)]
            own.streams = Streams(rng.seed, keys)
            chains = own.begin(None if start is None else start[rows])
            while not own.finished(chains):
                own.step(chains)
            return [p.phi for p in own.posteriors(chains)], chains.calls // len(rows)

        draws, spent = run(list(range(len(y))), settings, 0)
        calls = [spent + (marginal.calls if from_mode else 0)] * len(y)
        slow = [i for i, phi in enumerate(draws) if longer > 1 and not settled(phi)]
        if slow:
            again, more = run(slow, second, 5)
            for i, phi in zip(slow, again, strict=True):
                draws[i] = phi
                calls[i] += more
        added = (with_model_error(marginal, mode).covariance - mode.covariance).double()
        values, vectors = torch.linalg.eigh((added + added.mT) / 2)
        factor = vectors * values.clamp(min=0).sqrt().unsqueeze(-2)
        both = []
        for i, phi in enumerate(draws):
            z = rng.rows([i]).fold(4).normal(*phi.shape)[0]
            wide = (phi + z @ factor[i].mT).clamp(noise.low, noise.high)
            both.append(torch.cat([phi, wide], -1))
        return Outcome(both, calls)

    return method
