"""ε-networks as denoisers, against the exact one of a Gaussian signal."""

import numpy as np
import pytest
import torch
from torch import nn

from gibbsdiff.diffusion import solvers
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser, network_time
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.diffusion.signal import PowerLawSignal, wiener
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane
from gibbsdiff.networks import OriginalUNet, ResUNet
from gibbsdiff.noise import (
    BandedNoise,
    PixelCovariance,
    PowerLawNoise,
    SpectralCovariance,
    SpectralNoise,
    with_fixed,
)
from gibbsdiff.streams import Streams

SHAPE = (12, 10)
GAUSSIAN = GaussianDenoiser(PowerLawSignal((0.02,), (2.0,), 0.4))
RANGES = ((-2.0, 1.0),)
FAMILY = PowerLawNoise(phi=RANGES[0])
PROCESSES = [DiscreteVariancePreserving(500), VariancePreserving(0.1, 2.0)]
every_process = pytest.mark.parametrize("process", PROCESSES, ids=["discrete", "continuous"])


class Exact(nn.Module):
    """E[ε | z_t] of the Gaussian signal, from what networks take: z_t, time, φ on [-1, 1]."""

    def __init__(self, process):
        super().__init__()
        self.process = process

    def forward(self, z_t, time, scaled):
        discrete = isinstance(self.process, DiscreteVariancePreserving)
        t = (time + 1) / self.process.steps if discrete else time
        a, level = self.process.a(t), self.process.level(t)
        low, high = RANGES[0]
        phi = torch.cat([level[:, None], low + (scaled + 1) / 2 * (high - low)], 1)
        z = z_t / a.view(-1, 1, 1, 1)
        mean, _ = GAUSSIAN(z, FAMILY.covariance(SHAPE, phi))
        return (z - mean) / level.view(-1, 1, 1, 1)


def observed(sigma, slope):
    phi = torch.tensor([[s, p] for s, p in zip(sigma, slope, strict=True)]).double()
    noise = FAMILY.covariance(SHAPE, phi)
    x = GAUSSIAN.prior(SHAPE, Streams.batch(0, len(phi)))
    return x, x + noise.draw(Streams.batch(1, len(phi)), 1), noise


@every_process
def test_the_exact_network_is_the_exact_denoiser(process):
    _, z, noise = observed((0.0101, 0.0517, 0.31, 1.2), (-1.7, -0.3, 0.9, 0.1))
    mean, error = EpsilonDenoiser(Exact(process), process, RANGES)(z, noise)
    assert torch.allclose(mean, GAUSSIAN(z, noise).mean, rtol=0, atol=1e-9)
    assert error is None


@every_process
@pytest.mark.parametrize("variance", ["beta", "posterior"])
def test_the_papers_sampler_draws_the_same_through_it(process, variance):
    _, y, noise = observed((0.07, 0.4), (-1.2, 0.5))

    def draw(denoiser):
        return solvers.ddpm(
            denoiser, y, noise, Streams.batch(3, 2), process=process, steps=60, variance=variance
        )

    ours, exact = draw(EpsilonDenoiser(Exact(process), process, RANGES)), draw(GAUSSIAN)
    assert torch.allclose(ours.x, exact.x, rtol=0, atol=1e-6)
    assert torch.allclose(ours.mean, exact.mean, rtol=0, atol=1e-6)
    assert torch.equal(ours.calls, exact.calls)


@pytest.mark.parametrize("steps", [5000, 10000])
def test_the_network_takes_levels_of_the_authors_steps_as_these_steps(steps):
    beta = 0.1 / steps + (20 - 0.1) / steps * (np.arange(steps) / steps)
    alpha_bar = np.cumprod(1 - beta)
    process = DiscreteVariancePreserving(steps)
    level = torch.from_numpy(np.sqrt((1 - alpha_bar) / alpha_bar))
    found = network_time(process, process.time(level))
    assert torch.allclose(found, torch.arange(steps).double(), rtol=0, atol=1e-6)
    # Half-way between two steps in log ᾱ is step i + ½: nothing is snapped.
    middle = torch.from_numpy(np.sqrt((alpha_bar[:-1] * alpha_bar[1:]) ** -0.5 - 1))
    found = network_time(process, process.time(middle))
    assert torch.allclose(found, torch.arange(steps - 1).double() + 0.5, rtol=0, atol=1e-6)


