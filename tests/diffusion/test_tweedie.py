"""The error by the derivative, eq. (13): exact Jacobians, a prior whose posterior is known."""

import math
import statistics

import pytest
import torch

from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.diffusion.tweedie import along, derivative, in_bands, phases
from gibbsdiff.fourier import fft, from_opponent, half_plane, to_opponent
from gibbsdiff.noise import PowerLawNoise, SpectralCovariance
from gibbsdiff.streams import Streams

GREY = PowerLawSignal((5e-4,), (2.6,), 0.45)


def test_a_linear_filter_is_seen_without_scatter(observed):
    _, y, noise = observed((24, 17))
    gain = torch.linspace(0.1, 0.9, 24 * 9).reshape(24, 9)
    gain[1:, 0] = (gain[1:, 0] + gain[1:, 0].flip(0)) / 2  # the filter of a real field

    def filtered(z):
        return torch.fft.irfft2(torch.fft.rfft2(z) * gain, s=(24, 17))

    J = derivative(filtered, filtered(y.double()), y.double(), noise)
    assert torch.allclose(J, gain.double().expand_as(J), atol=1e-6)


def test_the_difference_is_the_derivative(observed, small):
    """Against forward differentiation, of a network in single precision: in bands, to a thousandth
    of the noise's power.
    """
    _, y, noise = observed((64, 64))
    denoiser = SpectralDenoiser(small(), NATURAL)
    u, root = phases(y, 0), noise.power.sqrt()
    probe = from_opponent(torch.fft.irfft2(u * root, s=(64, 64), norm="ortho")).contiguous()
    _, exact = torch.func.jvp(lambda z: denoiser(z, noise).mean, (y,), (probe,))
    found = along(lambda z: denoiser(z, noise).mean, denoiser(y, noise).mean, y, probe)
    off = in_bands((u.conj() * fft(to_opponent(found - exact))).real / root, (64, 64))
    assert float(off.abs().max()) < 1e-3
    assert float((found - exact).norm() / exact.norm()) < 0.01


def test_the_probe_finds_the_diagonal_of_the_jacobian_without_bias(observed, small):
    """Over many probes, against the whole matrix of a random network on a small image."""
    shape = (16, 16)
    _, y, noise = observed(shape, channels=1, levels=((0.1, -1.0),), signal=GREY)
    denoiser = SpectralDenoiser(small(1, padding="circular"), GREY)

    def split(z):
        return denoiser(z, noise).mean

    whole = torch.func.jacrev(split)(y).reshape(256, 256).double()
    modes = torch.fft.fft2(torch.eye(256).double().reshape(256, *shape), norm="ortho").flatten(1)
    exact = torch.einsum("mk,mn,nk->k", modes.conj(), whole.to(modes.dtype), modes).real
    exact = exact.reshape(shape)[:, :9]
    probes = torch.stack([derivative(split, split(y), y, noise, seed)[0, 0] for seed in range(200)])
    error = probes.std(0) / math.sqrt(len(probes))
    z = ((probes.mean(0) - exact) / error.clamp(min=1e-6)).flatten()
    assert float(z.square().mean()) < 1.5
    assert float(z.abs().max()) < 5


def test_tweedie_has_the_error_of_a_prior_of_two_points():
    """x = ±1 in every pixel under white noise: D = tanh(y/s²), Cov = 1 - D², pixels independent."""
    s, shape = 0.8, (64, 64)
    x = torch.sign(Streams(0, [(0,)]).normal(1, *shape)).double()
    y = x + s * Streams(0, [(1,)]).normal(1, *shape)
    power = torch.full((1, 1, 64, 33), s**2, dtype=torch.float64)
    noise = SpectralCovariance(power, shape)
    weight = half_plane(shape).weight
    found = []
    for seed in range(30):
        mean = torch.tanh(y / s**2)
        J = derivative(lambda z: torch.tanh(z / s**2), mean, y, noise, seed)
        found.append(float((s**2 * J.flatten() * weight).sum() / weight.sum()))
    predicted, known = statistics.mean(found), float((1 - mean.square()).mean())
    assert abs(predicted - known) < 4 * statistics.stdev(found) / math.sqrt(len(found))
    assert statistics.stdev(found) < 0.05 * known
    errors = (x - mean).square()
    scatter = float(errors.std()) / 64
    assert abs(float(errors.mean()) - predicted) < 4 * scatter


@pytest.mark.parametrize("channels", [3, 1])
def test_a_silent_network_has_the_wiener_error_already(channels, observed, silent):
    signal = NATURAL if channels == 3 else GREY
    _, y, noise = observed((40, 32), channels, signal=signal)
    plain = SpectralDenoiser(silent(channels), signal)
    said, found = plain(y, noise), plain.with_derivative_error()(y, noise)
    assert torch.allclose(said.mean, found.mean)
    assert torch.allclose(said.error.spectrum(), found.error.spectrum(), rtol=2e-3)


def test_adapted_to_an_image_is_as_probed_there_and_costs_no_derivative(observed, small):
    levels = ((0.1, -0.5), (0.2, 0.3))
    _, y, noise = observed((48, 48), levels=levels)
    denoiser = SpectralDenoiser(small(seed=3), NATURAL)
    probed = denoiser.with_derivative_error(seed=4)
    for i in range(2):
        one = torch.tensor([i])
        own = probed.adapted(y[one], noise.rows(one))
        assert own.probe is None
        ours, theirs = (d(y[one], noise.rows(one)).error.spectrum() for d in (own, probed))
        assert torch.allclose(ours, theirs, rtol=1e-3)
        plain = denoiser(y[one], noise.rows(one)).error.spectrum()
        assert float((ours / plain).log().abs().max()) > 0.01
        # The error's colour changes, its place in the picture does not.
        v = denoiser(y[one], noise.rows(one)).error.log_variance
        assert torch.equal(own(y[one], noise.rows(one)).error.log_variance, v)


def test_an_adapted_denoiser_is_named_by_what_it_was_made_from(observed, small):
    """Its own table differs by rounding from machine to machine; a checkpoint must not mind."""
    _, y, noise = observed((32, 32))
    first, other = (SpectralDenoiser(small(seed=seed), NATURAL) for seed in (3, 4))
    ours, rounded = (first.adapted(z, noise) for z in (y, y * (1 + 1e-6)))
    assert not torch.equal(ours.calibration.log_c, rounded.calibration.log_c)
    assert ours.digest() == rounded.digest()
    names = {ours.digest(), first.digest(), other.digest(), other.adapted(y, noise).digest()}
    assert len(names) == 4


def test_the_same_probe_makes_a_smooth_score(observed, small):
    """Twice the step, twice the change: no scatter of the probe from φ to φ."""
    x, _, _ = observed((32, 32), channels=1, signal=GREY)
    family, denoiser = PowerLawNoise(), SpectralDenoiser(small(1), GREY).with_derivative_error()
    y = x + 0.1 * Streams(5, [(0,)]).normal(1, 32, 32, dtype=torch.float32)

    def total(sigma):
        phi = torch.tensor([[sigma, 0.0]], dtype=torch.float64)
        noise = family.covariance((32, 32), phi, torch.float32)
        return float(denoiser(y, noise).error.spectrum().double().sum())

    here, near, far = (total(0.1 * (1 + d)) for d in (0.0, 0.002, 0.004))
    assert (far - here) / (near - here) == pytest.approx(2, abs=0.1)
