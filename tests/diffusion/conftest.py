"""Networks of no training, and Gaussian signals under power-law noise."""

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams


def _small(channels=3, seed=0, **options):
    torch.manual_seed(seed)
    return UNet(channels, (16, 24), (1, 1), embedding=16, **options).requires_grad_(False)


def _silent(channels=3):
    """A network that says nothing: F = 0, v = 0, B = 1."""
    network = _small(channels)
    for p in network.parameters():
        p.zero_()
    return network


def _observed(shape=(32, 24), channels=3, levels=((0.1, -0.5),), signal=NATURAL, seed=0):
    phi = torch.tensor(levels, dtype=torch.float64)
    noise = PowerLawNoise().covariance(shape, phi, torch.float32)
    rng = Streams.batch(seed, len(phi))
    x = GaussianDenoiser(signal).prior(shape, rng, channels).float()
    return x, x + noise.draw(rng, channels), noise


@pytest.fixture
def small():
    """A small random network: small(channels, seed)."""
    return _small


@pytest.fixture
def silent():
    """A network that says nothing: silent(channels)."""
    return _silent


@pytest.fixture
def observed():
    """x, y and the noise's covariance: observed(shape, channels, levels)."""
    return _observed
