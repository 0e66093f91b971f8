r"""What is known of φ, in the unit box: by the score, by quiet places and by the prior.

Each gives a gradient g and an information J. The denoiser and the law of quiet places err, though,
and both say by how much. A source whose error moves its gradient by G ρ, ρ ~ N(0, S), tells, with
ρ integrated out, eq. (16),

    J_eff = J (J + G S Gᵀ)⁻¹ J,      g_eff = J (J + G S Gᵀ)⁻¹ g

the same step, J⁻¹ g, with less weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.fourier import REFERENCE, between_references, half_plane
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.matrices import make_positive_definite
from gibbsdiff.inference.observation import stationary
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.score import Score, ScoreAt, sum_by_owner

MOST = 6.0  # of |y-D|²/N in one mode: a grating or moiré, if it is taken for noise, has hundreds
HEARD = 0.5  # of what flat places have less than the picture, by the score, which hears others too
PROCESSED = 3.0  # times the error of the level by the score: a camera's noise goes with texture
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


def by_score(
    marginal: Marginal, phi: Tensor, score: Score, errors: bool = True, raised: float = 0.0
) -> Told:
    """The denoiser's, without the prior, and its error by eq. (12).

    Modes around a reference frequency are wrong together, by ρ q: they count less, by how much
    that is more than chance. What errors have in common over frequencies is not taken off: it was
    measured on few pictures, and a fit that trusts it moves far to explain a little. `raised`, of
    noise that a camera has processed, is how much more log N the picture has than is heard.
    """
    g, J = score.gradient - by_prior(marginal, phi)[0], score.information
    known = marginal.noise_error
    if known is None or not errors:
        return Told(g, J, torch.zeros_like(J))
    rows, owner = marginal.rows(len(phi))
    trust = trusted(marginal, score.at, known.scatter, owner, len(phi))
    noise, at = stationary(marginal.noise), score.at
    residual = marginal.y[rows] - at.mean
    seen = marginal.observation.statistic(residual, rows, at.E, at.N, at.g, most=MOST)
    grouping = noise.grouping(marginal.shape)
    t = noise.by_spectrum(trust)[0] / noise.by_spectrum(torch.ones_like(trust))[0]
    t = (grouping.sum(t) / grouping.k.weight)[owner]
    slopes = marginal.slopes(seen.k, phi)[owner]
    log_n = noise.log_spectra(seen.k, phi)[owner]
    held = marginal.in_groups((1 - at.E / at.N).clamp(0, 1).square(), rows)
    # A score that is zero at log N - raised is J times that at log N.
    excess = 0.5 * (seen.P * torch.exp(-log_n) - seen.channels * seen.modes + raised * held)
    told = torch.einsum("brm,birm->bi", t * excess, slopes)
    information = 0.5 * torch.einsum("brm,birm,bjrm->bij", t * held, slopes, slopes)
    told, information = (sum_by_owner(v, owner, len(phi)) for v in (told, information))
    level = torch.tensor([name in noise.level_names for name in noise.names])
    if raised:
        # What a spectrum's parameter says of the level falls as what it says of itself. Elsewhere
        # the full coupling is better: it holds a search near where quiet places begin.
        parts = [m.diagonal(dim1=1, dim2=2).clamp(min=1e-12) for m in (information, J)]
        less = torch.where(level, 1.0, (parts[0] / parts[1]).sqrt())
        J = less[:, :, None] * J * less[:, None, :]
    both = level[:, None] | level
    g, J = torch.where(level, g, told), torch.where(both, J, information)
    return Told(g, J, (PROCESSED if raised else 1.0) ** 2 * _error_of_level(marginal, at, J))


def trusted(marginal: Marginal, at: ScoreAt, scatter: Tensor, owner: Tensor, count: int) -> Tensor:
    """How much each mode counts, (n, C, H, W//2+1): J/(J + n² S) of the reference frequencies
    around it, with n the change of the score by ρ. Errors that go together count so often.
    """
    shape, C = marginal.shape, at.E.shape[1]
    modes = half_plane(shape)
    hats = between_references(shape) * modes.weight
    counted = marginal.observation.counted(marginal.rows(count)[0]).view(-1, 1, 1)
    kept = (1 - at.E / at.N).clamp(0, 1).square()
    moved, J = (
        sum_by_owner(0.5 * counted * (v.double().flatten(2) @ hats.T), owner, count)
        for v in (overlap(at.E, at.N), kept)
    )
    n = C * len(REFERENCE)
    own = scatter[:n, :n].double()
    sd = own.diagonal().clamp(min=1e-24).sqrt()
    together = (own / sd[:, None] / sd).square().sum(1)
    S = (own.diagonal() * together).reshape(C, -1)
    t = J / (J + moved.square() * S).clamp(min=1e-12)
    return torch.stack([in_every_mode(one, shape) for one in t])


def _error_of_level(marginal: Marginal, at: ScoreAt, J: Tensor) -> Tensor:
    """G S Gᵀ of the curve's own parameters: places of one brightness are often alike, and a network
    errs in them together, the more the less it sees of the noise there.
    """
    noise = marginal.noise
    form = noise.level_curve
    if form is None:
        return torch.zeros_like(J)
    error = {n: e for n, e in zip(form.names, form.score_error, strict=True) if n in noise.names}
    index = [noise.names.index(name) for name in error]
    kept = (at.E / at.N).clamp(0, 0.95).mean()
    odds = float(kept / (1 - kept))
    sd = torch.tensor([low + odds * more for low, more in error.values()], dtype=torch.float64)
    G = J[:, :, index] * (sd / marginal.width[index])
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


def together(
    marginal: Marginal,
    beside: QuietData | None,
    phi: Tensor,
    score: Score,
    errors: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """g and H of all sources, and their shares of H's diagonal."""
    raised = 0.0 if beside is None else HEARD * beside.raised[0]
    told = [by_score(marginal, phi, score, errors, raised)]
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
