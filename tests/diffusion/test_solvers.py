"""Draws of x | y, φ: exact moments where they are known, orders of convergence elsewhere."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal

from gibbsdiff.diffusion import solvers
from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser
from gibbsdiff.diffusion.composed import composed_ddpm
from gibbsdiff.diffusion.process import (
    DiscreteVariancePreserving,
    VarianceExploding,
    VariancePreserving,
)
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.noise import PixelNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.streams import Streams

SHAPE = (12, 10)
SIGNAL = PowerLawSignal((0.02,), (2.0,), 0.4)
DENOISER = GaussianDenoiser(SIGNAL)
PHI = torch.tensor([[0.2, -0.5]], dtype=torch.float64)


def observed(rows=1):
    """One observation, repeated, with its noise."""
    covariance = PowerLawNoise().covariance(SHAPE, PHI)
    y = DENOISER.prior(SHAPE, Streams.batch(0, 1)) + covariance.draw(Streams.batch(1, 1), 1)
    zeros = torch.zeros(rows, dtype=torch.int64)
    return y[zeros], covariance.rows(zeros)


def bands(P):
    """Weighted power in five radial bands, with the number of modes in each."""
    k = half_plane(SHAPE)
    index = torch.bucketize(k.k, torch.tensor([0.05, 0.15, 0.3, 0.45]).double())
    sums = torch.zeros(5).double().index_add_(0, index, (k.weight * P.flatten()))
    return sums, torch.zeros(5).double().index_add_(0, index, k.weight)


class Impulses(Streams):
    """Silence, but for row b the b-th draw, whose modes are all 1."""

    def __init__(self, rows):
        super().__init__(0, [(i,) for i in range(rows)])
        self.count = 0

    def rows(self, index):
        assert len(index) == len(self)
        return self

    def normal(self, *shape, dtype=torch.float64):
        out = torch.zeros(len(self), *shape, dtype=dtype)
        out[self.count : self.count + 1, ..., 0, 0] = math.sqrt(shape[-1] * shape[-2])
        self.count += 1
        return out


def linear_response(sampler):
    """Exact mean gain and variance of a sampler that is linear in y and its noises, by mode.

    x = G y + Σ L_i ξ_i: an impulse in y shows G, impulses instead of the noises ξ_i show
    the L_i, in every mode and without any chance.
    """
    covariance = observed()[1]
    impulse = torch.zeros(1, 1, *SHAPE).double()
    impulse[..., 0, 0] = math.sqrt(SHAPE[0] * SHAPE[1])

    def respond(y, rng):
        rows = torch.zeros(len(rng), dtype=torch.int64)
        return torch.fft.rfft2(sampler(y[rows], covariance.rows(rows), rng).x - 0.4, norm="ortho")

    quiet = Impulses(1)
    quiet.count = 1  # past the row: all of it silent
    gain = respond(0.4 + impulse, quiet).real[0, 0]
    draws = Impulses(quiet.count - 1)
    variance = respond(torch.full_like(impulse, 0.4), draws).abs().square().sum(0)[0]
    return gain, variance


def exact_response():
    _, noise = observed()
    S, N = SIGNAL.power(SHAPE)[0, 0], noise.power[0, 0]
    return S / (S + N), S * N / (S + N)


@pytest.mark.parametrize("calls", [1, 2, 7])
def test_our_kernel_is_exact_for_a_gaussian_in_any_number_of_calls(calls):
    gain, variance = linear_response(
        lambda y, noise, rng: solvers.few_step(DENOISER, y, noise, rng, calls=calls)
    )
    exact_gain, V = exact_response()
    assert torch.allclose(gain, exact_gain, rtol=1e-10)
    assert torch.allclose(variance, V, rtol=1e-10)


def test_one_call_draws_have_the_exact_mean_and_band_covariance():
    """The same by Monte Carlo, through real random streams."""
    n = 4000
    y, noise = observed(n)
    draw = solvers.few_step(DENOISER, y, noise, Streams.batch(2, n), calls=1)
    assert draw.calls.tolist() == [1] * n
    mean, error = DENOISER(y[:1], noise.rows(torch.zeros(1).long()))
    assert torch.allclose(draw.mean[:1], mean)
    sd = (power(draw.x - mean).mean(0)[0] / n).sqrt()
    z = torch.fft.rfft2(draw.x.mean(0) - mean[0], norm="ortho")[0].abs() / sd
    assert float(z.max()) < 4.5
    sums, modes = bands((power(draw.x - mean) / error.spectrum()[:1]).sum(0)[0])
    p = stats.chi2.cdf(sums.numpy(), n * modes.numpy())
    assert min(p.min(), (1 - p).min()) > 0.001


@pytest.mark.parametrize("variance", ["beta", "posterior"])
@pytest.mark.parametrize("process", [VariancePreserving(), VarianceExploding()], ids=["VP", "VE"])
def test_ddpm_converges_to_the_exact_posterior_at_first_order(process, variance):
    _, noise = observed()
    exact_gain, V = exact_response()
    errors = []
    duration = float(process.time(noise.level))
    for calls in (32, 64, 128):
        gain, var = linear_response(
            lambda y, noise, rng, calls=calls: solvers.ddpm(
                DENOISER,
                y,
                noise,
                rng,
                process=process,
                steps=round(calls / duration),
                variance=variance,
            )
        )
        # E[z_s | z_t] is linear and exact at every step, and so is its composition.
        assert torch.allclose(gain, exact_gain, rtol=1e-6)
        errors.append(float(((var - V).abs() / V).max()))
    orders = [math.log2(errors[i] / errors[i + 1]) for i in range(2)]
    assert orders == pytest.approx([1, 1], abs=0.15)


def test_the_papers_setting_is_within_a_few_percent_of_exact():
    """5,000 discrete steps from σ = 0.2: 290 calls. Our kernel needs one."""
    _, noise = observed()
    process = DiscreteVariancePreserving()
    levels = solvers.uniform_in_time(noise.level, process, 5000, "beta")
    assert levels.u.shape[1] - 1 == pytest.approx(290, abs=1)
    _, var = linear_response(
        lambda y, noise, rng: solvers.ddpm(DENOISER, y, noise, rng, process=process, steps=5000)
    )
    _, V = exact_response()
    assert float(((var - V).abs() / V).max()) < 0.05


def test_the_papers_chain_in_one_draw_has_the_law_of_its_steps():
    """Mean and variance of every mode, and the calls."""
    y, noise = observed()
    step_by_step, at_once = solvers.ddpm_of(DENOISER), composed_ddpm(DENOISER)
    gains, variances = zip(
        *(linear_response(partial(how, DENOISER)) for how in (step_by_step, at_once)), strict=True
    )
    assert torch.allclose(gains[0], gains[1], rtol=1e-10)
    assert torch.allclose(variances[0], variances[1], rtol=1e-10)
    draws = [how(DENOISER, y, noise, Streams.batch(0, 1)) for how in (step_by_step, at_once)]
    assert draws[0].calls.tolist() == draws[1].calls.tolist()
    assert torch.allclose(draws[0].mean, draws[1].mean)


def test_ancestral_sampling_is_short_of_variance_and_the_error_model_cures_it():
    _, V = exact_response()
    _, var = linear_response(
        lambda y, noise, rng: solvers.few_step(DENOISER, y, noise, rng, calls=6, error=False)
    )
    assert float((var / V).max()) < 0.9


@pytest.mark.parametrize("sigma", [0.3, 0.8])
def test_mixture_by_twenty_calls_against_brute_force(sigma):
    """Two pixels, two components: marginals and their sum by KS against a grid integral."""
    means = [torch.tensor([[[-1.0, 0.5]]]), torch.tensor([[[1.2, -0.3]]])]
    spectra = [torch.tensor([[[0.15, 0.05]]]), torch.tensor([[[0.05, 0.3]]])]
    denoiser = MixtureDenoiser([0.35, 0.65], means, spectra)
    n = 4000
    y = torch.tensor([[[[0.1, 0.2]]]]).double().expand(n, -1, -1, -1)
    noise = WhiteNoise().covariance((1, 2), torch.full((n, 1), sigma).double())
    x = solvers.few_step(denoiser, y, noise, Streams.batch(3, n), calls=20).x.reshape(n, 2)
    axis = torch.linspace(-4, 4, 1601).double()
    grid = torch.cartesian_prod(axis, axis)
    log_p = -0.5 * ((grid - y[0].flatten()) ** 2).sum(-1) / sigma**2
    half = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double() / math.sqrt(2)
    parts = []
    for weight, mean, spectrum in zip((0.35, 0.65), means, spectra, strict=True):
        cov = half.T @ torch.diag(spectrum.flatten().double()) @ half
        normal = MultivariateNormal(mean.flatten().double(), cov)
        parts.append(math.log(weight) + normal.log_prob(grid))
    p = torch.softmax(log_p + torch.stack(parts).logsumexp(0), 0).reshape(1601, 1601)
    total = torch.zeros(3201).double()
    for i in range(1601):
        total[i : i + 1601] += p[i]
    marginals = [(p.sum(1), axis, x[:, 0]), (p.sum(0), axis, x[:, 1])]
    marginals.append((total, torch.linspace(-8, 8, 3201).double(), x.sum(1)))
    for density, at, drawn in marginals:
        cdf = torch.cumsum(density, 0) - density / 2
        values = np.interp(drawn.numpy(), at.numpy(), cdf.numpy())
        assert stats.kstest(values, "uniform").pvalue > 0.01


def test_pixel_noise_is_drawn_in_one_call():
    """Kernel (7) with E from conjugate gradients equals dense regression in its moments."""
    where = torch.linspace(0, 2, 120).reshape(SHAPE)
    n = 1500
    noise = PixelNoise.affine(where).covariance(
        SHAPE, torch.tensor([[0.02, 0.03]]).double().expand(n, -1)
    )
    y, _ = observed(n)
    draw = solvers.few_step(DENOISER, y, noise, Streams.batch(4, n), calls=1)
    size = SHAPE[0] * SHAPE[1]
    unit = torch.eye(size).double().reshape(size, 1, *SHAPE)
    S = torch.fft.irfft2(torch.fft.rfft2(unit) * SIGNAL.power(SHAPE), s=SHAPE).reshape(size, size)
    gain = torch.linalg.solve(S + torch.diag(noise.variance[0].flatten()), S).T
    eigenvalues, basis = torch.linalg.eigh(S - gain @ S)
    mean = 0.4 + gain @ (y[0].flatten() - 0.4)
    z = ((draw.x.reshape(n, -1) - mean) @ basis) / eigenvalues.sqrt()
    assert float(z.mean(0).abs().max()) * math.sqrt(n) < 4.5
    assert float(z.square().mean(0).sub(1).abs().max()) < 5 * math.sqrt(2 / n)


def test_images_of_other_levels_share_a_batch_and_leave_it_when_done():
    """Rows alone and together agree, and no call is made for a finished image."""
    phi = torch.tensor([[0.01, 0.0], [0.9, -1.0], [0.05, 0.7]], dtype=torch.float64)
    noise = PowerLawNoise().covariance(SHAPE, phi)
    y = DENOISER.prior(SHAPE, Streams.batch(5, 3)) + noise.draw(Streams.batch(6, 3), 1)
    seen = []

    def counting(z, here):
        seen.append(len(z))
        return DENOISER(z, here)

    process = VariancePreserving()
    for sampler in (
        lambda z, n, rng: solvers.few_step(counting, z, n, rng, calls=12),
        lambda z, n, rng: solvers.ddpm(counting, z, n, rng, process=process, steps=200),
    ):
        seen.clear()
        together = sampler(y, noise, Streams.batch(7, 3))
        assert sum(seen) == int(together.calls.sum())
        assert together.calls.unique().numel() > 1
        for i in range(3):
            one = torch.tensor([i])
            alone = sampler(y[one], noise.rows(one), Streams(7, [(i,)]))
            assert torch.allclose(alone.x, together.x[one], atol=1e-10)
            assert torch.allclose(alone.mean, together.mean[one], atol=1e-10)
            assert int(alone.calls) == int(together.calls[i])


def test_a_seed_reproduces_a_draw_and_another_does_not():
    y, noise = observed(2)
    first = solvers.few_step(DENOISER, y, noise, Streams.batch(8, 2), calls=3).x
    again = solvers.few_step(DENOISER, y, noise, Streams.batch(8, 2), calls=3).x
    other = solvers.few_step(DENOISER, y, noise, Streams.batch(9, 2), calls=3).x
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_geometric_levels():
    levels = solvers.geometric(torch.tensor([0.4, 0.002, 0.008]).double(), 12).u
    assert torch.allclose(levels[:, 0], torch.ones(3).double())
    assert torch.equal(levels[:, -1], torch.zeros(3).double())
    ratios = levels[0, 1:12] / levels[0, :11]
    assert torch.allclose(ratios, ratios[:1].expand(11))
    assert float(levels[0, 11] * 0.4) > 0.004  # the floor itself is where the last step ends
    assert torch.equal(levels[1, 1:], torch.zeros(12).double())  # below the floor: one call
    assert int((levels[2] > 0).sum()) == 7  # 0.9^7 < 0.004/0.008 < 0.9^6: fewer calls suffice


def test_bad_arguments():
    y, noise = observed()
    rng = Streams.batch(0, 1)
    with pytest.raises(ValueError, match="at least one call"):
        solvers.few_step(DENOISER, y, noise, rng, calls=0)
    with pytest.raises(ValueError, match="'beta' or 'posterior'"):
        solvers.ddpm(DENOISER, y, noise, rng, process=VariancePreserving(), variance="x")
    with pytest.raises(ValueError, match="above"):
        solvers.ddpm(DENOISER, y, noise, rng, process=VarianceExploding(0.01, 0.1))
