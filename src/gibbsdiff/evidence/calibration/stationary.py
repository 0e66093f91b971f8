r"""Where Gibbs chains end up when q(x | y, φ) is not p(x | y, φ): Theorem 2.3 of the paper, on a
Gaussian signal under white noise of unknown σ, where both of its sides can be computed.

The chain alternates x ~ q(x | y, σ) with the exact σ ~ p(σ | y - x). If the two are the
conditionals of one joint π(σ, x | y), they are called compatible, and

    KL[p(σ | y) ‖ π(σ | y)] = E_{p(σ|y)} log r(σ),   r(σ) = E_{p(x|y)} [ q(x | y, σ)/p(x | y, σ) ],

where r is p(σ | y)/π(σ | y) itself. Sums over modes follow eq. (8): a mode of the half-plane counts
w times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.signal import PowerLawSignal, wiener
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams


@dataclass(frozen=True)
class Conditional(Denoiser):
    """q(x | y, σ) = N(D + bias, width · V), where D and V belong to the spectrum S_x of `signal`.

    Without bias and of width 1 it is the exact posterior under that spectrum, right or wrong:
    compatible. A bias that does not depend on σ is incompatible, because q(x | y, σ)/p(σ | x, y)
    then holds the term bias · x/V_σ, which is no product of functions of x and of σ; another width
    is so by the term |y - x|²/σ².
    """

    signal: PowerLawSignal
    bias: float = 0.0
    width: float = 1.0
    error_model = True

    def __call__(self, z: Tensor, noise: NoiseCovariance) -> Estimate:
        """Mean and covariance, as a denoiser: one call draws x exactly from q."""
        mean, error = GaussianDenoiser(self.signal)(z, noise)
        assert isinstance(error, SpectralCovariance)
        return Estimate(mean + self.bias, replace(error, power=self.width * error.power))

    def moments(self, y: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """The mean's transform and V in every mode, for σ (G,) and y (1, 1, H, W): (G, M)."""
        S_x = self.signal.power((y.shape[-2], y.shape[-1])).flatten()
        w = wiener(S_x, sigma[:, None] ** 2)
        centre = torch.fft.rfft2(torch.full_like(y, self.signal.mean), norm="ortho").flatten()
        observed = torch.fft.rfft2(y, norm="ortho").flatten()
        shift = torch.fft.rfft2(torch.full_like(y, self.bias), norm="ortho").flatten()
        return centre + shift + w.skip * (observed - centre), self.width * w.V


class Grid(NamedTuple):
    """A density on equally spaced values of σ: Σ density · spacing = 1."""

    sigma: Tensor
    density: Tensor

    @property
    def spacing(self) -> float:
        """Distance between the values."""
        return float(self.sigma[1] - self.sigma[0])


def exact(y: Tensor, noise: WhiteNoise, signal: PowerLawSignal, points: int = 241) -> Grid:
    """p(σ | y) under this signal's spectrum, eq. (10), on the whole prior range."""
    sigma = torch.linspace(float(noise.low), float(noise.high), points, dtype=torch.float64)
    covariance = noise.covariance((y.shape[-2], y.shape[-1]), sigma[:, None])
    evidence = GaussianDenoiser(signal).log_evidence(y.expand(points, -1, -1, -1), covariance)
    return normalised(sigma, evidence)


def normalised(sigma: Tensor, log_density: Tensor) -> Grid:
    """A grid from an unnormalised log-density."""
    return Grid(sigma, torch.softmax(log_density, -1) / (sigma[1] - sigma[0]))


