"""Gaussian images with the spectrum of photographs, and networks that add nothing."""

import math

import pytest
import torch

from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import filtered, from_opponent
from gibbsdiff.networks.unet import UNet

SHAPE = (48, 48)


@pytest.fixture(scope="session")
def silent():
    """Makes the Wiener filter of a signal: F = 0, and v = -log `too_small`."""

    def make(signal=NATURAL, too_small=1.0, **options):
        network = UNet(3, (8, 8), (1, 1), embedding=8, **options)
        with torch.no_grad():
            network.outputs.weight.zero_()
            network.outputs.bias[12:] = -math.log(too_small)
        return SpectralDenoiser(network, signal).requires_grad_(False)

    return make


@pytest.fixture(scope="session")
def gaussian_images():
    white = torch.randn(60, 3, *SHAPE, generator=torch.Generator().manual_seed(0))
    return NATURAL.mean + from_opponent(filtered(white, NATURAL.power(SHAPE).float().sqrt()))
