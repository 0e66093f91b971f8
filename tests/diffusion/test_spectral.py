"""The network's denoiser: preconditioning, error model and losses, eqs. (4), (6) and (7)."""

import math

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration
from gibbsdiff.diffusion.error_model import NetworkError
from gibbsdiff.diffusion.losses import losses
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import REFERENCE, half_plane, power, to_opponent
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise import PowerLawNoise, SpectralCovariance
from gibbsdiff.streams import Streams

GREY = PowerLawSignal((5e-4,), (2.6,), 0.45)


@pytest.mark.parametrize(("channels", "signal"), [(3, NATURAL), (1, GREY)], ids=["RGB", "grey"])
@pytest.mark.parametrize("shape", [(32, 24), (17, 50)], ids=str)
def test_a_silent_network_leaves_the_wiener_filter(channels, signal, shape, observed, silent):
    _, y, noise = observed(shape, channels, signal=signal)
    estimate = SpectralDenoiser(silent(channels), signal)(y, noise)
    exact = GaussianDenoiser(signal)(y, noise)
    assert torch.allclose(estimate.mean, exact.mean, atol=1e-5)
    assert torch.allclose(estimate.error.spectrum(), exact.error.spectrum(), rtol=1e-4)


def test_losses_of_the_wiener_filter_on_a_gaussian_signal(observed, silent):
    """Loss (6) is 1 by definition in any units; both likelihoods are ½: every mode has unit
    variance.
    """
    levels = [(s, f) for s in (0.05, 0.2) for f in (-1.0, 0.0, 1.0)] * 8
    x, y, noise = observed((48, 48), levels=levels, seed=1)
    found = losses(SpectralDenoiser(silent(), NATURAL), x, y, noise)
    for values, expected in zip(found, (1.0, 1.0, 0.5, 0.5), strict=True):
        assert float(values.mean()) == pytest.approx(
            expected, abs=4 * float(values.std()) / math.sqrt(len(values))
        )


def test_an_image_alone_and_in_a_batch_of_other_levels_agrees(observed, small):
    levels = [(0.02, -1.0), (0.3, 0.4), (0.9, 1.0)]
    _, y, noise = observed((40, 24), levels=levels, seed=2)
    denoiser = SpectralDenoiser(small(), NATURAL)
    together = denoiser(y, noise)
    for i in range(3):
        one = torch.tensor([i])
        alone = denoiser(y[one], noise.rows(one))
        assert torch.allclose(alone.mean, together.mean[one], atol=1e-5)
        assert torch.allclose(alone.error.spectrum(), together.error.spectrum()[one], rtol=1e-3)


def test_error_draws_have_the_power_and_the_variance_that_they_state():
    n, shape = 4000, (16, 12)
    v = torch.linspace(-2, 2, 3 * 16 * 12).reshape(1, 3, *shape).double()
    gain = (0.1 + half_plane(shape).k).reshape(1, 1, 16, -1).expand(1, 3, -1, -1)
    error = NetworkError(gain.expand(n, -1, -1, -1), v.expand(n, -1, -1, -1))
    drawn = to_opponent(error.draw(Streams.batch(3, n), 3))
    ratio = drawn.square().mean(0) / error.pixel_variance()[0]
    assert float((ratio - 1).abs().max()) < 5 * math.sqrt(2 / n)
    per_mode = power(drawn).mean(0) / error.spectrum()[0]
    assert float((per_mode - 1).abs().max()) < 6 * math.sqrt(2 / n)


def test_band_factors_are_log_linear_between_the_references(observed, small):
    denoiser = SpectralDenoiser(small(), NATURAL)
    network = denoiser.network
    with torch.no_grad():
        network.band_head[-1].bias.copy_(torch.linspace(-1, 1, 8).repeat(3))
    _, y, noise = observed((96, 96))
    bare = SpectralDenoiser(small(), NATURAL)(y, noise).error.spectrum()
    ratio = (denoiser(y, noise).error.spectrum() / bare)[0, 0, 0]
    for radius, value in zip(REFERENCE, torch.linspace(-1, 1, 8), strict=True):
        n = radius * 96
        if abs(n - round(n)) < 1e-9 and radius <= 0.5:
            assert float(ratio[round(n)].log()) == pytest.approx(float(value), abs=1e-4)


