from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from gibbsdiff.mcmc import Info, Tuning, run, warm_up
from gibbsdiff.streams import Streams

CHAINS = 256


@dataclass(frozen=True)
class TruncatedGaussian:
    """N(mean, covariance) cut to a box, with exact draws by rejection."""

    mean: Tensor
    covariance: Tensor
    low: Tensor
    high: Tensor

    def log_density(self, x: Tensor) -> Tensor:
        away = x - self.mean
        return -0.5 * (away @ torch.linalg.inv(self.covariance) * away).sum(-1)

    def exact(self, count: int, seed: int = 0) -> Tensor:
        g = torch.Generator().manual_seed(seed)
        scale = torch.linalg.cholesky(self.covariance).mT
        kept: list[Tensor] = []
        while sum(map(len, kept)) < count:
            z = torch.randn(200_000, len(self.mean), generator=g, dtype=torch.float64)
            x = self.mean + z @ scale
            kept.append(x[((x >= self.low) & (x <= self.high)).all(1)])
        return torch.cat(kept)[:count]


@dataclass(frozen=True)
class Sampled:
    target: TruncatedGaussian
    tuning: Tuning
    draws: Tensor
    info: Info


def _target(mean: list[float], sd: list[float], rho: float, width: float) -> TruncatedGaussian:
    """A Gaussian given in units of the box, which starts at -1 and is `width` wide."""
    d = len(mean)
    unit = torch.tensor(sd, dtype=torch.float64) * width
    correlation = torch.full((d, d), rho, dtype=torch.float64).fill_diagonal_(1.0)
    low = torch.full((d,), -1.0, dtype=torch.float64)
    return TruncatedGaussian(
        low + width * torch.tensor(mean, dtype=torch.float64),
        unit[:, None] * correlation * unit,
        low,
        low + width,
    )


TARGETS = {
    "2d-interior": _target([0.4, 0.6], [0.06, 0.04], 0.3, 2.0),
    "2d-narrow-0.99": _target([0.5, 0.5], [0.1, 0.1], 0.99, 3.0),
    "2d-wall-0.95": _target([0.1, 0.1], [0.2, 0.2], 0.95, 1.0),
    "2d-outside-corner": _target([-0.1, 1.1], [0.2, 0.2], -0.5, 5.0),
    "3d-wall": _target([0.0, 0.5, 1.0], [0.3, 0.05, 0.2], 0.6, 1.0),
    "8d": _target([0.05, 0.9, 0.4, 0.5, 0.6, 0.2, 0.8, 0.5], [0.15] * 4 + [0.06] * 4, 0.4, 1.0),
}


@pytest.fixture(scope="session")
def targets() -> dict[str, TruncatedGaussian]:
    return TARGETS


@pytest.fixture(scope="session", params=TARGETS)
def sampled(request: pytest.FixtureRequest) -> Sampled:
    """Chains from uniform starts, adapted, and four draws of each, 25 transitions apart."""
    target = TARGETS[request.param]
    rng = Streams.batch(7, CHAINS)
    start = target.low + (target.high - target.low) * rng.uniform(len(target.mean))
    position, tuning = warm_up(target.log_density, start, target.low, target.high, rng)
    draws, info = run(target.log_density, position, tuning, rng, transitions=100, keep=4)
    return Sampled(target, tuning, draws.flatten(0, 1), info)


@pytest.fixture
def dense_metric() -> Callable[..., Tensor]:
    """Random well-filled inverse mass matrices (B, d, d), of velocities near 1."""

    def make(rows: int, d: int, seed: int = 0) -> Tensor:
        g = torch.Generator().manual_seed(seed)
        a = torch.randn(rows, d, d, generator=g, dtype=torch.float64)
        b = a @ a.mT / d + 0.1 * torch.eye(d, dtype=torch.float64)
        return b / b.diagonal(dim1=1, dim2=2).amax(1)[:, None, None]

    return make
