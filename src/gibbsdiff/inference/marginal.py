r"""p(φ | y) without drawing x: Fisher's identity with the two moments of x | y, φ, eq. (11).

∂_φ log p(y | φ) is the expectation of ∂_φ log p(ε | φ) over ε = y - x given y and φ. Eq. (8) is
linear in P, so that only E[P | y, φ] = |ŷ - D̂|² + Ê is needed: one call of the denoiser. Ê of a
network is read off its derivative, eq. (13): its heads tell that of one image to some 10 % only.
Everything here happens in the prior box scaled to [0, 1]^d.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser, NetworkError, SpectralDenoiser
from gibbsdiff.diffusion.solvers import Sampler
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors
from gibbsdiff.inference.observation import View
from gibbsdiff.inference.potential import fitted, gaussian, resampled, runs_away
from gibbsdiff.inference.search import Seen, firm, next_step
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.noise.base import LogDensity, StationaryNoise, Statistic
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams

CHUNK = 2**20  # pixels that the denoiser is shown at once


class Seeing(NamedTuple):
    """D(y), the sd of x around it in every pixel, its error's power Ê and the noise's power N,
    all in the channels of y.
    """

    mean: Tensor
    sd: Tensor
    E: Tensor
    N: Tensor


class Score(NamedTuple):
    """∂_u log p(u | y) (n, d), the information J of eq. (11) (n, d, d), and what was seen."""

    gradient: Tensor
    information: Tensor
    seen: Seeing


@dataclass(frozen=True)
class Mode:
    """The mode of p(φ | y) for every image (B, d) and the Laplace covariance there (B, d, d),
    with what is seen at the mode, calls per image, and which searches converged.
    """

    phi: Tensor
    covariance: Tensor
    seen: Seeing
    calls: int
    converged: Tensor

    @property
    def mean(self) -> Tensor:
        """E[x | y] at the mode."""
        return self.seen.mean


class Marginal:
    """The marginal score of a batch of observations y (B, C, H, W), one call each.

    `shared` images have one φ, such as windows of one picture: scores then add up, and a call
    is counted for each of them.
    """

    def __init__(
        self,
        y: Any,
        noise: StationaryNoise,
        denoiser: Denoiser,
        view: View | None = None,
        *,
        shared: bool = False,
        seed: int = 0,
    ) -> None:
        self.y = as_images(y, "observation")
        self.noise, self.denoiser, self.shared, self.seed = noise, denoiser, shared, seed
        self.seer = denoiser.probed() if isinstance(denoiser, SpectralDenoiser) else denoiser
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.view = view or View(noise, self.shape)
        self.width = noise.high - noise.low
        self.calls = 0

    @property
    def problems(self) -> int:
        """How many φ are asked for: one for every image, or one for all."""
        return 1 if self.shared else len(self.y)

    def phi(self, u: Tensor) -> Tensor:
        """From the unit box to the parameters, never outside by rounding."""
        return torch.minimum(self.noise.low + u * self.width, self.noise.high)

    @torch.no_grad()
    def score(self, u: Tensor, problem: Tensor | None = None) -> Score:
        """Eq. (11) at u (n, d), for all problems in turn or for the named ones."""
        rows, owner = self.rows(len(u), problem)
        phi = self.phi(u)
        seen = self.see(phi[owner], rows)
        expected = self.view.statistic(self.y[rows] - seen.mean, rows, variance=seen.E)
        held = self.view_of_modes((1 - seen.E / seen.N).square(), expected)
        slopes = self.slopes(expected.k, phi)[owner]
        J = 0.5 * torch.einsum("bm,bim,bjm->bij", held, slopes, slopes)
        gradient = self.gradient(phi, owner, expected)
        return Score(gradient, added(J, owner, len(u)), seen)

    @torch.no_grad()
    def see(self, phi: Tensor, rows: Tensor) -> Seeing:
        """One call for each of the named images, at its own φ."""
        self.calls += len(rows) if self.shared else 1
        parts = []
        for part in torch.arange(len(rows)).split(max(1, CHUNK // self.y[0, 0].numel())):
            covariance = self.view.covariance(phi[part], self.y.dtype)
            # The chroma noise of an image is the same at every φ but for its colour: the score
            # is then a smooth function of φ.
            rng = Streams(self.seed, [(int(i), 1) for i in rows[part]])
            shown = self.view.show(self.y[rows[part]], covariance, rng)
            mean, error = self.seer(shown, covariance)
            E = self.view.take_power(error_power(error, shown.shape[1]))
            N = self.view.take_power(_power(covariance))
            sd = pixel_sd(self.view, error, shown.shape[1])
            parts.append((self.view.take(mean), sd, E, N))
        return Seeing(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def drawing(self, phi: Tensor) -> Denoiser:
        """What x of a single observation is drawn with: the denoiser, its heads corrected for this
        image at φ (1, d). As good as ∂D/∂y at every level of the noise, at the cost of the heads.
        """
        if not isinstance(self.denoiser, SpectralDenoiser) or len(self.y) > 1:
            return self.denoiser
        covariance = self.view.covariance(phi, self.y.dtype)
        assert isinstance(covariance, SpectralCovariance)
        shown = self.view.show(self.y, covariance, Streams(self.seed, [(0, 1)]))
        self.calls += 1
        return self.denoiser.adapted(shown, covariance)

    def view_of_modes(self, values: Tensor, statistic: Statistic) -> Tensor:
        """Σ w · values over channels and groups, as far as the statistic counts them: (B, M)."""
        summed = self.noise.grouping(self.shape).sum(values.sum(1))
        return summed if statistic.share is None else summed * statistic.share

    def gradient(self, phi: Tensor, owner: Tensor, expected: Statistic) -> Tensor:
        """∂_u of the log-likelihood of images' statistics, each at φ[owner], and of the prior."""
        with torch.enable_grad():
            at = phi.detach().requires_grad_()
            value = self.noise.log_likelihood(at[owner], expected).sum()
            (gradient,) = torch.autograd.grad(value + self.noise.log_prior(at).sum(), at)
        return gradient * self.width

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
        u = torch.full((self.problems, d), 0.5, dtype=torch.float64)
        if start is not None:
            u = ((self.noise.check(start) - self.noise.low) / self.width).expand_as(u).clone()
        before = self.calls
        converged = torch.zeros(len(u), dtype=torch.bool)
        past: list[Seen] = []
        for _ in range(most):
            score = self.score(u)
            past.append((u, score.gradient))
            step, short = next_step(u, score.gradient, score.information, past[-d - 1 :])
            # The step that is found to be short is still taken: it costs nothing.
            u = torch.where(converged[:, None], u, (u + step).clamp(0, 1))
            converged = converged | short
            if bool(converged.all()):
                break
        information, at_mode = self._observed_information(u)
        covariance = torch.linalg.inv(information) * self.width[:, None] * self.width
        return Mode(self.phi(u), covariance, at_mode.seen, self.calls - before, converged)

    def _observed_information(self, u: Tensor) -> tuple[Tensor, Score]:
        """-∂g/∂u by differences of half a standard deviation, towards the inside of the box."""
        here = self.score(u)
        sd = torch.linalg.inv(firm(here.information)).diagonal(dim1=1, dim2=2).sqrt()
        columns = []
        for i in range(u.shape[1]):
            h = torch.where(u[:, i] > 0.5, -0.5, 0.5) * sd[:, i].clamp(1e-6, 0.2)
            moved = u.clone()
            moved[:, i] += h
            columns.append((here.gradient - self.score(moved).gradient) / h[:, None])
        H = torch.stack(columns, -1)
        return firm((H + H.mT) / 2, 0.05 * here.information), here

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
        rows, owner = self.rows(len(u))
        rows, owner = rows.repeat_interleave(chains), owner.repeat_interleave(chains)
        rng = Streams(seed, [(b, c) for b in range(len(self.y)) for c in range(chains)])
        calls, denoiser = 0, self.drawing(mode.phi)
        for i in range(1, iterations + 1):
            covariance = self.view.covariance(self.phi(u)[owner], self.y.dtype)
            stream = rng.fold(i)
            shown = self.view.show(self.y[rows], covariance, stream)
            draw = sampler(denoiser, shown, covariance, stream)
            calls += int(added(draw.calls, owner, len(u)).max())
            drawn = self.view.statistic(self.y[rows] - self.view.take(draw.x), rows)
            share = torch.ones_like(drawn.P) if drawn.share is None else drawn.share
            mean = Statistic(drawn.k, drawn.P / chains, drawn.channels, share / chains)
            g = self.gradient(self.phi(u), owner, mean)
            u = (u + torch.linalg.solve(H, g) / i).clamp(0, 1)
        self.calls += calls
        last = self.score(u).seen
        return replace(mode, phi=self.phi(u), seen=last, calls=mode.calls + calls + 1)

    def draws(
        self, mode: Mode, count: int, seed: int = 0, points: int = 24, chains: int = 4
    ) -> Tensor:
        """p(φ | y) itself: (B, chain, draw, d), independent, from a potential fitted to scores.

        Up to 3 parameters: a polynomial of degree 4 whose gradient fits `points` scores around
        the mode by least squares. More parameters, or no points, keep the Laplace Gaussian. Both
        are drawn by resampling from a wider t-distribution, inside the box.
        """
        u = (mode.phi - self.noise.low) / self.width
        factor = torch.linalg.cholesky(mode.covariance / self.width[:, None] / self.width)
        out = []
        for b in range(len(u)):
            rng = Streams(seed, [(b,)])
            log_density: LogDensity = gaussian
            if points and u.shape[1] <= 3:
                z = 1.4 * rng.normal(points, u.shape[1])[0]
                at = (u[b] + z @ factor[b].T).clamp(0, 1)
                z = torch.linalg.solve_triangular(factor[b], (at - u[b]).T, upper=False).T
                g = self.score(at, torch.full((points,), b)).gradient @ factor[b]
                self.calls += 0 if self.shared else points - 1  # a call for each row
                fit = fitted(z, g)
                log_density = gaussian if runs_away(fit, u[b], factor[b]) else fit
            drawn = resampled(log_density, u[b], factor[b], count * chains, rng)
            out.append(self.phi(drawn).reshape(chains, count, -1))
        return torch.stack(out)

    def rows(self, n: int, problem: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The images behind n rows of u, and the row that each belongs to."""
        if self.shared:
            return torch.arange(len(self.y)).repeat(n), torch.arange(n).repeat_interleave(
                len(self.y)
            )
        return torch.arange(n) if problem is None else problem, torch.arange(n)


def error_power(error: Covariance, channels: int) -> Tensor:
    """Ê of eq. (11), (B, C, H, W//2+1), from a denoiser's error covariance."""
    if not isinstance(error, NetworkError | SpectralCovariance):
        raise InputError("the marginal method needs a denoiser whose error has a spectrum")
    return error.power.expand(-1, channels, -1, -1)


def _power(covariance: NoiseCovariance) -> Tensor:
    assert isinstance(covariance, SpectralCovariance)
    return covariance.power


def added(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Sums of the rows that belong to one problem."""
    out = values.new_zeros(count, *values.shape[1:])
    return out.index_add_(0, owner, values)
