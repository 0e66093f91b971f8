"""Exact denoisers against dense linear algebra and brute force."""

import math

import pytest
import torch
from scipy import stats
from torch.distributions import MultivariateNormal

from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser, MixtureError
from gibbsdiff.diffusion.conjugate_gradients import solve
from gibbsdiff.diffusion.signal import FixedSignal, PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import OPPONENT, power, to_opponent
from gibbsdiff.noise import PixelNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.streams import Streams

SHAPE = (8, 6)
GREY = PowerLawSignal((0.02,), (2.0,), 0.4)
COLOUR = PowerLawSignal((0.02, 0.004, 0.001), (2.0, 2.2, 1.8), 0.4)


def dense(spectra, shape=SHAPE):
    """Covariance (C n, C n) of RGB or grey images with a spectrum per opponent channel."""
    size = shape[0] * shape[1]
    unit = torch.eye(size).double().reshape(size, 1, *shape)
    blocks = [
        torch.fft.irfft2(torch.fft.rfft2(unit) * s, s=shape).reshape(size, size) for s in spectra
    ]
    stacked = torch.block_diag(*blocks)
    if len(blocks) == 1:
        return stacked
    turn = torch.kron(OPPONENT, torch.eye(size).double())
    return turn.T @ stacked @ turn


@pytest.mark.parametrize(("signal", "channels"), [(GREY, 1), (COLOUR, 3)], ids=["grey", "colour"])
def test_wiener_filter_equals_dense_regression(signal, channels):
    noise = PowerLawNoise().covariance(SHAPE, torch.tensor([[0.2, -0.6]]).double())
    S = dense(signal.power(SHAPE)[0])
    N = dense(noise.power[0].expand(channels, -1, -1))
    denoiser = GaussianDenoiser(signal)
    y = denoiser.prior(SHAPE, Streams.batch(0, 1), channels) + noise.draw(
        Streams.batch(1, 1), channels
    )
    mean, error = denoiser(y, noise)
    gain = torch.linalg.solve(S + N, S).T
    assert torch.allclose(mean.flatten(), 0.4 + gain @ (y.flatten() - 0.4), atol=1e-10)
    assert torch.allclose(dense(error.spectrum()[0]), S - gain @ S, atol=1e-12)
    evidence = MultivariateNormal(torch.full((len(S),), 0.4, dtype=torch.float64), S + N).log_prob(
        y.flatten()
    )
    assert float(denoiser.log_evidence(y, noise)) == pytest.approx(float(evidence), rel=1e-10)


@pytest.mark.parametrize("channels", [1, 3])
def test_pixel_noise_posterior_equals_dense_regression(channels):
    """Mean to the solver's tolerance; the covariance of draws by its worst eigen-direction."""
    signal = GREY if channels == 1 else COLOUR
    where = torch.linspace(0, 3, 48).reshape(SHAPE)
    model = PixelNoise.affine(where)
    n = 3000 if channels == 1 else 800
    noise = model.covariance(SHAPE, torch.tensor([[0.01, 0.05]]).double().expand(n, -1))
    S = dense(signal.power(SHAPE)[0])
    N = torch.diag(noise.variance[0].flatten().repeat(channels))
    denoiser = GaussianDenoiser(signal)
    y = denoiser.prior(SHAPE, Streams.batch(2, 1), channels)
    y = (y + noise.rows(torch.zeros(1).long()).draw(Streams.batch(3, 1), channels)).expand(
        n, -1, -1, -1
    )
    gain = torch.linalg.solve(S + N, S).T
    mean = 0.4 + gain @ (y[0].flatten() - 0.4)
    assert torch.allclose(denoiser(y[:1], noise.rows(torch.zeros(1).long())).mean.flatten(), mean)
    draws = denoiser.draw(y, noise, Streams.batch(4, n)).reshape(n, -1)
    eigenvalues, basis = torch.linalg.eigh(S - gain @ S)
    assert float(eigenvalues.min()) > 0
    z = ((draws - mean) @ basis) / eigenvalues.sqrt()
    assert float(z.mean(0).abs().max()) * math.sqrt(n) < 4.5
    chi2 = z.square().sum(0).numpy()
    p = stats.chi2.cdf(chi2, n)
    assert min(p.min(), (1 - p).min()) > 0.005 / len(chi2)


def test_conjugate_gradients_solves_each_row_to_its_own_tolerance():
    d = torch.linspace(1, 1e4, 48).reshape(1, 1, *SHAPE).double()
    b = Streams.batch(5, 3).normal(1, *SHAPE)
    b[1] = 0
    b[2] *= 1e-6
    x = solve(lambda v: d * v, b, lambda v: v)
    assert torch.allclose(x, b / d, rtol=1e-6, atol=1e-16)
    with pytest.raises(RuntimeError, match="did not converge in 2"):
        solve(lambda v: d * v, b, lambda v: v, most=2)


def mixture(shape=(1, 2)):
    """Two components of other means and spectra, on two pixels."""
    means = [torch.tensor([[[-1.0, 0.5]]]), torch.tensor([[[1.2, -0.3]]])]
    spectra = [torch.tensor([[[0.15, 0.05]]]), torch.tensor([[[0.05, 0.3]]])]
    return MixtureDenoiser([0.35, 0.65], means, spectra)


