r"""The integral by which the paper judges whether conditionals are compatible,

    I(φ) = ∫ q(x | y, φ) / p(φ | x, y) dx < ∞,

where it can be computed. If one joint π has both conditionals, I = 1/π(φ | y).

In a prior box, for the problem of Theorem 2.3 (`stationary`), I = r/p(σ | y). It is infinite where
q(x | y, σ) falls off more slowly with |y - x| than p(σ | x, y) does. The chain converges all the
same: its kernel is positive and continuous on a compact box.

Without a box the prior's tail decides. `ScaleProblem` has p(σ) ∝ σ^(-1-κ) on all σ > 0 and exact
conditionals; the posterior that they belong to exists for some κ only, and so does the limit of the
chain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import digamma, gammaln, hyp1f1, polygamma
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.stationary import Conditional, Grid, log_ratio
from gibbsdiff.streams import Streams


def log_integral(y: Tensor, p: Grid, truth: Conditional, q: Conditional) -> Tensor:
    """log I(σ) = log r(σ) - log p(σ | y) on the grid, (G,), for a uniform prior in its range.

    It is finite where V_q(σ) (1/σ² - 1/σ_max²) < 1 in every mode, infinite where it is > 1 in one.
    """
    return log_ratio(y, p, truth, q) - torch.log(p.density)


def finite_above(y: Tensor, p: Grid, q: Conditional) -> float:
    """The smallest σ of the grid from which on I(σ) is finite, by the condition on V_q."""
    _, V = q.moments(y, p.sigma)
    excess = 1 / p.sigma**2 - 1 / p.sigma[-1] ** 2
    infinite = (V.amax(-1) * excess >= 1).nonzero()
    return float(p.sigma[int(infinite.max()) + 1 if len(infinite) else 0])


@dataclass(frozen=True)
class ScaleProblem:
    r"""White x ~ N(0, S) and ε ~ N(0, σ²) in n pixels, |y|² = `energy`, p(σ) ∝ σ^(-1-κ) for σ > 0.

    κ = -1 is uniform in σ, κ = 0 uniform in log σ. Both conditionals exist for every κ > -n:

        p(σ | x, y): |y - x|²/σ² ~ χ²_{n+κ},   q(x | y, σ) = N( S y/(S + σ²), S σ²/(S + σ²) ).

    Their ratio factors into u(x) v(σ) for every κ, with u = p(x) Z(|y - x|) and
    Z(r) ∝ r^-(n+κ), which is integrable around x = y only if κ < 0. The same holds for any prior
    density of x that is continuous and positive at y.
    """

    pixels: int
    energy: float
    S: float
    kappa: int

    def __post_init__(self) -> None:
        if min(self.pixels, self.energy, self.S) <= 0 or self.pixels + self.kappa < 1:
            raise InputError(
                f"pixels, energy and S must be positive and kappa above -{self.pixels}: {self}"
            )

    def log_integral(self, sigma: Tensor) -> Tensor:
        r"""log I(σ), infinite for κ ≥ 0. With a = (n+κ)/2 and λ = |y|²/S

            I = σ^(1+κ) (S + σ²)^(n/2) e^{|y|²/2(S+σ²)} · ½ S^-a Γ(a) e^{-λ/2}
                · Γ(-κ/2)/Γ(n/2) · ₁F₁(-κ/2; n/2; λ/2),

        the last factors being the mean of Z over x ~ p(x): a negative moment of a non-central χ².
        """
        if self.kappa >= 0:
            return torch.full_like(sigma, math.inf)
        n, a, b = self.pixels, 0.5 * (self.pixels + self.kappa), -0.5 * self.kappa
        half = 0.5 * self.energy / self.S
        log_moment = gammaln(a) + gammaln(b) - gammaln(0.5 * n) - a * math.log(self.S) - half
        # Kummer: ₁F₁(b; c; z) = e^z ₁F₁(c - b; c; -z), here without its overflow.
        log_moment += half + math.log(hyp1f1(0.5 * n - b, 0.5 * n, -half) / 2)
        total = self.S + sigma**2
        log_evidence = -0.5 * (n * torch.log(total) + self.energy / total)
        return (1 + self.kappa) * torch.log(sigma) - log_evidence + log_moment

    @property
    def drift(self) -> float:
        """E[log σ' - log σ] of an iteration at small σ: ½ [ψ(n/2) - ψ((n+κ)/2)]."""
        return 0.5 * float(digamma(self.pixels / 2) - digamma((self.pixels + self.kappa) / 2))

    @property
    def step(self) -> float:
        """The standard deviation of log σ' - log σ there: ½ [ψ'(n/2) + ψ'((n+κ)/2)]^½."""
        both = polygamma(1, self.pixels / 2) + polygamma(1, (self.pixels + self.kappa) / 2)
        return 0.5 * math.sqrt(float(both))

    def chains(
        self, start: float, *, chains: int = 1000, iterations: int = 400, seed: int = 0
    ) -> Tensor:
        """log σ of Gibbs chains from σ = `start`: (chains, iterations + 1).

        y enters by |y| alone, so all of it is put into one pixel. (y - x)/σ is drawn itself: as a
        difference of floating-point numbers it would be 0 at very small σ.
        """
        rng = Streams.batch(seed, 1)
        log_sigma = torch.full((chains,), math.log(start), dtype=torch.float64)
        out = [log_sigma]
        for _ in range(iterations):
            sigma = torch.exp(log_sigma)
            total = self.S + sigma**2
            residual = (self.S / total).sqrt()[:, None] * rng.normal(chains, self.pixels)[0]
            residual[:, 0] += sigma / total * math.sqrt(self.energy)
            chi2 = rng.normal(chains, self.pixels + self.kappa)[0].square().sum(-1)
            log_sigma = log_sigma + 0.5 * torch.log(residual.square().sum(-1) / chi2)
            out.append(log_sigma)
        return torch.stack(out, -1)
