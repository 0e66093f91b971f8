"""Noise without a spectrum through the whole pipeline, against dense linear algebra."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import invgamma

import gibbsdiff
from gibbsdiff import InputError, ObservationModel, Options, PixelNoise, Problem, infer

SHAPE = (16, 20)
WEIGHT = np.exp(0.7 * np.random.default_rng(0).standard_normal(SHAPE))
CHAINS = {"chains": 24, "draws": 30, "calls": 1, "stop_when_converged": False}
HMC = Options(warm_up=60, transitions=2, burn_in=15, **CHAINS)


def signal_covariance(truth, shape):
    """S_x as a matrix, column by column."""
    n = shape[0] * shape[1]
    S = truth.signal_spectrum(shape)
    return np.fft.ifft2(np.fft.fft2(np.eye(n).reshape(n, *shape)) * S).real.reshape(n, n)


def log_evidence(y, covariance):
    L = np.linalg.cholesky(covariance)
    z = np.linalg.solve(L, (y - 0.4).ravel())
    return -0.5 * z @ z - np.log(L.diagonal()).sum()


def observe(truth, variance, seed):
    x = 0.4 + truth.field(truth.signal_spectrum(variance.shape), (seed, 0))[0]
    noise = np.random.default_rng((seed, 1)).standard_normal(variance.shape)
    return x, (x + np.sqrt(variance) * noise).astype(np.float32)  # fewer conjugate gradients


def moments(grid, log_p):
    p = np.exp(log_p - np.max(log_p))
    p /= p.sum()
    mean = p @ grid
    return mean, np.sqrt(p @ (grid - mean) ** 2)


def agrees(posterior, mean, sd):
    for row, m, s in zip(posterior.rows, mean, sd, strict=True):
        assert row.ess_bulk > 100
        assert abs(row.mean - m) < 4 * s / math.sqrt(row.ess_bulk)
        assert abs(row.sd / s - 1) < 4 / math.sqrt(2 * row.ess_bulk)


def exact_step(noise, statistic, phi, rng):
    """σ² | ε for v = σ²/w, over the pixels that count."""
    P, seen = statistic.P.numpy() * WEIGHT, np.ones(SHAPE, bool)
    if statistic.observed is not None:
        seen = statistic.observed.numpy()
    n, Q = statistic.channels * seen.sum(), (P * seen).sum((1, 2))
    sigma = np.sqrt(invgamma.ppf(rng.uniform().numpy(), (n - 1) / 2, scale=Q / 2))
    return torch.from_numpy(sigma)[:, None].clamp(noise.low, noise.high)


def test_weights_up_to_a_scale(truth):
    """σ of v = σ²/w by an exact step, through both boundaries of the front door."""
    _, y = observe(truth, 0.25 / WEIGHT, 1)
    noise, S = PixelNoise.weighted(WEIGHT), signal_covariance(truth, SHAPE)
    grid = np.linspace(0.3, 0.8, 120)[:, None]
    exact = moments(grid, [log_evidence(y, S + np.diag(s**2 / WEIGHT.ravel())) for (s,) in grid])
    options = {"chains": 24, "draws": 30, "calls": 1, "noise": noise, "phi_step": exact_step}
    p, periodic = (
        gibbsdiff.denoise(y, model=truth.GAUSSIAN, boundary=boundary, **options)
        for boundary in ("open", "periodic")
    )
    agrees(p, *exact)
    assert torch.equal(p.phi, periodic.phi)
    assert torch.equal(p.mean, periodic.mean)
    assert p.how == ("starts from the prior",)
    assert p.noise_power is None
    # x: the mean over φ of the regression, and the sd of the draws.
    A = S @ np.linalg.inv(S + np.diag(exact[0][0] ** 2 / WEIGHT.ravel()))
    mean, sd = 0.4 + A @ (y - 0.4).ravel(), np.sqrt((S - A @ S).diagonal())
    assert np.abs(p.mean.numpy().ravel() - mean).max() < 0.1 * sd.mean()
    n = p.phi.shape[0] * p.phi.shape[1]
    assert np.abs(p.sd.numpy().ravel() / sd - 1).max() < 5 / math.sqrt(2 * n) + 0.05


def test_read_and_shot_noise(truth):
    shape = (16, 16)
    light = np.random.default_rng(5).uniform(0, 4, shape)
    _, y = observe(truth, 0.3 + 0.2 * light, 2)
    noise = PixelNoise.affine(light)
    problem = Problem(
        torch.tensor(y)[None, None], noise, truth.GAUSSIAN, ObservationModel(noise, shape)
    )
    (p,) = infer(problem, HMC)
    S = signal_covariance(truth, shape)
    axes = [np.linspace(max(r.mean - 5 * r.sd, 1e-4), r.mean + 5 * r.sd, 24) for r in p.rows]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    log_p = [log_evidence(y, S + np.diag((a + b * light).ravel())) for a, b in grid]
    agrees(p, *moments(grid, log_p))


def test_missing_pixels_leave_the_likelihood(truth):
    """A hole of a quarter of the picture does not make the noise seem less; it would if what
    fills it were taken for an observation.
    """
    noise, z, believed = PixelNoise.weighted(WEIGHT), [], []
    options = {"chains": 8, "draws": 20, "calls": 1, "phi_step": exact_step}
    for seed in range(4):
        _, y = observe(truth, 0.25 / WEIGHT, 10 + seed)
        y[4:12, 3:13] = np.nan
        p = gibbsdiff.denoise(y, noise=noise, model=truth.GAUSSIAN, **options)
        assert int(p.missing.sum()) == 80
        z.append((p.rows[0].mean - 0.5) / p.rows[0].sd)
        observation = ObservationModel(noise, SHAPE)
        filled = Problem(p.observed[None], noise, truth.GAUSSIAN, observation)
        (all_of_it,) = infer(filled, Options(**options))
        believed.append((all_of_it.rows[0].mean - 0.5) / all_of_it.rows[0].sd)
    assert abs(np.mean(z)) < 4 / math.sqrt(4)
    assert np.mean(believed) < -4 / math.sqrt(4)


def test_known_pixel_noise(truth):
    _, y = observe(truth, 0.25 / WEIGHT, 1)
    noise, known = PixelNoise.weighted(WEIGHT), {"sigma": 0.5}
    p = gibbsdiff.denoise(y, noise=noise, known=known, model=truth.GAUSSIAN, samples=120, calls=1)
    S = signal_covariance(truth, SHAPE)
    A = S @ np.linalg.inv(S + np.diag(0.25 / WEIGHT.ravel()))
    mean, sd = 0.4 + A @ (y - 0.4).ravel(), np.sqrt((S - A @ S).diagonal())
    np.testing.assert_allclose(p.mean.numpy().ravel(), mean, atol=1e-4)
    z = (p.samples.numpy().reshape(120, -1) - mean) / sd
    assert np.abs(z.mean(0)).max() < 5 / math.sqrt(120)
    assert np.abs(z.std(0) - 1).max() < 5 / math.sqrt(240)
    assert p.sd is None
    assert len(p.notes) == 1


def test_what_cannot_take_it_says_so(natural, truth):
    y, noise = np.zeros(SHAPE), PixelNoise.weighted(WEIGHT)
    with pytest.raises(InputError, match="this network needs stationary noise"):
        gibbsdiff.denoise(y, noise=noise, model=natural)
    with pytest.raises(InputError, match="has no spectrum"):
        gibbsdiff.denoise(y, noise=noise, model=truth.GAUSSIAN, method="marginal")
    with pytest.raises(InputError, match="its map is 16×20, the image 16×24"):
        gibbsdiff.denoise(np.zeros((16, 24)), noise=noise, model=truth.GAUSSIAN)
