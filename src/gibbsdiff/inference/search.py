"""The search for the mode of p(φ | y), in the unit box, and how sharp it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.matrices import make_positive_definite
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.score import Score, ScoreAt
from gibbsdiff.inference.weights import Sureness

SEARCH = "searching for the noise"
LISTEN = "listening where the network is sure"

REACH = 0.3  # longest step of the search, in prior widths
Near = tuple[float, float]
"""How short the last step of a search is, in sd and in prior widths."""
NEAR: Near = (0.05, 5e-4)
ROUGH: Near = (6.0, 0.02)  # good enough to see where the network is sure
LAST: Near = (0.5, 5e-3)  # of weighted scores, whose steps leave a tenth of the way
LEAST = 0.02  # sd that a step is long from which H is seen
SLACK = 0.92, 0.8  # H over J where one score was made, the mean of 24 pictures, and at least
ROUNDS = 2  # of weights, at most
FAR = 8.0  # standard deviations from where weights were made, beyond which they are made anew

Visited = tuple[Tensor, Tensor]
"""A place u (B, d) and the score g there."""


class Climbed(NamedTuple):
    """Where a search came to: φ (B, d), which searches ended there, the calls made, the last score
    before the last step, with its φ `called`, and the `past` of all of them.
    """

    phi: Tensor
    ended: Tensor
    calls: int
    score: Score
    called: Tensor
    past: list[Visited]

    def far_from(self, marginal: Marginal, phi: Tensor) -> bool:
        """Whether any φ moved by more than `FAR` standard deviations since."""
        u = (self.phi - phi) / marginal.width
        J = self.score.information
        return bool((torch.einsum("bi,bij,bj->b", u, J, u) > FAR**2).any())


@dataclass(frozen=True)
class Mode:
    """The mode of p(φ | y) for every image (B, d), the covariance of φ around it (B, d, d), and
    H⁻¹, by which a change of the score moves it: the same, unless modes are weighted, eq. (14).

    `at` is what the score saw at the mode, `around` (B, C, H, W) the sd of x around D there;
    `slopes` (B, d, C, H, W) are ∂D/∂φ, unless images share φ; `calls` were made per problem;
    `ended` (B,) says which searches ended; `called` (B, d) is the φ that D belongs to, where that
    is not the mode itself. `model_error` (B, d, d), eq. (12), is there where it was part of the
    search; so is `linear` (B, d, d), the covariance with it that a change of log N in proportion to
    φ would have, also where it is not.
    """

    phi: Tensor
    covariance: Tensor
    inverse: Tensor
    at: ScoreAt
    around: Tensor
    calls: int
    ended: Tensor
    slopes: Tensor | None = None
    model_error: Tensor | None = None
    linear: Tensor | None = None
    called: Tensor | None = None

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
            return self.around
        moved = torch.einsum("bij,bichw->bjchw", self.covariance.to(self.slopes), self.slopes)
        return (self.around.square() + (moved * self.slopes).sum(1).clamp(min=0)).sqrt()


def climb(
    marginal: Marginal,
    start: Tensor | None = None,
    most: int = 20,
    *,
    roughly: bool = False,
    one_probe: bool = False,
    progress: Progress = silent,
    stage: str = SEARCH,
    done: int = 0,
    total: int | None = None,
) -> Climbed:
    """From φ (B, d), or the middle of the box, by J⁻¹g with secant corrections, at most `most`
    steps.

    Arguments:
        roughly: By the denoiser's own word of its error, until a step is short of six sd.
        one_probe: What a probe finds beyond that word is found once, at the first step, and again
            where φ has moved by more than `FAR` sd.
    """
    d = len(marginal.noise.parameters)
    u = torch.full((marginal.problems, d), 0.5, dtype=torch.float64)
    if start is not None:
        u = (
            ((marginal.noise.check(start) - marginal.noise.low) / marginal.width)
            .expand_as(u)
            .clone()
        )
    ended = torch.zeros(len(u), dtype=torch.bool)
    past: list[Visited] = []
    near = ROUGH if roughly else LAST if one_probe else NEAR
    beyond, probed_at = None, u
    for step_number in range(most):
        progress(stage, done + step_number, total or most)
        probe = not roughly and (beyond is None or not one_probe)
        score = marginal.score(u, probe=probe, beyond=beyond)
        past.append((u, score.gradient))
        J = with_prior(marginal, score.information)
        if probe:
            beyond, probed_at = score.at.beyond, u
        step, short = next_step(u, score.gradient, J, past[-d - 1 :], near)
        # The step that is found to be short is still taken: it costs nothing.
        u = torch.where(ended[:, None], u, (u + step).clamp(0, 1))
        ended = ended | short
        if bool(ended.all()):
            break
        off = u - probed_at
        if bool((torch.einsum("bi,bij,bj->b", off, J, off) > FAR**2).any()):
            beyond = None
    progress(stage, done + most, total or most)
    calls = len(past) * marginal.cost
    return Climbed(marginal.phi(u), ended, calls, score, marginal.phi(past[-1][0]), past)


def listen(
    plain: Marginal,
    rule: Sureness,
    start: Tensor | None,
    most: int,
    progress: Progress = silent,
) -> tuple[Marginal, Climbed]:
    """The weighted score, eq. (14), and where it leads: roughly first, then with weights frozen
    there. If these lead far away, they are made anew: by another noise it may be sure elsewhere.
    """
    here = climb(plain, start, most, roughly=True, progress=progress)
    spent = here.calls
    told: dict[str, Any] = {"progress": progress, "stage": LISTEN, "total": ROUNDS * most}
    for i in range(ROUNDS):
        marginal = listening(plain, rule, here.called)
        there = climb(marginal, here.phi, most, one_probe=True, done=i * most, **told)
        spent += there.calls + plain.cost
        if not there.far_from(plain, here.phi):
            break
        here = there
    progress(LISTEN, ROUNDS * most, ROUNDS * most)
    return marginal, there._replace(calls=spent)


def find_mode(
    marginal: Marginal, start: Tensor | None = None, most: int = 20, progress: Progress = silent
) -> Mode:
    """As `climb`, then as `mode_at`."""
    return mode_at(marginal, climb(marginal, start, most, progress=progress))


def mode_at(marginal: Marginal, found: Climbed) -> Mode:
    """The mode that was found: d + 1 scores for the covariance, and a call for the sd of pixels."""
    phi, ended, calls = found.phi, found.ended, found.calls
    u = (phi - marginal.noise.low) / marginal.width
    information, here, slopes = _observed_information(marginal, u)
    around = marginal.around(phi)
    inverse = torch.linalg.inv(information) * marginal.width[:, None] * marginal.width
    calls += (len(marginal.width) + 2) * marginal.cost
    covariance = inverse
    if not marginal.plain:
        V = with_prior(marginal, make_positive_definite(here.variance))
        V = V / marginal.width[:, None] / marginal.width
        covariance = inverse @ V @ inverse
    return Mode(phi, covariance, inverse, here.at, around, calls, ended, slopes)


def mode_by_steps(marginal: Marginal, found: Climbed) -> Mode:
    """The mode that was found, without another call: H = κJ, κ by how much the score changed over
    the last step of the search; D and the sd of pixels are those of the last call, at most half
    an sd away if the search ended.
    """
    score = found.score
    J = make_positive_definite(with_prior(marginal, score.information))
    kappa = torch.full((len(J),), SLACK[0], dtype=J.dtype)
    for (u0, g0), (u1, g1) in pairwise(found.past[-2:]):
        along = torch.einsum("bi,bij,bj->b", u1 - u0, J, u1 - u0)
        seen = ((u1 - u0) * (g0 - g1)).sum(1) / along.clamp(min=1e-12)
        kappa = torch.where(along > LEAST**2, seen, kappa)
    H = kappa.clamp(SLACK[1], 1)[:, None, None] * J
    scale = marginal.width[:, None] * marginal.width
    inverse = torch.linalg.inv(H) * scale
    V = with_prior(marginal, make_positive_definite(score.variance)) / scale
    covariance = inverse if marginal.plain else inverse @ V @ inverse
    mode = Mode(found.phi, covariance, inverse, score.at, score.at.around, found.calls, found.ended)
    return replace(mode, called=found.called)


def _observed_information(marginal: Marginal, u: Tensor) -> tuple[Tensor, Score, Tensor | None]:
    """-∂g/∂u by differences of half a standard deviation, towards the inside of the box; the
    score at u; and ∂D/∂φ by the same differences.
    """
    here = marginal.score(u)
    J = make_positive_definite(with_prior(marginal, here.information))
    sd = torch.linalg.inv(J).diagonal(dim1=1, dim2=2).sqrt()
    columns, slopes = [], []
    for i in range(u.shape[1]):
        h = torch.where(u[:, i] > 0.5, -0.5, 0.5) * sd[:, i].clamp(1e-6, 0.2)
        moved = u.clone()
        moved[:, i] += h
        there = marginal.score(moved)
        columns.append((here.gradient - there.gradient) / h[:, None])
        if not marginal.shared:
            apart = (h * marginal.width[i]).to(marginal.y).view(-1, 1, 1, 1)
            slopes.append((there.at.mean - here.at.mean) / apart)
    H = torch.stack(columns, -1)
    H = make_positive_definite((H + H.mT) / 2, 0.05 * here.information)
    return H, here, torch.stack(slopes, 1) if slopes else None


def with_prior(marginal: Marginal, J: Tensor) -> Tensor:
    """J (B, d, d) in the unit box, and the curvature of a Gaussian prior."""
    if not marginal.noise.has_gaussian_prior:
        return J
    width = marginal.width
    return J + width[:, None] * marginal.noise.prior_curvature() * width


def without_weights(plain: Marginal, mode: Mode) -> Mode:
    """The place of a mode as a score without weights sees it: its Ê, and J⁻¹ for a covariance."""
    score = plain.score((mode.phi - plain.noise.low) / plain.width)
    J = make_positive_definite(score.information)
    covariance = torch.linalg.inv(J) * plain.width[:, None] * plain.width
    return replace(mode, at=score.at, covariance=covariance, inverse=covariance)


def next_step(
    u: Tensor, gradient: Tensor, information: Tensor, past: list[Visited], near: Near = NEAR
) -> tuple[Tensor, Tensor]:
    """The next step of every image, and whether it is short enough to be the last.

    J⁻¹ g, with J corrected by the scores of the last steps (Broyden). A parameter at a wall that g
    pushes against stays there.
    """
    steps, short = torch.zeros_like(u), torch.zeros(len(u), dtype=torch.bool)
    for b in range(len(u)):
        g = gradient[b]
        free = ~(((u[b] <= 0) & (g < 0)) | ((u[b] >= 1) & (g > 0)))
        if not bool(free.any()):
            short[b] = True
            continue
        J = make_positive_definite(information[b][free][:, free])
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
        short[b] = length < near[1] and float((step @ J @ step).sqrt()) < near[0]
        steps[b, free] = step * min(1.0, REACH / max(length, 1e-12))
    return steps, short