@every_process
def test_the_exact_networks_loss_is_the_posterior_variance_of_the_noise(process):
    """E‖ε - E[ε|z]‖² per pixel = mean_k V/σ²."""
    n = 800
    x, z, noise = observed((0.15,) * n, (-0.8,) * n)
    losses = EpsilonDenoiser(Exact(process), process, RANGES).losses(x, z, noise)
    V = wiener(GAUSSIAN.signal.power(SHAPE), noise.power[:1]).V
    expected = half_plane(SHAPE).mean(V.flatten(2)).squeeze() / 0.15**2
    assert losses.shape == (n,)
    assert float((losses.mean() - expected).abs() / (losses.std() / n**0.5)) < 4


def test_a_family_without_these_parameters_is_refused():
    _, z, noise = observed((0.1,), (0.0,))
    denoiser = EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES)
    with pytest.raises(InputError, match=r"takes 1 parameters .* the noise has none"):
        denoiser(z, SpectralCovariance(noise.power, SHAPE))
    bands = BandedNoise((0.1,)).covariance(SHAPE, torch.zeros(1, 2).double())
    with pytest.raises(InputError, match=r"takes 1 parameters .* the noise has a0, a1$"):
        denoiser(z, bands)


def test_as_many_parameters_of_another_name_are_refused():
    _, z, _ = observed((0.1,), (0.0,))
    own = SpectralNoise(
        lambda kx, ky, sigma, knee: 2 * sigma.log() + 0 * (kx + ky + knee),
        {"sigma": (0.01, 1.0), "knee": (0.1, 1.0)},
    ).covariance(SHAPE, torch.tensor([[0.1, 0.2]]).double())
    nameless = EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES)
    assert nameless(z, own).mean.shape == z.shape
    named = EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES, FAMILY.shape_names)
    with pytest.raises(InputError, match=r"it takes phi .* the noise has knee$"):
        named(z, own)


def test_noise_without_a_spectrum_is_refused():
    _, z, noise = observed((0.1,), (0.0,))
    denoiser = EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES)
    with pytest.raises(InputError, match="trained on another family of noise"):
        denoiser(z, PixelCovariance(noise.pixel_variance()))


def test_a_known_slope_is_the_family_that_it_knows():
    """With φ held fixed the noise has no shape parameter of its own, and the network takes φ."""
    _, z, noise = observed((0.1,), (0.5,))
    part = with_fixed(FAMILY, {"phi": 0.5}).covariance(SHAPE, torch.tensor([[0.1]]).double())
    denoiser = EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES, FAMILY.shape_names)
    assert torch.equal(denoiser(z, part).mean, denoiser(z, noise).mean)


def test_a_level_beyond_the_process_is_one_line():
    _, z, noise = observed((1.4,), (0.0,))
    with pytest.raises(InputError, match="the highest of this process"):
        EpsilonDenoiser(Exact(PROCESSES[1]), PROCESSES[1], RANGES)(z, noise)


@pytest.mark.parametrize(
    ("network", "process"),
    [
        (lambda: OriginalUNet(1, width=8), DiscreteVariancePreserving()),
        (lambda: ResUNet(1, 1, (8, 8, 8), blocks=1), VariancePreserving(0.1, 2.0)),
    ],
    ids=["original", "resunet"],
)
def test_rows_do_not_depend_on_their_batch(network, process):
    torch.manual_seed(0)
    denoiser = EpsilonDenoiser(network(), process).requires_grad_(False)
    phi = torch.tensor([[0.05, -1.0], [0.6, 0.7]]).double()
    noise = PowerLawNoise().covariance((16, 24), phi, torch.float32)
    z = noise.draw(Streams.batch(0, 2), 1)
    together = denoiser(z, noise).mean
    assert together.dtype == torch.float32
    for i in range(2):
        alone = denoiser(z[i : i + 1], noise.rows(torch.tensor([i]))).mean
        assert torch.allclose(alone[0], together[i], atol=1e-5)
    draw = solvers.ddpm(denoiser, z, noise, Streams.batch(1, 2), process=process, steps=10)
    assert bool(torch.isfinite(draw.x).all())
