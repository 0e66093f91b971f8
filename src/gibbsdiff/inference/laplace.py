"""Independent draws of φ around the mode: the Laplace density, or a polynomial fitted to scores."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.potential import fitted, gaussian, reflected, resampled, runs_away
from gibbsdiff.inference.search import Mode
from gibbsdiff.noise.base import LogDensity
from gibbsdiff.streams import Streams

Density = Literal["laplace", "polynomial"]
POINTS = 24  # scores that a polynomial is fitted to
MOST = 3  # parameters of which polynomials can be fitted


class PhiDraws(NamedTuple):
    """φ (B, chain, draw, d), the density that each image's were drawn from, and the calls made."""

    phi: Tensor
    densities: list[Density]
    calls: int


def draw_phi(
    marginal: Marginal,
    mode: Mode,
    count: int,
    chains: int = 4,
    seed: int = 0,
    density: Density = "laplace",
    points: int = POINTS,
) -> PhiDraws:
    """Draws of p(φ | y) inside the prior box, by resampling from a wider t-distribution; of more
    than 3 parameters, where that would pick a few again and again, by reflection at the walls.

    "laplace" is the Gaussian of the mode's covariance. "polynomial", for up to 3 parameters, has
    a log-density of degree 4 whose gradient fits `points` scores around the mode by least squares;
    where that fit rises again away from the mode, the Laplace density is used, and named, instead.
    """
    if density == "polynomial" and mode.phi.shape[1] > MOST:
        raise InputError(f"density polynomial: for up to {MOST} parameters, not more")
    u = (mode.phi - marginal.noise.low) / marginal.width
    factors = torch.linalg.cholesky(mode.covariance / marginal.width[:, None] / marginal.width)
    out, used, calls = [], [], 0
    for b, factor in enumerate(factors):
        rng = Streams(seed, [marginal.keys[b]])
        log_density: LogDensity = gaussian
        name: Density = "laplace"
        if density == "polynomial":
            # Of a weighted score H V⁻¹ g has the curvature H V⁻¹ H of the covariance.
            inverse = torch.linalg.inv(mode.covariance[b]) @ mode.inverse[b]
            turn = marginal.width[:, None] * inverse / marginal.width
            fit = _fit(marginal, b, u[b], factor, points, rng, turn)
            calls = points * marginal.cost
            if not runs_away(fit, u[b], factor):
                log_density, name = fit, "polynomial"
        if name == "laplace" and len(u[b]) > MOST:
            drawn = reflected(u[b] + rng.normal(count * chains, len(u[b]))[0] @ factor.T)
        else:
            drawn = resampled(log_density, u[b], factor, count * chains, rng)
        out.append(marginal.phi(drawn).reshape(chains, count, -1))
        used.append(name)
    return PhiDraws(torch.stack(out), used, calls)


def _fit(
    marginal: Marginal,
    problem: int,
    u: Tensor,
    factor: Tensor,
    points: int,
    rng: Streams,
    turn: Tensor,
) -> LogDensity:
    z = 1.4 * rng.normal(points, len(u))[0]
    at = (u + z @ factor.T).clamp(0, 1)
    z = torch.linalg.solve_triangular(factor, (at - u).T, upper=False).T
    g = marginal.score(at, torch.full((points,), problem)).gradient @ turn.T @ factor
    return fitted(z, g)
