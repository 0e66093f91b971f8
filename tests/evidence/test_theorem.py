"""Theorem 2.3: KL[p(φ | y) ‖ π(φ | y)] of Gibbs chains with a wrong q(x | y, φ)."""

import math

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.evidence.calibration.stationary import (
    Conditional,
    chain_densities,
    exact,
    kl,
    log_ratio,
    measured,
    theorem,
    total_variation,
)
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.summary import load_arviz
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.streams import Streams

TRUE = PowerLawSignal((5e-3,), (2.0,))
EXACT = Conditional(TRUE)
WRONG = {
    "strong": Conditional(PowerLawSignal((6.5e-3,), (2.0,))),
    "steep": Conditional(PowerLawSignal((5e-3,), (2.4,))),
    "mean": Conditional(PowerLawSignal((5e-3,), (2.0,), 0.2)),
}
NOISE = WhiteNoise((0.2, 0.8))


def observed(shape, seed=3):
    x = GaussianDenoiser(TRUE).prior(shape, Streams(seed, [(0,)]))
    return x + NOISE.draw(shape, (0.45,), Streams(seed, [(1,)]))


@pytest.mark.parametrize("name", WRONG)
def test_closed_form_is_the_divergence_of_the_two_posteriors(name):
    """Compatible: π(σ | y) is the posterior under the wrong prior, so the left side is known."""
    y = observed((16, 16))
    p, pi = exact(y, NOISE, TRUE), exact(y, NOISE, WRONG[name].signal)
    right, mass = theorem(y, p, EXACT, WRONG[name])
    assert right == pytest.approx(float(kl(p, pi.density)), rel=1e-6, abs=1e-10)
    assert mass == pytest.approx(1, abs=1e-9)
    pointwise = torch.log(p.density / pi.density)
    assert torch.allclose(log_ratio(y, p, EXACT, WRONG[name]), pointwise, atol=1e-7)


@pytest.mark.parametrize("q", [WRONG["strong"], Conditional(TRUE, 0.03)], ids=["wrong", "biased"])
def test_the_ratio_is_an_average_over_x(q):
    """E over x ~ p(x | y) of q/p by plain Monte Carlo, a small image, compatible or not."""
    y = observed((8, 8))
    p = exact(y, NOISE, TRUE)
    n, at = 20000, 100
    rng = Streams.batch(7, 1)
    pick = torch.multinomial(p.density, n, replacement=True, generator=torch.manual_seed(0))
    mu, V = EXACT.moments(y, p.sigma)
    white = torch.fft.rfft2(rng.normal(n, 8, 8)[0], norm="ortho").flatten(1)
    x = mu[pick] + V[pick].sqrt() * white
    w = torch.where(torch.arange(5).remainder(4) == 0, 1.0, 2.0).repeat(8)

    def log_normal(mu, V):
        return -0.5 * (w * (torch.log(V) + (x - mu).abs() ** 2 / V)).sum(-1)

    mu_q, V_q = q.moments(y, p.sigma)
    ratio = torch.exp(log_normal(mu_q[at], V_q[at]) - log_normal(mu[at], V[at]))
    expected = float(log_ratio(y, p, EXACT, q)[at].exp())
    assert abs(float(ratio.mean()) - expected) < 4 * float(ratio.std()) / math.sqrt(n)


@pytest.mark.parametrize("name", ["strong", "steep"])
def test_chains_with_compatible_conditionals_have_the_divergence_of_the_theorem(name):
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    right, _ = theorem(y, p, EXACT, WRONG[name])
    found = measured(p, chain_densities(y, NOISE, WRONG[name], p, iterations=180))
    assert abs(found.kl - right) < 4 * found.error
    assert found.error < 0.06 * right


def test_the_right_conditional_leaves_no_divergence():
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    found = measured(p, chain_densities(y, NOISE, EXACT, p, iterations=120))
    assert abs(found.kl) < 4 * found.error < 2e-3


def test_incompatible_conditionals_do_not_follow_the_theorem():
    """A constant bias: p/r is no density, and the chains go elsewhere."""
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    q = Conditional(TRUE, bias=0.1)
    right, mass = theorem(y, p, EXACT, q)
    found = measured(p, chain_densities(y, NOISE, q, p, iterations=160))
    assert abs(mass - 1) > 0.05
    assert abs(found.kl - right) > 10 * found.error
    assert found.kl > 10 * found.error


def test_the_package_s_sampler_converges_to_the_same_distribution():
    """HMC in place of exact draws of σ: the mean of π(σ | y), not that of p(σ | y)."""
    y = observed((16, 16))
    q = Conditional(PowerLawSignal((1e-2,), (2.0,)))
    p, pi = exact(y, NOISE, TRUE), exact(y, NOISE, q.signal)
    settings = Settings(
        chains=6, iterations=160, burn_in=30, transitions=1, warm_up=30, stop_when_converged=False
    )
    (result,) = gibbs(y, NOISE, q, settings=settings, sampler=one_call)
    draws = result.phi[..., 0].numpy()
    error = float(load_arviz().mcse(draws, method="mean"))
    means = [float((g.sigma * g.density).sum()) * g.spacing for g in (pi, p)]
    assert abs(draws.mean() - means[0]) < 4 * error
    assert abs(draws.mean() - means[1]) > 6 * error


def one_call(denoiser, y, noise, rng):
    return few_step(denoiser, y, noise, rng, calls=1)


def test_pinsker_needs_its_constant():
    """TV ≤ √(KL/2) always; ½√KL is exceeded by a small shift, where TV → √(KL/π)."""
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    for q in WRONG.values():
        density = exact(y, NOISE, q.signal).density
        assert total_variation(p, density) <= math.sqrt(float(kl(p, density)) / 2)
    density = exact(y, NOISE, WRONG["strong"].signal).density
    assert total_variation(p, density) > 0.5 * math.sqrt(float(kl(p, density)))
