"""The whole posterior of φ: what each source tells, against closed forms."""

import math

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.fourier import REFERENCE, half_plane
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.newton import climb_whole, in_proportion
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.told import QuietData, Told, by_prior, by_score, told_by, trusted
from gibbsdiff.noise import PhotoNoise
from gibbsdiff.streams import Streams

SHAPE = (48, 40)
EXACT = GaussianDenoiser(PowerLawSignal((5e-4, 2e-5, 1e-5), (2.5, 2.7, 2.5), 0.45))


def test_a_source_with_an_error_is_what_integrating_it_out_leaves():
    """Data d = A φ + A Bρ + e: log p(d | φ) with ρ ~ N(0, S) integrated out is Gaussian in φ."""
    rng = torch.Generator().manual_seed(0)
    A, B = (torch.randn(9, 3, generator=rng).double(), torch.randn(3, 2, generator=rng).double())
    S = torch.tensor([[0.5, 0.2], [0.2, 0.8]]).double()
    d = torch.randn(9, generator=rng).double()
    C = torch.eye(9).double() + A @ B @ S @ B.T @ A.T
    exact_J, exact_g = A.T @ torch.linalg.inv(C) @ A, A.T @ torch.linalg.inv(C) @ d
    J, G = A.T @ A, A.T @ A @ B
    g, J_eff = Told((A.T @ d)[None], J[None], (G @ S @ G.T)[None]).tempered()
    assert torch.allclose(J_eff[0], exact_J, rtol=1e-9, atol=1e-12)
    assert torch.allclose(g[0], exact_g, rtol=1e-9, atol=1e-12)


@pytest.fixture(scope="module")
def problem():
    """A Gaussian signal under photographs' noise, and the exact log p(φ | y)."""
    noise = PhotoNoise(rounding=1e-6)
    truth = noise.prior.mean[None].clone()
    truth[0, 0] = math.log(0.08)
    rng = Streams.batch(3, 1)
    y = EXACT.prior(SHAPE, rng, 3) + noise.draw(SHAPE, truth, rng, 3)

    def log_posterior(phi):
        evidence = EXACT.log_evidence(y, noise.covariance(SHAPE, phi))
        return (evidence + noise.log_prior(phi)).sum()

    return Marginal(y, noise, EXACT), truth, log_posterior


def test_the_search_ends_at_the_mode_of_the_exact_posterior(problem):
    """The gradient there is zero but for parameters at a wall, in units of the posterior's sd; the
    covariance is the inverse of the expected information and the prior's curvature.
    """
    marginal, truth, log_posterior = problem
    mode, shares = climb_whole(marginal, None, truth, most=40)
    at = mode.phi.clone().requires_grad_()
    (g,) = torch.autograd.grad(log_posterior(at), at)
    u = (mode.phi - marginal.noise.low) / marginal.width
    free = ((u > 1e-6) & (u < 1 - 1e-6))[0]
    assert int(free.sum()) >= 9
    # A step that changes log N by less than 0.05 is the last, and not taken.
    F = mode.covariance[0][free][:, free]
    assert float(F.diagonal().sqrt().min()) > 0
    step = F @ g[0, free]
    k = marginal.noise.grouping(SHAPE).k
    slopes = marginal.slopes(k, mode.phi)[0, free] / marginal.width[free, None, None]
    change = torch.einsum("irm,i->rm", slopes, step)
    assert float((change.square() * k.fraction).sum(-1).sqrt().max()) < 0.06
    H = -torch.autograd.functional.hessian(log_posterior, mode.phi)[0, :, 0]
    ours = torch.linalg.inv(mode.covariance[0])[free][:, free]
    # Single shapes are hardly told apart: what counts is the sd of log N in every mode. J is the
    # expected information, H the observed one.
    sds = [
        torch.einsum("irm,ij,jrm->rm", slopes, torch.linalg.inv(part), slopes).sqrt()
        for part in (ours, H[free][:, free])
    ]
    ratio = torch.log(sds[0] / sds[1])
    assert float((ratio.square() * k.fraction).sum(-1).sqrt().max()) < 0.2
    assert torch.allclose(shares.sum(0), torch.ones(shares.shape[1]).double())
    assert float(mode.model_error.abs().max()) < 1e-9  # an exact denoiser makes none
    assert "quiet places 0 %" in told_by(shares)


class Unsure(GaussianDenoiser):
    """Exact, but said to be wrong by ρ with this scatter, eq. (12)."""

    exact = False

    def __init__(self, scatter):
        super().__init__(EXACT.signal)
        self.scatter = scatter


def test_modes_count_by_how_wrong_they_may_be(problem):
    """None of it: the score itself. Much at the smallest scales: all but those are as they were."""
    marginal, truth, _ = problem
    u = (truth - marginal.noise.low) / marginal.width
    score = marginal.score(u)
    raw = by_score(marginal, truth, score)
    one = torch.zeros(1, dtype=torch.int64)

    def told(scatter):
        unsure = Marginal(marginal.y, marginal.noise, Unsure(scatter))
        return by_score(unsure, truth, score), trusted(unsure, score.at, scatter, one, 1)[0]

    same, trust = told(1e-12 * torch.eye(24).double())
    assert torch.allclose(same.gradient, raw.gradient, rtol=1e-6, atol=1e-6)
    assert torch.allclose(same.information, raw.information, rtol=1e-6)
    assert float(trust.min()) > 1 - 1e-5
    small = 1e-12 * torch.eye(24).double()
    small[7, 7] = 100.0
    less, trust = told(small)
    k = half_plane(SHAPE).k.reshape(SHAPE[0], -1)
    assert float(trust[0][k > REFERENCE[7]].max()) < 0.1
    assert float(trust[0][(k > 0) & (k < REFERENCE[6])].min()) > 1 - 1e-6
    assert float(trust[1:].min()) > 1 - 1e-6
    gone = torch.linalg.eigvalsh((raw.information - less.information)[0])
    assert float(gone.min()) > -1e-6 * float(gone.max())


