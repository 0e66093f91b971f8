"""Independent draws of φ from a log-density known around its mode."""

from __future__ import annotations

from itertools import combinations_with_replacement

import torch
from torch import Tensor

from gibbsdiff.noise.base import LogDensity
from gibbsdiff.streams import Streams


def fitted(z: Tensor, g: Tensor, degree: int = 4) -> LogDensity:
    """The polynomial in z (n, d) whose gradient fits g (n, d) best, points near 0 weighted most."""
    powers = _powers(z.shape[1], degree)
    design = _gradients(z, powers).flatten(0, 1)
    weight = torch.exp(-0.125 * z.square().sum(-1)).repeat_interleave(z.shape[1])
    c = torch.linalg.lstsq(design * weight[:, None], (g.flatten() * weight)[:, None]).solution
    return lambda z: _monomials(z, powers) @ c[:, 0]


def runs_away(log_density: LogDensity, centre: Tensor, factor: Tensor) -> bool:
    """Whether a fitted density fails beyond the points that it was fitted to: somewhere in the box,
    4 to 5 √d sd away, it is hardly lower than at the mode. A Gaussian is lower by 8 d and more.
    """
    d = len(centre)
    rng = Streams(0, [(0,)])
    z = rng.normal(4096, d)[0]
    far = z * ((4 + rng.uniform(4096)[0]) * d**0.5 / z.norm(dim=1))[:, None]
    u = centre + far @ factor.T
    inside = ((u >= 0) & (u <= 1)).all(-1)
    return bool((log_density(far)[inside] > -2).any())


def gaussian(z: Tensor) -> Tensor:
    """The Laplace approximation: -½ |z|²."""
    return -0.5 * z.square().sum(-1)


def resampled(
    log_density: LogDensity, centre: Tensor, factor: Tensor, count: int, rng: Streams
) -> Tensor:
    """`count` draws of u = centre + L z in [0, 1]^d by importance resampling, (count, d).

    The proposal is t with 5 degrees of freedom. Beyond 5 √d standard deviations, where nothing was
    fitted, the density is taken to be zero.
    """
    d, many, nu = len(centre), max(40 * count, 20000), 5
    spread = rng.normal(many, nu)[0].square().mean(-1).sqrt()
    z = rng.normal(many, d)[0] / spread[:, None]
    log_q = -0.5 * (nu + d) * torch.log1p(z.square().sum(-1) / nu)
    w = _weights(log_density, centre + z @ factor.T, z, log_q)
    if not float(w.sum() ** 2) > count * float(w.square().sum()):
        # Hardly any is inside: a density much wider than the box is drawn from the box.
        u = rng.uniform(many, d)[0]
        z = torch.linalg.solve_triangular(factor, (u - centre).T, upper=False).T
        w = _weights(log_density, u, z, torch.zeros(many, dtype=u.dtype))
    total = (w / w.sum()).cumsum(0)
    picked = torch.searchsorted(total, rng.uniform(count)[0]).clamp(max=many - 1)
    return centre + z[picked] @ factor.T


def reflected(u: Tensor, low: Tensor | float = 0.0, high: Tensor | float = 1.0) -> Tensor:
    """Positions outside a box as they are after reflections at its walls."""
    width = high - low
    part = torch.remainder(u - low, 2 * width)
    return low + torch.where(part > width, 2 * width - part, part)


def _weights(log_density: LogDensity, u: Tensor, z: Tensor, log_q: Tensor) -> Tensor:
    """p/q, the largest 1, and 0 outside the box or beyond 5 √d standard deviations."""
    inside = ((u >= 0) & (u <= 1)).all(-1) & (z.square().sum(-1) < 25 * z.shape[-1])
    log_w = torch.where(inside, log_density(z) - log_q, -torch.inf)
    return torch.exp(log_w - log_w.max()).nan_to_num(0.0)


def _powers(d: int, degree: int) -> list[tuple[int, ...]]:
    """Index tuples of all monomials of degree 1 to `degree`."""
    return [c for n in range(1, degree + 1) for c in combinations_with_replacement(range(d), n)]


def _monomials(z: Tensor, powers: list[tuple[int, ...]]) -> Tensor:
    """(n, d) -> (n, terms)."""
    return torch.stack([z[:, list(p)].prod(-1) for p in powers], -1)


def _gradients(z: Tensor, powers: list[tuple[int, ...]]) -> Tensor:
    """∂ monomial/∂z_i: (n, d) -> (n, d, terms)."""
    columns = []
    for i in range(z.shape[1]):
        terms = []
        for p in powers:
            rest = list(p)
            if i not in rest:
                terms.append(torch.zeros_like(z[:, 0]))
                continue
            rest.remove(i)
            terms.append(p.count(i) * (z[:, rest].prod(-1) if rest else torch.ones_like(z[:, 0])))
        columns.append(torch.stack(terms, -1))
    return torch.stack(columns, 1)
