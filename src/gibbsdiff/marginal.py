r"""p(φ | y) without drawing x: Fisher's identity with the two moments of x | y, φ, eq. (11).

∂_φ log p(y | φ) is the expectation of ∂_φ log p(ε | φ) over ε = y - x given y and φ. Eq. (8) is
linear in P, so that only E[P | y, φ] = |ŷ - D̂|² + Ê is needed: one call of the denoiser.
Everything here happens in the prior box scaled to [0, 1]^d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, pairwise
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser, NetworkError
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors, power
from gibbsdiff.noise.base import LogDensity, StationaryNoise, Statistic
from gibbsdiff.noise.covariance import Covariance, SpectralCovariance
from gibbsdiff.streams import Streams

REACH = 0.3  # longest step of the search, in prior widths
NEAR_SD, NEAR = 0.05, 5e-4  # converged: the next step is this short, in sd and in prior widths


@dataclass(frozen=True)
class Score:
    """∂_u log p(u | y) (B, d), the information J of eq. (11) (B, d, d), and D(y) (B, C, H, W)."""

    gradient: Tensor
    information: Tensor
    mean: Tensor


@dataclass(frozen=True)
class Mode:
    """The mode of p(φ | y) for every image (B, d) and the Laplace covariance there (B, d, d),
    with E[x | y] at the mode, calls per image, and which searches converged.
    """

    phi: Tensor
    covariance: Tensor
    mean: Tensor
    calls: int
    converged: Tensor


class Marginal:
    """The marginal score of a batch of observations y (B, C, H, W), one call each."""

    def __init__(self, y: Any, noise: StationaryNoise, denoiser: Denoiser) -> None:
        self.y = as_images(y, "observation")
        self.noise, self.denoiser = noise, denoiser
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.width = noise.high - noise.low
        self.calls = 0

    def phi(self, u: Tensor) -> Tensor:
        """From the unit box to the parameters, never outside by rounding."""
        return torch.minimum(self.noise.low + u * self.width, self.noise.high)

    @torch.no_grad()
    def score(self, u: Tensor, rows: Tensor | None = None) -> Score:
        """Eq. (11) at u (B, d), for all images or for the named rows."""
        y = self.y if rows is None else self.y[rows]
        phi = self.phi(u)
        covariance = self.noise.covariance(self.shape, phi, y.dtype)
        mean, error = self.denoiser(y, covariance)
        self.calls += 1
        E = error_power(error, y.shape[1])
        grouping = self.noise.grouping(self.shape)
        P = grouping.sum((power(y - mean) + E).sum(1))
        held = grouping.sum((1 - E / covariance.power).square().sum(1))
        gradient = self._gradient(phi, Statistic(grouping.k, P, y.shape[1]))
        slopes = self.slopes(grouping.k, phi)
        J = 0.5 * torch.einsum("bm,bim,bjm->bij", held, slopes, slopes)
        return Score(gradient * self.width, J, mean)

    def _gradient(self, phi: Tensor, expected: Statistic) -> Tensor:
        with torch.enable_grad():
            at = phi.detach().requires_grad_()
            value = self.noise.log_likelihood(at, expected) + self.noise.log_prior(at)
            (gradient,) = torch.autograd.grad(value.sum(), at)
        return gradient

    def slopes(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """∂ log N/∂u in every group, (B, d, M), by central differences inside the box."""
        columns = []
        for i in range(phi.shape[1]):
            h = torch.zeros_like(phi)
            h[:, i] = 1e-5 * self.width[i]
            low, high = (p.clamp(self.noise.low, self.noise.high) for p in (phi - h, phi + h))
            apart = ((high - low)[:, i] / self.width[i])[:, None]
            columns.append((self.noise.log_power(k, high) - self.noise.log_power(k, low)) / apart)
        return torch.stack(columns, 1)

    def mode(self, start: Tensor | None = None, most: int = 20) -> Mode:
        """Climb from φ (B, d), or the middle of the box, by J⁻¹g with secant corrections."""
        d = len(self.noise.parameters)
        u = torch.full((len(self.y), d), 0.5, dtype=torch.float64)
        if start is not None:
            u = ((self.noise.check(start) - self.noise.low) / self.width).expand_as(u).clone()
        before = self.calls
        converged = torch.zeros(len(u), dtype=torch.bool)
        past: list[tuple[Tensor, Tensor]] = []
        for _ in range(most):
            score = self.score(u)
            past.append((u, score.gradient))
            step, short = _step(u, score, past[-d - 1 :])
            # The step that is found to be short is still taken: it costs nothing.
            u = torch.where(converged[:, None], u, (u + step).clamp(0, 1))
            converged = converged | short
            if bool(converged.all()):
                break
        information, at_mode = self._observed_information(u)
        covariance = torch.linalg.inv(information) * self.width[:, None] * self.width
        return Mode(self.phi(u), covariance, at_mode.mean, self.calls - before, converged)

    def _observed_information(self, u: Tensor) -> tuple[Tensor, Score]:
        """-∂g/∂u by differences of half a standard deviation, towards the inside of the box."""
        here = self.score(u)
        sd = torch.linalg.inv(_firm(here.information)).diagonal(dim1=1, dim2=2).sqrt()
        columns = []
        for i in range(u.shape[1]):
            h = torch.where(u[:, i] > 0.5, -0.5, 0.5) * sd[:, i].clamp(1e-6, 0.2)
            moved = u.clone()
            moved[:, i] += h
            columns.append((here.gradient - self.score(moved).gradient) / h[:, None])
        H = torch.stack(columns, -1)
        return _firm((H + H.mT) / 2, 0.05 * here.information), here

    @torch.no_grad()
    def refine(
        self, mode: Mode, sampler: Sampler, iterations: int = 6, chains: int = 2, seed: int = 0
    ) -> Mode:
        """The second stage: E[P | y, φ] from draws of x in place of the one-call moments.

        u ← u + H⁻¹ ḡ/i, with ḡ the score of the mean power of y - x over the chains and H the
        information at the mode: Robbins-Monro, so the noise of single draws averages out. What
        bias is left is that of the sampler.
        """
        H = torch.linalg.inv(mode.covariance / self.width[:, None] / self.width)
        u = (mode.phi - self.noise.low) / self.width
        owner = torch.arange(len(u)).repeat_interleave(chains)
        rng = Streams(seed, [(b, c) for b in range(len(u)) for c in range(chains)])
        grouping = self.noise.grouping(self.shape)
        y, calls = self.y[owner], 0
        for i in range(1, iterations + 1):
            covariance = self.noise.covariance(self.shape, self.phi(u)[owner], y.dtype)
            draw = sampler(self.denoiser, y, covariance, rng.fold(i))
            calls += int(draw.calls.reshape(-1, chains).sum(1).max())
            P = grouping.sum(power(y - draw.x).sum(1)).reshape(len(u), chains, -1).mean(1)
            g = self._gradient(self.phi(u), Statistic(grouping.k, P, y.shape[1])) * self.width
            u = (u + torch.linalg.solve(H, g) / i).clamp(0, 1)
        self.calls += calls
        mean = self.score(u).mean
        return replace(mode, phi=self.phi(u), mean=mean, calls=mode.calls + calls + 1)

    def draws(
        self, mode: Mode, count: int, seed: int = 0, points: int = 24, chains: int = 4
    ) -> Tensor:
        """p(φ | y) itself: (B, chain, draw, d), independent, from a potential fitted to scores.

        Up to 3 parameters: a polynomial of degree 4 whose gradient fits `points` scores around
        the mode by least squares. More parameters keep the Laplace Gaussian. Both are drawn by
        resampling from a wider t-distribution, inside the box.
        """
        u = (mode.phi - self.noise.low) / self.width
        factor = torch.linalg.cholesky(mode.covariance / self.width[:, None] / self.width)
        out = []
        for b in range(len(u)):
            rng = Streams(seed, [(b,)])
            log_density = self._fit(b, factor[b], u[b], points, rng)
            drawn = _resampled(log_density, u[b], factor[b], count * chains, rng)
            out.append(self.phi(drawn).reshape(chains, count, -1))
        return torch.stack(out)

    def _fit(self, b: int, factor: Tensor, centre: Tensor, points: int, rng: Streams) -> LogDensity:
        """The log-density of z, u = centre + L z: a polynomial, or the Laplace Gaussian."""
        if len(centre) > 3:
            return lambda z: -0.5 * z.square().sum(-1)
        powers = _powers(len(centre), 4)
        z = 1.4 * rng.normal(points, len(centre))[0]
        at = (centre + z @ factor.T).clamp(0, 1)
        z = torch.linalg.solve_triangular(factor, (at - centre).T, upper=False).T
        rows = torch.full((points,), b, dtype=torch.int64)
        g = self.score(at, rows).gradient @ factor
        self.calls += points - 1  # one batch, but a call for each of its rows
        design = _gradients(z, powers).flatten(0, 1)
        weight = torch.exp(-0.125 * z.square().sum(-1)).repeat_interleave(len(centre))
        c = torch.linalg.lstsq(design * weight[:, None], (g.flatten() * weight)[:, None]).solution
        return lambda z: _monomials(z, powers) @ c[:, 0]


def error_power(error: Covariance, channels: int) -> Tensor:
    """Ê of eq. (11), (B, C, H, W//2+1), from a denoiser's error covariance."""
    if not isinstance(error, NetworkError | SpectralCovariance):
        raise InputError("the marginal method needs a denoiser whose error has a spectrum")
    return error.power.expand(-1, channels, -1, -1)


def _resampled(
    log_density: LogDensity, centre: Tensor, factor: Tensor, count: int, rng: Streams
) -> Tensor:
    """`count` draws of u = centre + L z in [0, 1]^d by importance resampling, (count, d).

    The proposal is t with 5 degrees of freedom. Beyond 5 standard deviations the fitted
    polynomial knows nothing, and is not believed.
    """
    d, many, nu = len(centre), max(40 * count, 20000), 5
    spread = rng.normal(many, nu)[0].square().mean(-1).sqrt()
    z = rng.normal(many, d)[0] / spread[:, None]
    u = centre + z @ factor.T
    radius2 = z.square().sum(-1)
    log_q = -0.5 * (nu + d) * torch.log1p(radius2 / nu)
    inside = ((u >= 0) & (u <= 1)).all(-1) & (radius2 < 25 * d)
    log_w = torch.where(inside, log_density(z) - log_q, -torch.inf)
    total = torch.softmax(log_w, 0).cumsum(0)
    picked = torch.searchsorted(total, rng.uniform(count)[0]).clamp(max=many - 1)
    return u[picked]


def _step(u: Tensor, score: Score, past: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The next step of every image, and whether it is short. Walls that g pushes at hold."""
    steps, short = torch.zeros_like(u), torch.zeros(len(u), dtype=torch.bool)
    for b in range(len(u)):
        g = score.gradient[b]
        free = ~(((u[b] <= 0) & (g < 0)) | ((u[b] >= 1) & (g > 0)))
        if not bool(free.any()):
            short[b] = True
            continue
        J = _firm(score.information[b][free][:, free])
        B = J.clone()
        for (u0, g0), (u1, g1) in pairwise(past):
            s, y = (u1 - u0)[b][free], (g0 - g1)[b][free]
            if float(s.norm()) > 1e-9:
                B = B + torch.outer(y - B @ s, s) / s.square().sum()  # Broyden: B s = y
        step = torch.linalg.solve(B, g[free])
        plain = torch.linalg.solve(J, g[free])
        # A correction that points downhill, or leaps, is worse than none.
        if float(step @ g[free]) <= 0 or float(step.norm()) > 4 * float(plain.norm()):
            step = plain
        length = float(step.abs().max())
        short[b] = length < NEAR and float((step @ J @ step).sqrt()) < NEAR_SD
        steps[b, free] = step * min(1.0, REACH / max(length, 1e-12))
    return steps, short


def _firm(matrix: Tensor, least: Tensor | None = None) -> Tensor:
    """A symmetric matrix made positive definite: eigenvalues below a floor are raised to it."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    floor = 1e-10 * values.abs().amax(-1, keepdim=True) + 1e-12
    if least is not None:
        floor = torch.maximum(floor, torch.linalg.eigvalsh(least).amin(-1, keepdim=True))
    return (vectors * torch.maximum(values, floor).unsqueeze(-2)) @ vectors.mT


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
