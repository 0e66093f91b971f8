"""Every method through the pipeline, against a posterior that NumPy integrates on a grid."""

import math
from functools import partial

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import ObservationModel, Options, PowerLawNoise, Problem, few_step, infer

SHAPE, PHI = (32, 40), (0.6, 0.3)
CHAINS = Options(
    "gibbs",
    chains=24,
    draws=40,
    burn_in=10,
    calls=1,
    warm_up=60,
    transitions=2,
    stop_when_converged=False,
)
MANY = {"chains": 4, "draws": 1000, "calls": 1, "samples": 0}

#: method -> (options, how far the means may be off in sd, how far the sds in parts of them)
METHODS = {
    # A Gaussian at the mode of a density that is a little skew.
    "first stage": (Options("marginal", **MANY), 0.15, 0.05),
    # 10 draws of x leave that much noise in the mode.
    "both stages": (Options("marginal", second_stage=True, **MANY), 0.6, 0.05),
    # 4000 independent draws: 4 of their standard errors.
    "polynomial": (Options("marginal", density="polynomial", **MANY), 0.064, 0.045),
}


@pytest.fixture(scope="module")
def problem(truth):
    noise = PowerLawNoise()
    _, y = truth.observe(SHAPE, *PHI)
    observation = ObservationModel(noise, SHAPE)
    return Problem(torch.tensor(y)[None], noise, truth.GAUSSIAN, observation)


@pytest.fixture(scope="module")
def exact(truth, problem):
    return truth.posterior(problem.y[0].numpy())


def off(posterior, exact):
    """How far means and standard deviations are off, in sd and in parts of them."""
    means = (posterior.phi.mean((0, 1)).numpy() - exact.mean) / exact.sd
    sds = posterior.phi.flatten(0, 1).std(0).numpy() / exact.sd - 1
    return np.abs(means).max(), np.abs(sds).max()


@pytest.mark.parametrize("method", METHODS)
def test_the_marginal_method_has_the_exact_posterior(problem, exact, method):
    options, most_mean, most_sd = METHODS[method]
    (p,) = infer(problem, options)
    mean, sd = off(p, exact)
    assert mean < most_mean
    assert sd < most_sd
    assert (p.method, p.ended, p.is_chains) == ("marginal", True, False)
    stage = "two stages" if options.second_stage else "first stage"
    assert p.how == (stage, f"{options.density} density")


def test_gibbs_has_the_exact_posterior(problem, exact):
    (p,) = infer(problem, CHAINS)
    for i, row in enumerate(p.rows):
        error = float(exact.sd[i]) / math.sqrt(row.ess_bulk)
        assert abs(row.mean - exact.mean[i]) < 4 * error
        assert row.ess_bulk > 200
        assert abs(row.sd / exact.sd[i] - 1) < 4 / math.sqrt(2 * row.ess_bulk)
    # Moments of x: D averaged over φ knows E[x | y] better than the draws of x do.
    assert np.abs(p.mean.numpy() - exact.x).max() < 0.05 * exact.x_sd.mean()
    assert np.abs(p.average.numpy() - exact.x).max() < 5 * exact.x_sd.mean() / math.sqrt(960)
    assert float(p.samples.shape[0]) == 1