def test_calibration_multiplies_the_error_where_its_table_says(observed, small):
    """A table linear in both knots is reproduced by bilinear interpolation."""
    shape = (64, 64)
    a, b, c = 0.3, -0.2, 0.1
    knots_k = torch.log(torch.tensor(REFERENCE, dtype=torch.float64))
    table = a + b * knots_k[:, None] + c * LOG_RATIO
    calibration = Calibration(table.expand(3, -1, -1), torch.zeros(24, 24))
    N = PowerLawNoise().power(shape, torch.tensor([[0.1, 0.3], [0.5, -0.9]]).double())
    S = NATURAL.power(shape)
    factor = calibration.factor(N, S, shape)
    k = half_plane(shape).k.reshape(64, -1)
    ratio = torch.log(N / S)
    inside = ((k >= REFERENCE[0]) & (k <= REFERENCE[-1])).expand_as(ratio) & (ratio.abs() < 9)
    log_k = torch.log(k.clamp(min=1e-9)).expand_as(ratio)
    expected = a + b * log_k + c * ratio
    assert torch.allclose(factor.log()[inside], expected[inside], atol=1e-9)
    _, y, noise = observed(shape, levels=[(0.1, 0.3)])
    bare = SpectralDenoiser(small(), NATURAL)(y, noise).error.spectrum()
    told = SpectralDenoiser(small(), NATURAL, calibration)(y, noise).error.spectrum()
    assert torch.allclose(told / bare, factor[:1].float(), rtol=1e-3)


def test_the_kernel_runs_on_a_network_and_counts_its_calls(observed, silent):
    _, y, noise = observed((32, 32), levels=[(0.01, 0.0), (0.4, -1.0)])
    denoiser = SpectralDenoiser(silent(), NATURAL)
    draw = few_step(denoiser, y, noise, Streams.batch(4, 2), calls=12)
    assert draw.calls.tolist() == [9, 12]
    assert draw.x.dtype == torch.float32
    assert torch.allclose(draw.mean, denoiser(y, noise).mean, atol=1e-5)


def test_a_network_must_be_told_the_noise(observed, small):
    _, y, noise = observed()
    with pytest.raises(ValueError, match="descriptor"):
        SpectralDenoiser(small(), NATURAL)(y, SpectralCovariance(noise.power, noise.shape))


def test_a_network_for_cameras_leaves_large_scales_to_the_wiener_filter():
    """Its weights are random here, and move the mean of the picture by nothing; small scales have
    all of its correction.
    """
    shape = (96, 80)
    network = UNet(3, (16, 16), (1, 1), embedding=16, told=3, level_plane=True)
    rng = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=rng))
    noise = PowerLawNoise().covariance(shape, torch.tensor([[0.1, -0.5]]), torch.float32)
    z = 0.2 + 0.1 * torch.randn(1, 3, *shape, generator=rng)
    denoiser = SpectralDenoiser(network, NATURAL)
    assert denoiser.camera
    with torch.no_grad():
        found = denoiser.evaluate(z, noise)
    wiener = GaussianDenoiser(NATURAL)(z, noise).mean
    correction = torch.fft.rfft2(to_opponent(found.mean - wiener))
    own = torch.fft.rfft2(found.heads.correction) * found.wiener.V.sqrt()
    k = half_plane(shape).k.reshape(shape[0], -1)
    assert float((found.mean - wiener).mean((-2, -1)).abs().max()) < 1e-6
    assert float(own[..., 0, 0].abs().min()) > 0.01
    small = k > 0.03
    assert torch.allclose(correction[..., small], own[..., small], rtol=1e-3, atol=1e-4)