def log_ratio(y: Tensor, p: Grid, truth: Conditional, q: Conditional) -> Tensor:
    r"""log r(σ) of the theorem, (G,): a Gaussian integral over x in every mode.

    For x ~ N(μ', V'), the conditional of p at another σ', weighted with p(σ' | y):

        log E q/p = Σ_k w/2 [ log V_p/V_q - log V'A + |B|²/A - C ],
        A = 1/V' + 1/V_q - 1/V_p,   B = μ'/V' + μ_q/V_q - μ_p/V_p,   C alike with |μ|²,

    and infinite if A ≤ 0 in any mode, at any σ' of the grid.
    """
    weight = half_plane((y.shape[-2], y.shape[-1])).weight
    mu_p, V_p = truth.moments(y, p.sigma)
    mu_q, V_q = q.moments(y, p.sigma)
    log_p = torch.log(p.density * p.spacing)
    out = []
    for mp, vp, mq, vq in zip(mu_p, V_p, mu_q, V_q, strict=True):
        A = 1 / V_p + 1 / vq - 1 / vp
        B = mu_p / V_p + mq / vq - mp / vp
        C = mu_p.abs() ** 2 / V_p + mq.abs() ** 2 / vq - mp.abs() ** 2 / vp
        terms = torch.log(vp / vq) - torch.log(V_p * A) + B.abs() ** 2 / A - C
        terms = torch.where(A > 0, terms, torch.inf)
        out.append(torch.logsumexp(log_p + 0.5 * (weight * terms).sum(-1), 0))
    return torch.stack(out)


def theorem(y: Tensor, p: Grid, truth: Conditional, q: Conditional) -> tuple[float, float]:
    """The right-hand side E_p log r, and E_p 1/r, the mass of the density p/r that it is about.

    That mass is 1 for compatible conditionals. Otherwise there is no such density.
    """
    log_r = log_ratio(y, p, truth, q)
    mass = p.density * p.spacing
    return float((mass * log_r).sum()), float((mass * torch.exp(-log_r)).sum())


def kl(p: Grid, density: Tensor) -> Tensor:
    """KL[p ‖ π] for densities π (..., G) on the grid of p."""
    terms = torch.where(p.density > 0, p.density * torch.log(p.density / density), 0.0)
    return terms.sum(-1) * p.spacing


def total_variation(p: Grid, density: Tensor) -> float:
    """½ ∫ |p - π|."""
    return float(0.5 * (p.density - density).abs().sum() * p.spacing)


def chain_densities(
    y: Tensor,
    noise: WhiteNoise,
    q: Denoiser,
    p: Grid,
    *,
    chains: int = 48,
    iterations: int = 300,
    burn_in: int = 40,
    seed: int = 0,
) -> Tensor:
    """π̂(σ) of every chain, (chains, G): the mean of p(σ | y - x) over its draws of x.

    That mean (Rao-Blackwell) is an unbiased and smooth estimate of the stationary density of σ,
    compatible or not.
    """
    shape = (y.shape[-2], y.shape[-1])
    rng = Streams.batch(seed, chains)
    many = y.expand(chains, -1, -1, -1)
    phi = noise.draw_prior(rng)
    total = torch.zeros(chains, len(p.sigma), dtype=torch.float64)
    for i in range(iterations):
        x = few_step(q, many, noise.covariance(shape, phi), rng, calls=1).x
        statistic = noise.statistic(many - x)
        phi = noise.redraw_amplitude(phi, statistic, rng)
        if i >= burn_in:
            log_density = noise.log_likelihood(p.sigma[:, None, None], statistic)
            total += normalised(p.sigma, log_density.T).density
    return total / (iterations - burn_in)


class Measured(NamedTuple):
    """A divergence from chains, its standard error, and the density that they agree on."""

    kl: float
    error: float
    density: Tensor


def measured(p: Grid, densities: Tensor) -> Measured:
    """KL[p ‖ π̂] over chains; the jackknife gives its error and removes its leading bias."""
    n = len(densities)
    whole = densities.mean(0)
    without = kl(p, (n * whole - densities) / (n - 1))
    estimate = n * kl(p, whole) - (n - 1) * without.mean()
    error = ((n - 1) * without.var(unbiased=False)).sqrt()
    return Measured(float(estimate), float(error), whole)