def test_the_front_door_of_chains(truth):
    """As users call it: HMC, starts around the mode, its own burn-in; σ known leaves φ."""
    _, y = truth.observe(SHAPE, *PHI, seed=1)
    p = gibbsdiff.denoise(
        y,
        known={"sigma": PHI[0]},
        model=truth.GAUSSIAN,
        method="gibbs",
        boundary="periodic",
        chains=24,
        draws=12,
        calls=1,
    )
    exact = truth.posterior(y, sigma=(PHI[0], PHI[0]))
    (row,) = p.rows
    assert abs(row.mean - exact.mean[1]) < 4 * exact.sd[1] / math.sqrt(row.ess_bulk)
    assert abs(row.sd / exact.sd[1] - 1) < 4 / math.sqrt(2 * row.ess_bulk)
    assert p.names == ("phi",)


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_known_noise_is_the_wiener_filter(truth, method):
    """One call: the mean and its sd exactly, and draws of x around it."""
    _, y = truth.observe(SHAPE, *PHI)
    known = {"sigma": 0.55, "phi": 0.2}
    p = gibbsdiff.denoise(
        y,
        known=known,
        model=truth.GAUSSIAN,
        method=method,
        boundary="periodic",
        samples=200,
        calls=1,
    )
    mean, sd = truth.wiener(y, *known.values())
    np.testing.assert_allclose(p.mean, mean, atol=1e-9)
    np.testing.assert_allclose(p.sd, np.full_like(y, sd), rtol=1e-9)
    z = (p.samples.numpy() - mean) / sd
    assert np.abs(z.mean(0)).max() < 5 / math.sqrt(200)
    assert z.std() == pytest.approx(1, abs=4 / math.sqrt(2 * 200 * y.size / 4))  # smooth errors
    assert p.method == "known noise"
    assert p.verdict == "the noise was given; the noise model fits"
    assert [row.sd for row in p.rows] == pytest.approx([0, 0], abs=1e-12)
    N = truth.noise_spectrum(SHAPE, *known.values())[:, : SHAPE[1] // 2 + 1]
    np.testing.assert_allclose(p.noise_power, N[None], rtol=1e-6)
    assert p.level == pytest.approx(0.55)


@pytest.fixture(scope="module")
def small(truth):
    """Few modes, so that φ is uncertain and moves D."""
    noise = PowerLawNoise()
    _, y = truth.observe((16, 16), 0.3, 0.3)
    problem = Problem(
        torch.tensor(y)[None], noise, truth.GAUSSIAN, ObservationModel(noise, (16, 16))
    )
    return problem, truth.posterior(y)


def test_the_sd_of_x_has_the_uncertainty_of_phi_in_it(truth, small):
    """The law of total variance, to first order around the mode: in every pixel."""
    problem, exact = small
    (p,) = infer(problem, Options("marginal", **MANY))
    at_mode = truth.wiener(problem.y[0].numpy(), *p.phi.mean((0, 1)).tolist())
    assert np.abs(p.sd.numpy() / exact.x_sd - 1).max() < 0.01
    assert np.abs(at_mode[1] / exact.x_sd - 1).max() > 0.03
    assert np.abs(p.mean.numpy() - exact.x).max() < 0.05 * exact.x_sd.mean()
    np.testing.assert_allclose(p.mean, at_mode[0], atol=0.05 * exact.x_sd.mean())


def test_the_sd_of_draws_of_x_has_it_too(truth, small):
    """The part of Var[x | y] that changes from pixel to pixel is all due to φ."""
    problem, exact = small
    (p,) = infer(problem, CHAINS)
    expected, found = exact.x_sd**2, p.sd.numpy() ** 2
    assert found.mean() == pytest.approx(expected.mean(), rel=0.05)
    there = expected - expected.mean()
    slope = (found * there).sum() / (there**2).sum()
    # The variance of 960 draws, in pixels of which every fourth is independent.
    error = expected.mean() * math.sqrt(2 / 960) * 2 / math.sqrt((there**2).sum())
    assert abs(slope - 1) < min(3 * error, 0.8)


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_noise_power_is_the_mean_over_draws(truth, small, method):
    problem, _ = small
    options = Options(method, chains=2, draws=8, calls=1, warm_up=20, samples=0)
    (p,) = infer(problem, options)
    each = [truth.noise_spectrum((16, 16), *phi) for phi in p.phi.flatten(0, 1).tolist()]
    np.testing.assert_allclose(p.noise_power, np.mean(each, 0)[None, :, :9], rtol=1e-6)


def test_samples_of_both_methods_are_draws_of_the_posterior(truth, small):
    """Each at its own draw of φ: mean square deviation from E[x | y] is the total variance."""
    problem, exact = small
    few = Options("marginal", chains=4, draws=100, samples=400, sampler=partial(few_step, calls=1))
    (p,) = infer(problem, few)
    d = p.samples.numpy() - exact.x
    assert np.abs(d.mean(0)).max() < 5 * exact.x_sd.mean() / 20
    ratio = (d**2).mean() / (exact.x_sd**2).mean()
    assert ratio == pytest.approx(1, abs=4 * math.sqrt(2 / (400 * 64)) + 0.02)
    (p,) = infer(problem, Options("gibbs", 4, 8, 1, samples=6, warm_up=20))
    assert p.samples.shape == (6, 1, 16, 16)
    assert len({float(s.sum()) for s in p.samples}) == 6
