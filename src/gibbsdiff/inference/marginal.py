r"""p(φ | y) without drawing x: Fisher's identity with the two moments of x | y, φ, eq. (11).

∂_φ log p(y | φ) is the expectation of ∂_φ log p(ε | φ) over ε = y - x given y and φ. Eq. (8) is
linear in P, so that only E[P | y, φ] = |ŷ - D̂|² + Ê is needed: one call of the denoiser. Ê of a
network comes from its derivative, eq. (13): its heads know that of one image only to some 10 %.
Everything here happens in the prior box scaled to [0, 1]^d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors
from gibbsdiff.inference.observation import ObservationModel, stationary
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.search import Visited, make_positive_definite, next_step
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.stationary import Statistic
from gibbsdiff.streams import Key, Streams

CHUNK = 2**20  # pixels that the denoiser is shown at once
SEARCH = "searching for the noise"


class ScoreAt(NamedTuple):
    """What one call of the denoiser says at some φ: D(y), the sd of x around it in every pixel,
    its error's power Ê and the noise's power N, all in the channels of y.
    """

    mean: Tensor
    sd: Tensor
    E: Tensor
    N: Tensor


class Score(NamedTuple):
    """∂_u log p(u | y) (n, d), the information J of eq. (11) (n, d, d), and what they came from."""

    gradient: Tensor
    information: Tensor
    at: ScoreAt


@dataclass(frozen=True)
class Mode:
    """The mode of p(φ | y) for every image (B, d) and the Laplace covariance there (B, d, d).

    `at` is what the denoiser says at the mode; `slopes` (B, d, C, H, W) are ∂D/∂φ there, unless
    images share φ; `calls` were made per problem; `ended` (B,) says which searches ended.
    """

    phi: Tensor
    covariance: Tensor
    at: ScoreAt
    calls: int
    ended: Tensor
    slopes: Tensor | None = None

    @property
    def mean(self) -> Tensor:
        """E[x | y] at the mode."""
        return self.at.mean

    @property
    def sd(self) -> Tensor:
        """The sd of x | y in every pixel: around D at the mode, and what φ's covariance moves D by,
        to first order.
        """
        if self.slopes is None:
            return self.at.sd
        moved = torch.einsum("bij,bichw->bjchw", self.covariance.to(self.slopes), self.slopes)
        return (self.at.sd.square() + (moved * self.slopes).sum(1).clamp(min=0)).sqrt()


class Marginal:
    """The marginal score of a batch of observations y (B, C, H, W), one call each.

    `shared` images have one φ, such as windows of one picture: scores then add up, and a call
    is counted for each of them. `keys` name the images' random streams, (i,) by default.
    """

    def __init__(
        self,
        y: Any,
        noise: NoiseModel,
        denoiser: Denoiser,
        observation: ObservationModel | None = None,
        *,
        shared: bool = False,
        seed: int = 0,
        keys: Sequence[Key] | None = None,
    ) -> None:
        self.denoiser = as_denoiser(denoiser)
        if not self.denoiser.error_model:
            raise InputError("the marginal method needs a denoiser that models its own error")
        self.y = as_images(y, "observation")
        self.noise, self.shared, self.seed = stationary(noise), shared, seed
        self.keys = [(i,) for i in range(len(self.y))] if keys is None else list(keys)
        self.shape = (self.y.shape[-2], self.y.shape[-1])
        self.observation = observation or ObservationModel(noise, self.shape)
        self.width = noise.high - noise.low
        self._scoring = self.denoiser.with_derivative_error()

    @property
    def problems(self) -> int:
        """How many φ are asked for: one for every image, or one for all."""
        return 1 if self.shared else len(self.y)

    @property
    def cost(self) -> int:
        """Denoiser calls of one score, per problem."""
        return len(self.y) if self.shared else 1

    def phi(self, u: Tensor) -> Tensor:
        """From the unit box to the parameters, never outside by rounding."""
        return torch.minimum(self.noise.low + u * self.width, self.noise.high)

    @torch.no_grad()
    def score(self, u: Tensor, problem: Tensor | None = None) -> Score:
        """Eq. (11) at u (n, d), for all problems in turn or for the named ones."""
        rows, owner = self.rows(len(u), problem)
        phi = self.phi(u)
        at = self.score_at(phi[owner], rows)
        expected = self.observation.statistic(self.y[rows] - at.mean, rows, variance=at.E)
        held = self._in_groups((1 - at.E / at.N).square(), expected)
        slopes = self.slopes(expected.k, phi)[owner]
        J = 0.5 * torch.einsum("bm,bim,bjm->bij", held, slopes, slopes)
        gradient = self.gradient(phi, owner, expected)
        return Score(gradient, sum_by_owner(J, owner, len(u)), at)

    @torch.no_grad()
    def score_at(self, phi: Tensor, rows: Tensor) -> ScoreAt:
        """One call for each of the named images, at its own φ."""
        parts = []
        for part in torch.arange(len(rows)).split(max(1, CHUNK // self.y[0, 0].numel())):
            covariance = self.observation.covariance(phi[part], self.y.dtype)
            # The chroma noise of an image is the same at every φ but for its spectrum: the score
            # is then a smooth function of φ.
            rng = Streams(self.seed, [(*self.keys[i], 1) for i in rows[part].tolist()])
            shown = self.observation.show(self.y[rows[part]], covariance, rng)
            mean, error = self._scoring(shown, covariance)
            sd = pixel_sd(self.observation, error, shown.shape[1])
            E = None if error is None else error.spectrum()
            N = covariance.spectrum()
            if E is None or N is None or sd is None:
                raise InputError("the marginal method needs a denoiser whose error has a spectrum")
            taken = (self.observation.take_power(p) for p in (_wide(E, shown), N))
            parts.append((self.observation.take(mean), sd, *taken))
        return ScoreAt(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def adapted(self, mode: Mode) -> tuple[Denoiser, int]:
        """The denoiser that x is drawn with, and the calls that it took to make it.

        For a single image the error model of the heads is corrected by ∂D/∂y at the mode. Draws are
        then as good as with ∂D/∂y in every call, at the cost of the heads.
        """
        if not self.denoiser.adaptable or len(self.y) > 1:
            return self.denoiser, 0
        covariance = self.observation.covariance(mode.phi, self.y.dtype)
        rng = Streams(self.seed, [(*self.keys[0], 1)])
        return self.denoiser.adapted(self.observation.show(self.y, covariance, rng), covariance), 1

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

    def mode(
        self, start: Tensor | None = None, most: int = 20, progress: Progress = silent
    ) -> Mode:
        """Climb from φ (B, d), or the middle of the box, by J⁻¹g with secant corrections.

        At most `most` steps, then d + 1 scores for the covariance.
        """
        d = len(self.noise.parameters)
        total = most + d + 1
        u = torch.full((self.problems, d), 0.5, dtype=torch.float64)
        if start is not None:
            u = ((self.noise.check(start) - self.noise.low) / self.width).expand_as(u).clone()
        ended = torch.zeros(len(u), dtype=torch.bool)
        past: list[Visited] = []
        for step_number in range(most):
            progress(SEARCH, step_number, total)
            score = self.score(u)
            past.append((u, score.gradient))
            step, short = next_step(u, score.gradient, score.information, past[-d - 1 :])
            # The step that is found to be short is still taken: it costs nothing.
            u = torch.where(ended[:, None], u, (u + step).clamp(0, 1))
            ended = ended | short
            if bool(ended.all()):
                break
        progress(SEARCH, most, total)
        information, here, slopes = self._observed_information(u)
        progress(SEARCH, total, total)
        covariance = torch.linalg.inv(information) * self.width[:, None] * self.width
        calls = (len(past) + d + 1) * self.cost
        return Mode(self.phi(u), covariance, here.at, calls, ended, slopes)

    def _observed_information(self, u: Tensor) -> tuple[Tensor, Score, Tensor | None]:
        """-∂g/∂u by differences of half a standard deviation, towards the inside of the box; the
        score at u; and ∂D/∂φ by the same differences.
        """
        here = self.score(u)
        J = make_positive_definite(here.information)
        sd = torch.linalg.inv(J).diagonal(dim1=1, dim2=2).sqrt()
        columns, slopes = [], []
        for i in range(u.shape[1]):
            h = torch.where(u[:, i] > 0.5, -0.5, 0.5) * sd[:, i].clamp(1e-6, 0.2)
            moved = u.clone()
            moved[:, i] += h
            there = self.score(moved)
            columns.append((here.gradient - there.gradient) / h[:, None])
            if not self.shared:
                apart = (h * self.width[i]).to(self.y).view(-1, 1, 1, 1)
                slopes.append((there.at.mean - here.at.mean) / apart)
        H = torch.stack(columns, -1)
        H = make_positive_definite((H + H.mT) / 2, 0.05 * here.information)
        return H, here, torch.stack(slopes, 1) if slopes else None

    def rows(self, n: int, problem: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The images behind n rows of u, and the row that each belongs to."""
        if self.shared:
            images = len(self.y)
            return torch.arange(images).repeat(n), torch.arange(n).repeat_interleave(images)
        return torch.arange(n) if problem is None else problem, torch.arange(n)

    def _in_groups(self, values: Tensor, statistic: Statistic) -> Tensor:
        """Σ w · values over channels and groups, as far as the statistic counts them: (B, M)."""
        summed = self.noise.grouping(self.shape).sum(values.sum(1))
        return summed if statistic.share is None else summed * statistic.share


def sum_by_owner(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Sums of the rows that belong to one problem."""
    out = values.new_zeros(count, *values.shape[1:])
    return out.index_add_(0, owner, values)


def _wide(spectrum: Tensor, shown: Tensor) -> Tensor:
    return spectrum.expand(-1, shown.shape[1], -1, -1)
