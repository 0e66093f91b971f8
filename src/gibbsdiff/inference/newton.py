r"""Newton steps of the whole posterior of φ: what the score, quiet patches and the prior tell.

Each of the three gives a gradient g and an information J, in the unit box. The denoiser and the
choice of quiet patches err, though, and both say by how much: nuisances ρ ~ N(0, S) move the score
by G ρ. Integrated out, such a source tells, eq. (16),

    J_eff = J (J + G S Gᵀ)⁻¹ J,      g_eff = J (J + G S Gᵀ)⁻¹ g

the same step, J⁻¹ g, with less weight. The posterior's covariance is (Σ J_eff + Λ)⁻¹, with the
curvature Λ of the prior: nothing is differentiated by differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.fourier import half_plane
from gibbsdiff.inference.marginal import Marginal, Score
from gibbsdiff.inference.model_error import score_by_rho
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.search import (
    SEARCH,
    Mode,
    make_positive_definite,
    next_step,
)

BELOW = 2.0  # of log σ, the lower of two starts
REACH = 0.5  # rms by which log N of a channel may change in a step
BENT = (0.05, 0.3)  # how much of that, at least and in parts of it, may not be in proportion
STILL = 0.05  # rms change of log N that is the last
SAME = 0.5  # in log power: ends that near are one
POINTS = 5
NEAR = (0.3, 0.01)  # how short the last step is, in sd and in prior widths
SOURCES = ("the network", "quiet places", "the prior")


def told_by(shares: Tensor) -> str:
    """How much of what is known came from whom: shares (3, d), in words."""
    parts = zip(SOURCES, shares.mean(1).tolist(), strict=True)
    return "known from " + ", ".join(f"{name} {100 * part:.0f} %" for name, part in parts)


class Told(NamedTuple):
    """What a source says at φ, in the unit box: gradient (B, d), information (B, d, d), and the
    covariance G S Gᵀ (B, d, d) that its own error gives the gradient.
    """

    gradient: Tensor
    information: Tensor
    error: Tensor

    def tempered(self) -> tuple[Tensor, Tensor]:
        """g_eff and J_eff."""
        J = make_positive_definite(self.information)
        part = J @ torch.linalg.inv(J + self.error)
        return (part @ self.gradient[..., None])[..., 0], part @ J


@dataclass(frozen=True)
class QuietData:
    """Quiet places, beside the score: the Whittle likelihood of their spectra, which may all be
    lower than those of the whole picture by e^-r, r ~ N(m, s²), and the level by brightness.
    """

    quiet: Quiet
    raised: tuple[float, float] = (0.0, 0.0)

    def tell(self, marginal: Marginal, phi: Tensor) -> Told:
        """What it says of φ (B, d)."""
        noise, width, (mean, sd) = marginal.noise, marginal.width, self.raised
        own = self.quiet.statistic(noise.spectra)
        statistic = replace(own, P=own.P * math.exp(mean))
        with torch.enable_grad():
            at = phi.detach().requires_grad_()
            (g,) = torch.autograd.grad(noise.log_likelihood(at, statistic).sum(), at)
        slopes = marginal.slopes(statistic.k, phi)
        modes = 0.5 * statistic.channels * statistic.modes.expand(len(phi), -1, -1)
        J = torch.einsum("brm,birm,bjrm->bij", modes, slopes, slopes)
        G = sd * torch.einsum("brm,birm->bi", modes, slopes)
        g, error = g * width, G[:, :, None] * G[:, None, :]
        for name, value, spread in zip(
            noise.level_names,
            self.quiet.curve.tolist(),
            self.quiet.level_sd.tolist(),
            strict=False,
        ):
            if name in noise.names:
                i = noise.names.index(name)
                g[:, i] += (value - phi[:, i]) * width[i] / spread**2
                J[:, i, i] += (width[i] / spread) ** 2
        return Told(g, J, error)


def by_score(marginal: Marginal, phi: Tensor, score: Score) -> Told:
    """The denoiser's, without the prior, and its error by eq. (12)."""
    known = marginal.noise_error
    J = score.information
    error = torch.zeros_like(J)
    if known is not None:
        G = score_by_rho(marginal, phi, score.at)
        own = known.scatter[: G.shape[-1], : G.shape[-1]].double()
        error = G @ own @ G.mT + _error_of_level(marginal, score)
    return Told(score.gradient - by_prior(marginal, phi)[0], J, error)


