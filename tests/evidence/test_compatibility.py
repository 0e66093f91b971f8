"""The paper's compatibility integral: where it is finite, where not, and what chains do there."""

import math

import pytest
import torch
from scipy import integrate, stats

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.compatibility import ScaleProblem, finite_above, log_integral
from gibbsdiff.evidence.calibration.convergence import converge, transition
from gibbsdiff.evidence.calibration.stationary import (
    Conditional,
    chain_densities,
    exact,
    measured,
    theorem,
)
from gibbsdiff.inference.summary import RHAT, load_arviz
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.streams import Streams

TRUE = PowerLawSignal((5e-3,), (2.0,))
NOISE = WhiteNoise((0.2, 0.8))
WIDE = Conditional(TRUE, width=1.5)


def observed(shape, seed=3):
    x = GaussianDenoiser(TRUE).prior(shape, Streams(seed, [(0,)]))
    return x + NOISE.draw(shape, (0.45,), Streams(seed, [(1,)]))


@pytest.mark.parametrize("signal", [TRUE, PowerLawSignal((1e-2,), (2.2,), 0.1)])
def test_the_integral_of_compatible_conditionals_is_one_over_their_marginal(signal):
    y = observed((16, 16))
    p, pi = exact(y, NOISE, TRUE), exact(y, NOISE, signal)
    found = log_integral(y, p, Conditional(TRUE), Conditional(signal))
    assert torch.allclose(found, -torch.log(pi.density), atol=1e-7)


def by_quadrature(y, p, q, at, reach):
    """∫ q(x | y, σ)/p(σ | x, y) dx over |x - y| < reach, for an image of one pixel."""
    mean, V = (m[at].real.item() for m in q.moments(y, p.sigma))
    e = torch.linspace(-reach, reach, 20001, dtype=torch.float64)  # y - x
    log_p = -torch.log(p.sigma) - e[:, None] ** 2 / (2 * p.sigma**2)
    log_p = log_p - torch.logsumexp(log_p, -1, keepdim=True) - math.log(p.spacing)
    log_q = -0.5 * ((y.item() - e - mean) ** 2 / V + math.log(2 * math.pi * V))
    return float(torch.trapezoid(torch.exp(log_q - log_p[:, at]), e))


@pytest.mark.parametrize(
    "q", [Conditional(PowerLawSignal((0.3,), (2.0,))), Conditional(TRUE, 0.1), WIDE]
)
def test_the_integral_of_one_pixel_by_quadrature(q):
    y = torch.full((1, 1, 1, 1), 0.7, dtype=torch.float64)
    p = exact(y, NOISE, TRUE)
    found = log_integral(y, p, Conditional(TRUE), q)
    at = 180
    assert by_quadrature(y, p, q, at, 12) == pytest.approx(float(found[at].exp()), rel=1e-6)


def test_the_integral_of_a_conditional_that_is_too_wide_grows_without_end_at_small_sigma():
    y = torch.full((1, 1, 1, 1), 0.7, dtype=torch.float64)
    wide = Conditional(PowerLawSignal((1.0,), (2.0,)), width=1.5)
    truth = Conditional(wide.signal)
    p = exact(y, NOISE, wide.signal)
    infinite = torch.isinf(log_integral(y, p, truth, wide))
    edge = finite_above(y, p, wide)
    assert torch.equal(infinite, p.sigma < edge)
    assert 0.3 < edge < 0.7
    below, above = int(infinite.sum()) // 2, int(infinite.sum()) + 40
    parts = [by_quadrature(y, p, wide, below, reach) for reach in (4, 8, 16)]
    assert parts[2] > 1e3 * parts[1] > 1e6 * parts[0]
    settled = [by_quadrature(y, p, wide, above, reach) for reach in (8, 16)]
    assert settled[1] == pytest.approx(settled[0], rel=1e-3)


def test_chains_converge_in_a_box_though_the_integral_is_infinite():
    """No joint has these conditionals, and yet there is one law that chains converge to."""
    y = observed((16, 16))
    p = exact(y, NOISE, TRUE)
    right, mass = theorem(y, p, Conditional(TRUE), WIDE)
    assert right == math.inf
    assert mass < 0.9
    assert finite_above(y, p, Conditional(TRUE, 0.1)) == float(p.sigma[0])
    kernel = transition(y, WIDE, p.sigma)
    assert float(kernel.amin(0).sum()) > 0  # Doeblin: what all rows share
    last = torch.eye(len(kernel), dtype=torch.float64)[-1]
    known = converge(kernel, p, last, (30,))
    assert known.to_stationary[0] < 1e-12
    found = measured(p, chain_densities(y, NOISE, WIDE, p, iterations=160))
    assert abs(found.kl - known.kl) < 4 * found.error
    assert found.error < 0.1 * known.kl