def test_noise_that_is_too_weak_in_all_modes_is_raised_however_errors_go_together(problem):
    """Integrated out, a large error in common to all scales may turn a step round."""
    marginal, truth, _ = problem
    low = truth.clone()
    low[0, 0] -= 0.5
    score = marginal.score((low - marginal.noise.low) / marginal.width)
    slope = torch.linspace(0.3, 2.0, 24).double()
    scatter = torch.outer(slope, slope) + 1e-4 * torch.eye(24).double()
    unsure = Marginal(marginal.y, marginal.noise, Unsure(scatter))
    found = by_score(unsure, low, score)
    assert float(found.gradient[0, 0]) > 0
    assert float(found.gradient[0, 0]) < float(by_score(marginal, low, score).gradient[0, 0])


def test_a_raised_score_is_zero_at_as_much_more_noise(problem):
    """Newton's step of the raised score goes further by r in log N, at small scales and at large
    ones, where the network keeps much and J is small.
    """
    marginal, truth, _ = problem
    score = marginal.score((truth - marginal.noise.low) / marginal.width)
    unsure = Marginal(marginal.y, marginal.noise, Unsure(1e-12 * torch.eye(24).double()))
    plain, more = (by_score(unsure, truth, score, raised=r) for r in (0.0, 0.3))
    sigma = torch.zeros_like(truth)
    sigma[0, 0] = 0.3 / 2 / marginal.width[0]  # log N = 2 log σ + …
    expected = torch.einsum("bij,bj->bi", plain.information, sigma)
    off = more.gradient - plain.gradient - expected
    assert float(off.norm()) < 0.02 * float(expected.norm())


def test_the_prior_alone_tells_its_curvature(problem):
    marginal, truth, _ = problem
    g, curvature = by_prior(marginal, truth + 0.1)
    width, precision = marginal.width, marginal.noise.prior.precision
    assert torch.allclose(g[0], -0.1 * precision.diagonal() * width)
    assert torch.allclose(curvature[0], width[:, None] * precision * width)


@pytest.fixture(scope="module")
def quiet():
    noise = PhotoNoise()
    phi = noise.prior.mean[None].clone()
    phi[0, 0] = math.log(0.05)
    return quiet_patches(0.5 + noise.draw((192, 192), phi, Streams.batch(2, 1), 3))


def test_quiet_places_tell_the_gradient_of_their_likelihood(problem, quiet):
    """With a common factor e^m on their powers; J by the expectation of P is its curvature."""
    marginal, truth, _ = problem
    told = QuietData(quiet, (0.3, 0.2)).tell(marginal, truth)
    statistic = quiet.statistic(3)

    def value(phi):
        log_n = marginal.noise.log_spectra(statistic.k, phi)
        P = statistic.P * math.exp(0.3)
        return -0.5 * (statistic.modes * log_n + P * torch.exp(-log_n)).sum()

    at = truth.clone().requires_grad_()
    (g,) = torch.autograd.grad(value(at), at)
    assert torch.allclose(told.gradient, g * marginal.width, rtol=1e-6)
    # One nuisance of sd 0.2: the error has rank one.
    assert int(torch.linalg.matrix_rank(told.error[0])) == 1
    level = torch.zeros(11).double()
    level[0] = 2.0  # ∂ log N/∂ log σ but for rounding
    by_level = 0.5 * float(statistic.modes.sum()) * 2.0 * float(marginal.width[0])
    assert math.sqrt(float(told.error[0, 0, 0])) == pytest.approx(0.2 * by_level, rel=0.02)


def test_draws_at_a_wall_stay_near_the_spectrum_that_was_found():
    """White noise has no roll-off, `cut` = 0, where log N does not change with it at first: the sd
    is that within which log N moves by little, not the prior's; others keep theirs.
    """
    noise = PhotoNoise(1, rounding=1e-8)
    y = noise.draw(SHAPE, torch.tensor([[-2.5, 0.0, 0.0, 1.6, -12.0]]).double(), seed=4)
    marginal = Marginal(y, noise, EXACT)
    start = torch.tensor([[-2.5, 0.0, 0.0, 1.6, -6.0]]).double()
    u = (start - noise.low) / marginal.width
    wide = torch.diag(torch.tensor([0.02, 0.05, 2.5, 0.5, 2.0]).double() ** 2)[None]
    part = in_proportion(marginal, u, wide)
    assert part[:2].tolist() == [1.0, 1.0]
    assert part[2] < 0.5
    moved = start.clone()
    moved[0, 2] += part[2] * 2.5
    k = noise.grouping(SHAPE).k
    change = (noise.log_spectra(k, moved) - noise.log_spectra(k, start))[0, 0]
    assert float((k.fraction * change.square()).sum().sqrt()) < 0.1