def brute_force(denoiser, y, sigma, points=801, reach=4.0):
    """p(x | y) of two pixels on a grid, by the definition of the mixture."""
    axis = torch.linspace(-reach, reach, points).double()
    grid = torch.cartesian_prod(axis, axis)
    log_p = -0.5 * ((grid - y.flatten()) ** 2).sum(-1) / sigma**2
    parts = [
        lw + MultivariateNormal(m.flatten(), dense(s[0], (1, 2))).log_prob(grid)
        for lw, m, s in zip(denoiser.log_weights, denoiser.means, denoiser.spectra, strict=True)
    ]
    return axis, grid, torch.softmax(log_p + torch.stack(parts).logsumexp(0), 0)


@pytest.mark.parametrize("sigma", [0.15, 0.6])
def test_mixture_moments_and_draws_equal_brute_force(sigma):
    denoiser = mixture()
    n = 20000
    y = torch.tensor([[[[0.1, 0.2]]]]).double().expand(n, -1, -1, -1)
    noise = WhiteNoise().covariance((1, 2), torch.full((n, 1), sigma).double())
    _, grid, p = brute_force(denoiser, y[0], sigma)
    mean = p @ grid
    cov = (grid - mean).T @ (p[:, None] * (grid - mean))
    estimate = denoiser(y[:1], noise.rows(torch.zeros(1).long()))
    assert torch.allclose(estimate.mean.flatten(), mean, atol=1e-6)
    assert torch.allclose(estimate.error.pixel_variance().flatten(), cov.diagonal(), atol=1e-6)
    F = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64) / math.sqrt(2)
    modes = (F @ cov @ F.T).diagonal()
    assert torch.allclose(estimate.error.spectrum().flatten(), modes, atol=1e-6)
    drawn = denoiser.draw(y, noise, Streams.batch(6, n)).reshape(n, 2)
    error = denoiser(y, noise).error.draw(Streams.batch(7, n), 1).reshape(n, 2)
    for sample, centre in ((drawn, mean), (error, torch.zeros(2).double())):
        z = (sample.mean(0) - centre) / cov.diagonal().sqrt() * math.sqrt(n)
        assert float(z.abs().max()) < 4
        off = (torch.cov(sample.T) - cov) / cov.diagonal().max() * math.sqrt(n)
        assert float(off.abs().max()) < 6


def test_spectrum_and_variance_of_a_mixtures_error_are_those_of_its_draws_in_colour():
    n = 4000
    power_law = PowerLawSignal((0.05, 0.02, 0.01), (1.5, 1.0, 0.5)).power(SHAPE)[0]
    means = [0.5 * Streams.batch(i, 1).normal(3, *SHAPE)[0] for i in (11, 12)]
    denoiser = MixtureDenoiser([0.5, 0.5], means, [power_law, 2 * power_law])
    noise = WhiteNoise().covariance(SHAPE, torch.full((1, 1), 4.0).double())
    error = denoiser(torch.zeros(1, 3, *SHAPE).double(), noise).error
    assert float(error.spread.abs().max()) > 0.1  # both components count
    many = MixtureError(
        error.within.rows(torch.zeros(n).long()), error.spread.expand(-1, n, -1, -1, -1)
    )
    drawn = to_opponent(many.draw(Streams.batch(13, n), 3))
    for sample, expected in (
        (power(drawn), error.spectrum()),
        (drawn.square(), error.pixel_variance()),
    ):
        z = (sample.mean(0) - expected[0]) / sample.std(0) * math.sqrt(n)
        assert float(z.abs().max()) < 4.5


def test_a_mixture_computes_in_the_type_that_it_is_given():
    denoiser, y = mixture(), torch.tensor([[[[0.1, 0.2]]]])
    noise = WhiteNoise().covariance((1, 2), torch.full((1, 1), 0.3).double(), torch.float32)
    single = denoiser(y, noise)
    double = denoiser(y.double(), noise.to(dtype=torch.float64))
    assert single.mean.dtype == single.error.spectrum().dtype == torch.float32
    assert single.error.draw(Streams.batch(0, 1), 1).dtype == torch.float32
    assert torch.allclose(single.mean.double(), double.mean, atol=1e-6)


def test_a_mixture_of_one_is_the_gaussian():
    S = GREY.power(SHAPE)[0]
    one = MixtureDenoiser([2.0], [torch.tensor(0.4)], [S])
    noise = PowerLawNoise().covariance(SHAPE, torch.tensor([[0.2, 0.4]]).double())
    y = Streams.batch(8, 1).normal(1, *SHAPE)
    same = GaussianDenoiser(FixedSignal(S, 0.4))
    assert torch.allclose(one(y, noise).mean, same(y, noise).mean, atol=1e-12)
    a = one.draw(y, noise, Streams.batch(9, 1))
    assert bool(torch.isfinite(a).all())


def test_wrong_partners_are_refused():
    noise = PixelNoise.weighted(torch.ones(1, 2)).covariance((1, 2), torch.ones(1, 1).double())
    with pytest.raises(InputError, match="stationary"):
        mixture()(torch.zeros(1, 1, 1, 2).double(), noise)
    with pytest.raises(ValueError, match="modes"):
        FixedSignal(torch.ones(1, 8, 4)).power((9, 6))
    with pytest.raises(ValueError, match="as many"):
        MixtureDenoiser([1.0], [], [])