PIXELS, ENERGY = 16, 20.0


@pytest.mark.parametrize("kappa", [-1, -2, -5])
def test_without_a_box_the_integral_is_one_over_the_posterior_where_that_exists(kappa):
    problem = ScaleProblem(PIXELS, ENERGY, 1.0, kappa)

    def density(log_sigma):
        sigma = torch.tensor(math.exp(log_sigma), dtype=torch.float64)
        return math.exp(log_sigma - float(problem.log_integral(sigma)))

    assert integrate.quad(density, -40, 20, points=[-2, 0, 2])[0] == pytest.approx(1, abs=1e-7)


def test_around_y_the_integral_grows_like_a_logarithm_for_a_prior_uniform_in_log_sigma():
    """∫ p(x) |y - x|^-(n+κ) dx without a ball around y: t = |y - x|²/S is a non-central χ²."""

    def outside(kappa, radius):
        def integrand(log_t):
            t = math.exp(log_t)
            return t ** (1 - (PIXELS + kappa) / 2) * stats.ncx2.pdf(t, PIXELS, ENERGY)

        return integrate.quad(integrand, 2 * math.log(radius), 5, epsrel=1e-9, limit=200)[0]

    finite = [outside(-1, 10.0**-j) for j in (1, 2, 3)]
    assert finite[2] - finite[1] == pytest.approx(0.1 * (finite[1] - finite[0]), rel=0.01)
    infinite = [outside(0, 10.0**-j) for j in (1, 2, 3)]
    assert infinite[2] - infinite[1] == pytest.approx(infinite[1] - infinite[0], rel=0.01)
    assert torch.isinf(ScaleProblem(PIXELS, ENERGY, 1.0, 0).log_integral(torch.ones(3))).all()


def rhat(problem, iterations):
    """Of σ, 16 chains, a fifth discarded."""
    draws = problem.chains(0.5, chains=16, iterations=iterations)
    return float(load_arviz().rhat(draws[:, iterations // 5 :].numpy()))


def test_chains_have_the_posterior_where_the_integral_is_finite():
    problem = ScaleProblem(PIXELS, ENERGY, 1.0, -1)
    draws = problem.chains(0.5, chains=1500, iterations=1000)
    grid = torch.linspace(-16, 6, 22001, dtype=torch.float64)
    mass = torch.exp(grid - problem.log_integral(grid.exp())) * 1e-3
    mean = float((grid * mass).sum())
    last = draws[:, -1].contiguous()
    assert abs(float(last.mean()) - mean) < 4 * float(last.std()) / math.sqrt(len(last))
    cdf = mass.cumsum(0)
    ranks = cdf[torch.searchsorted(grid, last).clamp(max=len(grid) - 1)].numpy()
    assert stats.kstest(ranks, "uniform").pvalue > 1e-3
    assert rhat(problem, 10000) < RHAT


def test_chains_wander_off_where_the_integral_is_infinite():
    """κ = 0: log σ is a walk without drift below a wall, so its mean falls like √M; null recurrent.

    σ_M's mean log is -s √(2M/π) + const, and the constant drops out of the difference.
    """
    problem = ScaleProblem(PIXELS, ENERGY, 1.0, 0)
    draws = problem.chains(0.5, chains=1500, iterations=1600)
    assert problem.drift == 0
    moved = draws[:, 1600] - draws[:, 400]
    expected = -problem.step * math.sqrt(2 * 400 / math.pi)
    error = float(moved.std()) / math.sqrt(len(moved))
    assert abs(float(moved.mean()) - expected) < 4 * error
    assert error < 0.05 * abs(expected)
    assert min(rhat(problem, 1000), rhat(problem, 10000)) > 1.3


def test_chains_run_to_no_noise_at_a_constant_pace_for_a_steeper_prior():
    """κ = 1: log σ has a drift; transient."""
    problem = ScaleProblem(PIXELS, ENERGY, 1.0, 1)
    draws = problem.chains(0.5, chains=500, iterations=800)
    pace = (draws[:, 800] - draws[:, 400]) / 400
    error = float(pace.std()) / math.sqrt(len(pace))
    assert problem.drift < 0
    assert abs(float(pace.mean()) - problem.drift) < 4 * error
    assert error < 0.05 * abs(problem.drift)


def test_a_prior_under_which_sigma_has_no_conditional_is_refused():
    with pytest.raises(InputError, match="kappa above -4"):
        ScaleProblem(4, 1.0, 1.0, -4)
