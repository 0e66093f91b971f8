"""Parts of one's own: denoisers, samplers, φ-steps, and noise without a spectrum."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import invgamma

import gibbsdiff
from gibbsdiff import (
    Denoiser,
    Estimate,
    InputError,
    MixtureDenoiser,
    ObservationModel,
    Options,
    PowerLawNoise,
    Problem,
    VariancePreserving,
    WhiteNoise,
    conjugate_amplitude,
    ddpm,
    infer,
)
from gibbsdiff.diffusion.solvers import Draw

SHAPE, SIGMA = (24, 20), 0.6
EXACTLY = {"noise": "white", "boundary": "periodic", "phi_step": conjugate_amplitude}


@pytest.fixture(scope="module")
def y(truth):
    return truth.observe(SHAPE, SIGMA, 0.0)[1]


@pytest.fixture(scope="module")
def exact(truth, y):
    return truth.posterior(y, phi=(0, 0))


@pytest.fixture(scope="module")
def bare(truth):
    """The Wiener filter without a word on its error: a plain function."""

    def wiener(z, noise):
        return truth.GAUSSIAN(z, noise).mean

    return wiener


@pytest.fixture(scope="module")
def sampler(truth):
    """x | y, φ exactly, whatever the denoiser says of its error."""

    def draw(denoiser, z, noise, rng):
        x = truth.GAUSSIAN.draw(z, noise, rng)
        return Draw(x, denoiser(z, noise).mean, torch.ones(len(z), dtype=torch.int64))

    return draw


def agrees(posterior, exact, column=0):
    """Mean and sd of the first parameter within 4 Monte-Carlo errors."""
    row = posterior.rows[column]
    assert row.ess_bulk > 150
    assert abs(row.mean - exact.mean[column]) < 4 * exact.sd[column] / math.sqrt(row.ess_bulk)
    assert abs(row.sd / exact.sd[column] - 1) < 4 / math.sqrt(2 * row.ess_bulk)


def test_a_plain_function_without_error_model(y, exact, bare, sampler):
    """Gibbs from the prior, whatever the size; the map is the sd of its draws."""
    options = {**EXACTLY, "sampler": sampler, "chains": 16, "draws": 80}
    p = gibbsdiff.denoise(y, model=bare, **options)
    agrees(p, exact)
    assert p.method == "gibbs"
    assert p.how == ("starts from the prior",)
    assert p.model_error is None
    assert all(r.total_sd == r.sd for r in p.rows)
    n = p.phi[..., 0].numel()
    assert np.abs(p.sd.numpy() / exact.x_sd - 1).max() < 5 / math.sqrt(2 * n)
    assert np.abs(p.mean.numpy() - exact.x).max() < 0.05 * exact.x_sd.mean()

    class Subclass(Denoiser):
        def __call__(self, z, noise):
            return Estimate(bare(z, noise))

    again = gibbsdiff.denoise(y, model=Subclass(), **options)
    assert torch.equal(again.phi, p.phi)
    assert torch.equal(again.sd, p.sd)


def test_chains_from_the_prior_by_hmc_forget_it(truth, bare, sampler):
    noise = PowerLawNoise()
    _, y = truth.observe((32, 40), 0.6, 0.3, seed=2)
    problem = Problem(torch.tensor(y)[None], noise, bare, ObservationModel(noise, (32, 40)))
    options = Options(
        chains=24,
        draws=40,
        burn_in=50,
        warm_up=60,
        transitions=2,
        sampler=sampler,
        stop_when_converged=False,
    )
    (p,) = infer(problem, options)
    exact = truth.posterior(y)
    agrees(p, exact, 0)
    agrees(p, exact, 1)


def test_what_needs_an_error_model_says_so(y, bare):
    with pytest.raises(InputError, match="models its own error"):
        gibbsdiff.denoise(y, model=bare, method="marginal")
    with pytest.raises(InputError, match=r"starts: .* error model"):
        gibbsdiff.denoise(y, model=bare, starts="marginal")


def test_known_noise_without_error_model_has_no_map(truth, y, bare):
    how = {"noise": "white", "model": bare, "boundary": "periodic", "samples": 1}
    p = gibbsdiff.denoise(y, known={"sigma": SIGMA}, **how)
    np.testing.assert_allclose(p.mean, truth.wiener(y, SIGMA, 0.0)[0], atol=1e-9)
    assert p.sd is None
    assert p.notes == ("no uncertainty map: the denoiser says nothing of the error in a pixel",)
    assert p.summary().endswith(p.notes[0])
    assert p.samples.shape == (1, *y.shape)


def test_the_papers_sampler_by_partial_inside_gibbs(truth, bare):
    """Its E = 0 needs many steps: 40 of them leave a bias below the Monte-Carlo error here."""
    _, y = truth.observe((16, 16), 0.6, 0.0, seed=1)
    sampler = partial(ddpm, process=VariancePreserving(), steps=300, variance="posterior")
    p = gibbsdiff.denoise(y, model=bare, sampler=sampler, chains=16, draws=50, **EXACTLY)
    agrees(p, truth.posterior(y, phi=(0, 0)))
    per_draw = p.calls / (16 * (p.phi.shape[1] + 11))
    assert 30 < per_draw < 60


def inverse_gamma(noise, statistic, phi, rng):
    """σ² | ε by SciPy: what a user might write."""
    n = statistic.channels * float(statistic.modes.sum())
    u, P = rng.uniform().numpy(), statistic.P.sum((-2, -1)).numpy()
    sigma = np.sqrt(invgamma.ppf(u, (n - 1) / 2, scale=P / 2))
    return torch.from_numpy(sigma)[:, None].clamp(noise.low, noise.high)


@pytest.mark.parametrize("step", [conjugate_amplitude, inverse_gamma])
def test_a_step_of_phi_that_is_not_hmc(truth, y, exact, step):
    options = {**EXACTLY, "phi_step": step, "chains": 16, "draws": 80, "calls": 1}
    p = gibbsdiff.denoise(y, model=truth.GAUSSIAN, method="gibbs", **options)
    agrees(p, exact)
    assert p.divergences == 0


def test_the_amplitude_of_a_family_whose_shape_is_known(truth):
    _, y = truth.observe(SHAPE, SIGMA, 0.4, seed=4)
    p = gibbsdiff.denoise(
        y,
        model=truth.GAUSSIAN,
        method="gibbs",
        known={"phi": 0.4},
        chains=16,
        draws=80,
        calls=1,
        **(EXACTLY | {"noise": "power-law"}),
    )
    agrees(p, truth.posterior(y, phi=(0.4, 0.4)))


def test_a_step_out_of_the_box_or_without_an_exact_draw_is_refused(truth, y):
    def outside(noise, statistic, phi, rng):
        return phi + 5

    options = {"model": truth.GAUSSIAN, "method": "gibbs", "calls": 1, "draws": 4}
    with pytest.raises(InputError, match=r"sigma = 5.* is outside"):
        gibbsdiff.denoise(y, noise="white", phi_step=outside, **options)
    narrow = WhiteNoise(prior=lambda phi: -phi[..., 0])
    with pytest.raises(InputError, match="uniform prior"):
        gibbsdiff.denoise(y, noise=narrow, phi_step=conjugate_amplitude, **options)


def test_a_mixture_by_the_marginal_method(truth):
    """x around one of two patterns that y hardly tells apart: the evidence is a sum of two."""
    side, S = 32, 0.03
    column = np.arange(side)
    patterns = [0.4 + 0.05 * np.cos(2 * np.pi * f * column / side) for f in (2, 9)]
    patterns = [np.tile(row, (side, 1)) for row in patterns]
    spectrum = torch.full((1, side, side // 2 + 1), S, dtype=torch.float64)
    means = [torch.tensor(m)[None] for m in patterns]
    denoiser = MixtureDenoiser([0.5, 0.5], means, [spectrum, spectrum])
    x = np.mean(patterns, 0) + math.sqrt(S) * np.random.default_rng(3).standard_normal((side, side))
    y = x + truth.coloured((side, side), 0.3, 0.3, 4)
    noise = PowerLawNoise()
    problem = Problem(torch.tensor(y)[None], noise, denoiser, ObservationModel(noise, (side, side)))
    (p,) = infer(problem, Options("marginal", draws=1000, samples=0))
    axes = [np.linspace(r.mean - 5 * r.sd, r.mean + 5 * r.sd, 50) for r in p.rows]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    log_p = np.empty((2, len(grid)))
    for j, pattern in enumerate(patterns):
        P = np.abs(np.fft.fft2(y - pattern)) ** 2 / side**2
        for i, at in enumerate(grid):
            T = S + truth.noise_spectrum((side, side), *at)
            log_p[j, i] = -0.5 * (np.log(T) + P / T).sum()
    weight = np.exp(log_p - log_p.max())
    assert 0.1 < weight.sum(1)[0] / weight.sum() < 0.9  # either could be
    weight = weight.sum(0) / weight.sum()
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    for row, m, s in zip(p.rows, mean, sd, strict=True):
        assert abs(row.mean - m) < 0.15 * s
        assert row.sd == pytest.approx(s, rel=0.1)
    assert p.method == "marginal"
    # The map knows of the two patterns: where they differ, x is less certain.
    apart = np.abs(patterns[0] - patterns[1])[0]
    spread = p.sd[0].mean(0).numpy()
    assert np.corrcoef(apart, spread)[0, 1] > 0.9
