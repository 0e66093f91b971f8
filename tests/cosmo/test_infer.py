"""Dust that is Gaussian: the posterior of the cosmology is known, and both methods must have it."""

import math
from functools import lru_cache

import pytest
import torch

from gibbsdiff.cosmo.infer import TRIALS, DustModel, dust_model, gaussian_start, infer
from gibbsdiff.cosmo.mock import mock
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.fourier import exact_groups, power
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams

SIDE = 96
TRUTH = (0.5, 70.0, 0.032)
#: Spectrum of simulated dust, sd 1: knots at 1, 4, 16 and 64 cycles per 128 pixels.
SIGNAL = TabulatedSignal(
    tuple(math.log(k) for k in (1 / 128, 4 / 128, 16 / 128, 64 / 128)),
    (tuple(math.log(s) for s in (400.0, 30.0, 0.7, 0.006)),),
)
POINTS = 25  # of the grid, in each parameter


@lru_cache(maxsize=1)
def problem():
    denoiser, noise = GaussianDenoiser(SIGNAL), CMBNoise()
    dust = denoiser.prior((SIDE, SIDE), Streams(3, [(0,)]))[0].float()
    return denoiser, noise, mock(TRUTH, dust, noise, seed=5)


def log_evidence(phi):
    """y ~ N(0, S_x + N_φ), eq. (10), all modes of the very same |k| together."""
    _, noise, mixture = problem()
    groups = exact_groups((SIDE, SIDE))
    P = groups.sum(power(mixture.y.double()))
    S_x = groups.sum(SIGNAL.power((SIDE, SIDE))[:, 0]) / groups.k.weight
    T = S_x + torch.exp(noise.log_power(groups.k, phi))
    return -0.5 * (groups.k.weight * torch.log(T) + P / T).sum(-1)


@lru_cache(maxsize=1)
def exact():
    """Mean and sd of (σ, H0, ω_b) on a grid of ±5 sd around the mode, inside the box."""
    denoiser, noise, mixture = problem()
    mode = find_mode(Marginal(mixture.y[None], noise, denoiser))
    reach = 5 * mode.covariance[0].diagonal().sqrt()
    low = torch.maximum(mode.phi[0] - reach, noise.low)
    high = torch.minimum(mode.phi[0] + reach, noise.high)
    place = (torch.arange(POINTS, dtype=torch.float64) + 0.5) / POINTS
    axes = [a + place * (b - a) for a, b in zip(low, high, strict=True)]
    grid = torch.cartesian_prod(*axes)
    log_p = torch.cat([log_evidence(part) for part in grid.split(2000)])
    p = (log_p - log_p.max()).exp()
    p = p / p.sum()
    for i in range(3):
        edge = (grid[:, i] < axes[i][1]) | (grid[:, i] > axes[i][-2])
        assert float(p[edge].sum()) < 1e-2
    mean = p @ grid
    cov = (p[:, None] * (grid - mean)).T @ (grid - mean)
    return mean, cov.diagonal().sqrt()


def test_the_start_is_within_reach_of_the_truth():
    _, noise, mixture = problem()
    mean, sd = exact()
    start = gaussian_start(mixture.y[None], SIGNAL, noise)[0]
    assert ((start - mean) / sd).abs().max() < 3


def test_the_marginal_score_is_the_slope_of_the_evidence():
    denoiser, noise, mixture = problem()
    marginal = Marginal(mixture.y[None], noise, denoiser)
    _, sd = exact()
    for phi in ([0.5, 70.0, 0.032], [0.3, 55.0, 0.012], [0.9, 85.0, 0.05]):
        at = torch.tensor([phi], dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(log_evidence(at).sum(), at)
        u = (at.detach() - noise.low) / (noise.high - noise.low)
        found = marginal.score(u).gradient / (noise.high - noise.low)
        # In units of a posterior sd; what is left is the binning of |k| and float32.
        error = ((found - slope) * sd).abs().max()
        assert error < 0.02 + 1e-3 * float((slope * sd).abs().max())


def test_infer_draws_around_the_exact_posterior():
    denoiser, noise, mixture = problem()
    options = Options("marginal", chains=4, draws=500, calls=1, samples=2)
    result = infer(mixture, DustModel(denoiser, {}), noise, options)
    assert result.good
    mean, sd = exact()
    draws = result.phi.flatten(0, 1)  # a Gaussian, where the posterior is a little skew
    assert ((draws.mean(0) - mean) / sd).abs().max() < 0.3
    assert (draws.std(0) / sd).log().abs().max() < 0.2
    assert result.truth == TRUTH
    # E[x | y] is the Wiener filter at the mode.
    there = noise.covariance((SIDE, SIDE), draws.mean(0)[None], torch.float32)
    wiener = denoiser(mixture.y[None], there).mean[0]
    error = (result.mean - wiener).square().mean().sqrt()
    assert error < 0.1 * (result.mean - mixture.dust).square().mean().sqrt()


@pytest.mark.parametrize("calls", [1, 3])
def test_gibbs_keeps_samples_of_the_calls_that_are_asked_for(model, calls):
    """Chains have one call for a draw in any case; samples are drawn again at φ of the chains."""
    found, noise = dust_model(32, model), CMBNoise()
    mixture = mock(TRUTH, torch.zeros(1, 32, 32), noise, seed=5)
    common = {"chains": 2, "draws": 4, "samples": 2, "warm_up": 20, "transitions": 2}
    one = infer(mixture, found, noise, Options(calls=1, chain_calls=1, **common))
    many = infer(mixture, found, noise, Options(calls=calls, **common))
    assert torch.equal(one.phi, many.phi)
    assert torch.equal(one.samples, many.samples) == (calls == 1)
    # Two samples and the trial draws, and the error of y once.
    again = 0 if calls == 1 else (2 + TRIALS) * calls + 1
    assert many.calls - one.calls == again


@pytest.mark.slow
def test_gibbs_has_the_exact_posterior():
    denoiser, noise, mixture = problem()
    # One call is exact for Gaussian dust.
    options = Options("gibbs", chains=8, draws=300, calls=1, samples=4, seed=1)
    result = infer(mixture, DustModel(denoiser, {}), noise, options)
    mean, sd = exact()
    for i, row in enumerate(result.rows):
        assert row.rhat < 1.1
        error = float(sd[i]) / math.sqrt(row.ess_bulk)
        assert abs(row.mean - float(mean[i])) < 4 * error
        assert abs(row.sd / float(sd[i]) - 1) < 5 / math.sqrt(2 * row.ess_bulk)
    assert result.truth == TRUTH