def _error_of_level(marginal: Marginal, score: Score) -> Tensor:
    """G S Gᵀ of the curve's own parameters: places of one brightness are often alike, and a network
    errs in them together, the more the less it sees of the noise there.
    """
    noise, at = marginal.noise, score.at
    form = noise.level_curve
    if form is None:
        return torch.zeros_like(score.information)
    error = {n: e for n, e in zip(form.names, form.score_error, strict=True) if n in noise.names}
    index = [noise.names.index(name) for name in error]
    kept = (at.E / at.N).clamp(0, 0.95).mean()
    odds = float(kept / (1 - kept))
    sd = torch.tensor([low + odds * more for low, more in error.values()], dtype=torch.float64)
    G = score.information[:, :, index] * (sd / marginal.width[index])
    return G @ G.mT


def by_prior(marginal: Marginal, phi: Tensor) -> tuple[Tensor, Tensor]:
    """∂ log p(φ)/∂u and Λ, in the unit box."""
    noise, width = marginal.noise, marginal.width
    curvature = (width[:, None] * noise.prior_curvature() * width).expand(len(phi), -1, -1)
    with torch.enable_grad():
        at = phi.detach().requires_grad_()
        value = noise.log_prior(at).sum()
        if not value.requires_grad:
            return torch.zeros_like(phi), curvature
        (gradient,) = torch.autograd.grad(value, at)
    return gradient * width, curvature


def climb_whole(
    marginal: Marginal,
    beside: QuietData | None,
    start: Tensor,
    most: int = 8,
    progress: Progress = silent,
) -> tuple[Mode, Tensor]:
    """The mode of the whole posterior from φ (1, d), and the shares (3, d) of the information on
    each parameter that came from the network, from quiet places and from the prior.

    All steps ask the derivative of the denoiser for its error: its own word of it, a third of the
    cost, leads away from where quiet places begin.
    """
    u = ((start - marginal.noise.low) / marginal.width).clamp(0, 1)
    ended = torch.zeros(len(u), dtype=torch.bool)
    calls = 0
    for i in range(most):
        progress(SEARCH, i, most)
        score = marginal.score(u)
        calls += marginal.cost
        g, H, _ = _together(marginal, beside, marginal.phi(u), score)
        step, short = next_step(u, g, H, [], NEAR)
        there, change = _moved(marginal, u, step)
        if bool(short.all()) or change < STILL:
            ended = torch.ones_like(ended)
            break
        u = there
    progress(SEARCH, most, most)
    if not bool(ended.all()):
        score = marginal.score(u)
        calls += marginal.cost
    phi = marginal.phi(u)
    _, H, shares = _together(marginal, beside, phi, score)
    width = marginal.width
    scale = width[:, None] * width
    total = torch.linalg.inv(make_positive_definite(H)) * scale
    _, naive, _ = _together(marginal, beside, phi, score, errors=False)
    raw = torch.linalg.inv(make_positive_definite(naive)) * scale
    linear, part = total, in_proportion(marginal, u, total)
    total, raw = (part[:, None] * covariance * part for covariance in (total, raw))
    around = marginal.around(phi, probe=False)
    calls += marginal.cost
    mode = Mode(phi, raw, raw, score.at, around, calls, ended)
    return replace(mode, model_error=total - raw, linear=linear), shares


def _moved(marginal: Marginal, u: Tensor, step: Tensor) -> tuple[Tensor, float]:
    """u + step, or the half, quarter, … of it by which log N changes about as a Newton step takes
    it to: in proportion, and not too far. And the rms of the change that the whole step would make,
    about, in the channel of the largest.
    """
    k = marginal.noise.grouping(marginal.shape).k
    share = k.fraction.sqrt()
    here = marginal.noise.log_spectra(k, marginal.phi(u))
    along = torch.einsum("birm,bi->brm", marginal.slopes(k, marginal.phi(u)), step)
    there, size = u, torch.zeros(())
    for part in (1.0, 0.5, 0.25, 0.125, 0.0625):
        there = (u + part * step).clamp(0, 1)
        change = marginal.noise.log_spectra(k, marginal.phi(there)) - here
        both = (change, change - part * along)
        size, off = ((share * d).square().sum(-1).amax().sqrt() for d in both)
        if float(size) < REACH and float(off) < BENT[0] + BENT[1] * float(size):
            break
    return there, float(size) / part


