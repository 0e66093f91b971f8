r"""How wrong the noise is that a denoiser leaves: N̂ = |y-D|² + Ê against |y-x|².

With e = x-D and r = y-D, |y-x|² = |r|² + |e|² - 2 Re e*r. The last term is 0 on average if D is the
posterior mean. A network that has not learnt enough leaves some of it, and N̂ is too large or too
small by it, in the same way on all images: a gain removes it. What is left scatters from image to
image. It has the size ρ √(E (N-E)) of a correlation ρ between e and r, whose powers are E and N-E:
measured so, ρ(|k|) is the same at all levels of the noise, eq. (12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import torch
from scipy.stats import chi2
from torch import Tensor

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration, overlap
from gibbsdiff.diffusion.denoiser import NoiseError
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import REFERENCE, between_references, half_plane
from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.model_error import score_by_rho
from gibbsdiff.inference.score import ScoreAt
from gibbsdiff.inference.weights import Sureness
from gibbsdiff.noise.families import PowerLawNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training.error_table import (
    LEVELS,
    SLOPES,
    bare_with,
    errors,
    fit_factor,
    hats_of,
    penalty,
    place_in_ratio,
)
from gibbsdiff.training.evaluation import observed, parameters_of

BATCH = 16
MOST = 54  # images that ρ is measured on, at all cells: its derivatives cost two calls each
MOST_SCALE = 4.0  # of a scatter
TOGETHER = 16.0  # neighbouring modes of an image are wrong together: they count as one
BELIEF = 0.05  # sd of a gain, before it is measured


def fit_calibration(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = LEVELS,
    phi: Sequence[float | tuple[float, ...]] = SLOPES,
    family: StationaryNoise | None = None,
    with_gain: bool = False,
    rule: Sureness | None = None,
    more: Sequence[float] = (),
) -> Calibration:
    """What held-out images say of a denoiser: the gain, if it is to have one, then c given the
    gain, at the levels `sigma` and `more`, then how wrong the noise is given the gain and the error
    by ∂D/∂y, eq. (13), and the same with the weights of a `rule`, eq. (14).
    """
    gain = fit_gain(denoiser, images, sigma, phi, family=family) if with_gain else None
    log_c = fit_factor(denoiser, images, (*more, *sigma), phi, family=family, gain=gain)
    knots = log_c.shape[0] * log_c.shape[1]
    found = Calibration(log_c, torch.zeros(knots, knots, dtype=torch.float64), gain)
    known = SpectralDenoiser(denoiser.network, denoiser.signal, found)
    return with_scatter(known, images, sigma, phi, family, rule)


def with_scatter(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = LEVELS,
    phi: Sequence[float | tuple[float, ...]] = SLOPES,
    family: StationaryNoise | None = None,
    rule: Sureness | None = None,
) -> Calibration:
    """The denoiser's calibration with bias and scatter of eq. (12) measured anew, without weights
    and with those of the rule.
    """
    assert denoiser.calibration is not None
    bare = replace(denoiser.calibration, bias=None, weighted=None)
    known = SpectralDenoiser(denoiser.network, denoiser.signal, bare)
    bias, scatter = noise_error(known, images, sigma, phi, family=family)
    weighted = None
    if rule is not None:
        weighted = noise_error(known, images, sigma, phi, family=family, rule=rule)
    return replace(bare, bias=bias, scatter=scatter, weighted=weighted)


def fit_gain(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float],
    phi: Sequence[float | tuple[float, ...]],
    seed: int = 2,
    family: StationaryNoise | None = None,
) -> Tensor:
    """The table b(|k|, N/S_x) that minimises Σ w |e - b r|²/Ê and a penalty, (C, 8, 10)."""
    bare = bare_with(denoiser, None)
    shape, channels = (images.shape[-2], images.shape[-1]), images.shape[1]
    S_x = denoiser.signal.power(shape)
    weight = half_plane(shape).weight / TOGETHER
    along_k = between_references(shape)
    size = len(REFERENCE) * len(LOG_RATIO)
    A = torch.zeros(channels, size, size, dtype=torch.float64)
    B = torch.zeros(channels, size, dtype=torch.float64)
    for i, (s, p) in enumerate(product(sigma, phi)):
        for e in errors(bare, images, s, p, seed + i, family=family):
            # All images of a cell have the same N, so that their modes meet the same knots.
            v = place_in_ratio(e.noise[:1].double(), S_x).flatten(2)[0]
            of_r, of_er = (
                ((part / e.predicted).flatten(2).sum(0) * weight) for part in (e.residual, e.shared)
            )
            for c in range(channels):
                knots = along_k.T[:, :, None] * hats_of(v[c], len(LOG_RATIO))[:, None, :]
                X = knots.flatten(1)
                A[c] += X.T @ (of_r[c, :, None] * X)
                B[c] += X.T @ of_er[c]
    belief = penalty() / BELIEF**2
    return torch.linalg.solve(A + belief, B[..., None])[..., 0].reshape(
        channels, len(REFERENCE), len(LOG_RATIO)
    )


@torch.no_grad()
def noise_error(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float],
    phi: Sequence[float | tuple[float, ...]],
    seed: int = 200,
    family: StationaryNoise | None = None,
    rule: Sureness | None = None,
) -> NoiseError:
    """Median, over images and cells, of ρ_j = Σ w h_j (N̂ - |y-x|²)/N / Σ w h_j q, and its scatter.

    N̂ is that of the score, eq. (13), with the weights of a `rule`, eq. (14), if there is one; they
    then weight |y-x|² too. Subtracted is what a finite number of modes makes of a D and Ê that are
    right: with independent e ~ N(0, Ê) a mode of weight w has the variance
    (2 Ê² + 4 |r|² Ê)/(w N²), over the share of modes that the weights leave. ρ has heavy tails, and
    what it does to φ is not known from its second moments alone: the scatter is scaled so that it
    gives the φ of these very images the error bars that two thirds of them need.
    """
    noise = family or PowerLawNoise()
    images = images[:: -(-len(images) // MOST)]
    near = on_device(denoiser, next(denoiser.parameters()).device)

    def observations() -> Iterator[Observed]:
        for i, (s, p) in enumerate(product(sigma, phi)):
            for first in range(0, len(images), BATCH):
                x = images[first : first + BATCH]
                y, _ = observed(x, s, p, seed + i, first, family)
                yield Observed(Marginal(y, noise, near), parameters_of(s, p, len(x)), x)

    return error_over(observations(), rule)


class Observed(NamedTuple):
    """Observations, and the φ (B, d) and x that they were made from."""

    marginal: Marginal
    phi: Tensor
    x: Tensor


@torch.no_grad()
def error_over(
    observations: Iterable[Observed],
    rule: Sureness | None = None,
    few: float = 0.0,
    scale: Callable[[Heard, Tensor, Tensor], float] | None = None,
) -> NoiseError:
    """Bias and scatter of ρ over observations, as `noise_error` has them.

    A part `few` of the observations, those whose ρ is off by most, count as if they were off by as
    much as the next; κ of the scatter is found by `scale`, `needed` by default. φ may be drawn from
    a Gaussian prior: its curvature is then part of what the score scatters by. Parameters of a
    level map, eq. (15), do not depend on ρ: errors of their score are left out.
    """
    found, sampled, scores = [], [], []
    for given, truth, x in observations:
        marginal = given if rule is None else listening(given, rule, truth)
        noise = marginal.noise
        score = marginal.score((truth - noise.low) / marginal.width)
        rho, sampling = _rho(marginal, score.at, x)
        found.append(rho)
        sampled.append(sampling)
        own = [i for i, name in enumerate(noise.names) if name not in noise.level_names]
        belief = noise.prior_curvature() * marginal.width[:, None] * marginal.width
        J, V = ((part + belief)[:, own][:, :, own] for part in (score.information, score.variance))
        by_rho = score_by_rho(marginal, truth, score.at)[:, own]
        scores.append(Heard(score.gradient[:, own], J, V, by_rho))
    rho = torch.cat(found)
    # The median: few images are very wrong at large scales.
    bias = rho.median(0).values
    around = rho - bias
    most = around.abs().quantile(1 - few, 0)
    around = around.clamp(-most, most)
    second = around.T @ around / len(around) - torch.stack(sampled).mean(0)
    scatter = nearest_covariance(second)
    heard = Heard(*(torch.cat(column) for column in zip(*scores, strict=True)))
    return NoiseError(bias, (scale or needed)(heard, bias, scatter) * scatter)


class Heard(NamedTuple):
    """Of images at their true φ: the score g (B, d), its information J and variance V (B, d, d),
    and ∂g/∂ρ (B, d, 8 C).
    """

    g: Tensor
    J: Tensor
    V: Tensor
    by_rho: Tensor


def needed(heard: Heard, bias: Tensor, scatter: Tensor, part: float = 0.68) -> float:
    """κ, for which a `part` of the images has φ̂ - φ = J⁻¹(g - ∂g/∂ρ ρ̄) within the ellipsoid that
    J⁻¹ (V + κ ∂g/∂ρ Cov ρ ∂g/∂ρᵀ) J⁻¹ gives to that part.
    """
    g = heard.g - heard.by_rho @ bias
    M = heard.by_rho @ scatter @ heard.by_rho.mT
    within = float(chi2.ppf(part, g.shape[1]))

    def too_small(kappa: float) -> bool:
        size = torch.einsum("bi,bi->b", g, torch.linalg.solve(heard.V + kappa * M, g))
        return float(torch.quantile(size, part)) > within

    return _least(too_small)


def needed_by_each(heard: Heard, bias: Tensor, scatter: Tensor, part: float = 0.95) -> float:
    """κ, for which the intervals of a `part` of all images and parameters hold φ: for families with
    many parameters, where the ellipsoid is about the one that is known worst.
    """
    inverse = torch.linalg.inv(heard.J)
    off = torch.einsum("bij,bj->bi", inverse, heard.g - heard.by_rho @ bias).square()
    A = inverse @ heard.by_rho
    own, more = inverse @ heard.V @ inverse, A @ scatter @ A.mT
    within = float(chi2.ppf(part, 1))

    def too_small(kappa: float) -> bool:
        size = off / (own + kappa * more).diagonal(dim1=1, dim2=2)
        return float(torch.quantile(size, part)) > within

    return _least(too_small)


def _least(too_small: Callable[[float], bool]) -> float:
    """The smallest κ up to MOST_SCALE that is not."""
    low, high = 0.0, MOST_SCALE
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high


def _rho(marginal: Marginal, at: ScoreAt, x: Tensor) -> tuple[Tensor, Tensor]:
    """ρ (B, 8 C) of images at their true φ and x, and its mean sampling variance (8 C, 8 C)."""
    weight, hats = half_plane(marginal.shape).weight, between_references(marginal.shape)
    rows, observation = torch.arange(len(x)), marginal.observation
    mean, E, N = (part.double() for part in (at.mean, at.E, at.N))
    g = 1.0 if at.g is None else at.g
    left, true = (observation.power((marginal.y - z) / g, rows, N) for z in (mean, x))
    off = ((left + E - true) / N).flatten(2) * weight
    q = torch.einsum("bcm,jm->bcj", overlap(E, N).flatten(2) * weight, hats)
    q = q.clamp(min=1e-9)  # a small image has no mode near the lowest knots
    rho = (torch.einsum("bcm,jm->bcj", off, hats) / q).flatten(1)
    E = E.clamp(min=0)
    share = observation.counted(rows).view(-1, 1, 1, 1)
    v = ((2 * E**2 + 4 * left * E) / N**2 / share).flatten(2) * weight
    sampling = torch.einsum("bcm,im,jm->bcij", v, hats, hats)
    sampling = sampling / (q[..., :, None] * q[..., None, :])
    return rho, torch.block_diag(*sampling.mean(0))


def nearest_covariance(matrix: Tensor) -> Tensor:
    """A symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * values.clamp(min=0)) @ vectors.T