def in_proportion(marginal: Marginal, u: Tensor, covariance: Tensor) -> Tensor:
    """The part (d,) of each sd within which log N changes about in proportion. At a wall it may not
    change at all at first, such as for no roll-off: J is 0 there, and draws as wide as the prior
    would have spectra that y has long refuted.
    """
    k = marginal.noise.grouping(marginal.shape).k
    phi, share = marginal.phi(u), k.fraction.sqrt()
    here, slopes = marginal.noise.log_spectra(k, phi), marginal.slopes(k, phi)
    parts = torch.ones(u.shape[1], dtype=torch.float64)
    for i, sd in enumerate(covariance[0].diagonal().clamp(min=0).sqrt() / marginal.width):
        for part in (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125):
            parts[i] = part
            steps = torch.zeros(2, u.shape[1], dtype=torch.float64)
            steps[:, i] = torch.stack([part * sd, -part * sd])
            there = (u + steps).clamp(0, 1)
            change = marginal.noise.log_spectra(k, marginal.phi(there)) - here
            off = change - slopes[:, i] * (there - u)[:, i, None, None]
            size, bent = ((share * d).square().sum(-1).amax().sqrt() for d in (change, off))
            if float(bent) < BENT[0] + BENT[1] * float(size):
                break
    return parts


def climb_from_both_ends(
    marginal: Marginal, above: Tensor, most: int, progress: Progress = silent
) -> tuple[Mode, Tensor, bool]:
    """The mode where no place is surely quiet, the shares, and whether noise was told from texture.

    Where N is believed too small the network keeps everything, and the score says nothing; where it
    is believed to be all of y, it takes texture for noise. So there may be two ends: one from
    `above`, φ (1, d) of all power that the quietest places have, and one from far below. Where they
    differ, log p is the integral of the score between them, and its error that of the score.
    """
    noise, width = marginal.noise, marginal.width
    at = noise.names.index("log_sigma") if "log_sigma" in noise.names else 0
    below = above.clone()
    below[:, at] = torch.maximum(below[:, at] - BELOW, noise.low[at])
    starts = (above, below)
    ends = [climb_whole(marginal, None, start, most, progress=progress) for start in starts]
    upper, lower = (mode for mode, _ in ends)
    calls = upper.calls + lower.calls
    between = ((upper.phi - lower.phi) / width)[0]
    told, gain, error = True, 0.0, torch.zeros((), dtype=torch.float64)
    modes = half_plane(marginal.shape)
    levels = [float(modes.mean(m.at.N.flatten(2)).mean()) for m in (upper, lower)]
    if abs(math.log(levels[0] / levels[1])) > SAME:
        # Gauss and Legendre's five points; errors at all of them are one and the same.
        nodes, weights = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(POINTS))
        for node, weight in zip(nodes, weights, strict=True):
            u = (lower.phi - noise.low) / width + (1 + node) / 2 * between
            score = marginal.score(u.clamp(0, 1), probe=False)
            phi = marginal.phi(u.clamp(0, 1))
            known = by_score(marginal, phi, score)
            gain += float(weight / 2 * (known.gradient[0] @ between))
            error = error + weight / 2 * (between @ known.error[0] @ between).clamp(min=0).sqrt()
            calls += marginal.cost
        told = abs(gain) > max(3.0, 2 * float(error))
    mode, shares = ends[0] if gain > 0 and told else ends[1]
    if levels[0] <= levels[1] * math.exp(SAME):
        mode, shares = ends[0]
    return replace(mode, calls=calls), shares, told


def _together(
    marginal: Marginal,
    beside: QuietData | None,
    phi: Tensor,
    score: Score,
    errors: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """g and H of all sources, and their shares of H's diagonal."""
    told = [by_score(marginal, phi, score)]
    if beside is not None:
        told.append(beside.tell(marginal, phi))
    parts = [t.tempered() if errors else (t.gradient, t.information) for t in told]
    if beside is None:
        parts.append((torch.zeros_like(parts[0][0]), torch.zeros_like(parts[0][1])))
    parts.append(by_prior(marginal, phi))
    g = torch.stack([part[0] for part in parts]).sum(0)
    each = torch.stack([part[1] for part in parts])
    diagonals = each.diagonal(dim1=-2, dim2=-1)[:, 0].clamp(min=0)
    return g, each.sum(0), diagonals / diagonals.sum(0).clamp(min=1e-300)
