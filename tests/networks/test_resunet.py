"""The cosmology U-Net: symmetries of a periodic map, and what the paper says of its parts."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from gibbsdiff.networks.resunet import FourierTime, ResBlock, ResUNet

TOLERANCE = 1e-5


@pytest.fixture
def network() -> ResUNet:
    torch.manual_seed(0)
    small = ResUNet(widths=(16, 24, 32), blocks=1, embedding=32, groups=4)
    return small.requires_grad_(False)


def data(height, width, batch=1):
    rng = torch.Generator().manual_seed(1)
    z = torch.randn(batch, 1, height, width, generator=rng)
    return z, torch.rand(batch, generator=rng), torch.rand(batch, 2, generator=rng)


def test_a_map_alone_and_in_a_batch_agree(network):
    z, t, phi = data(32, 40, batch=3)
    together = network(z, t, phi)
    assert together.shape == z.shape
    for i in range(3):
        alone = network(z[i : i + 1], t[i : i + 1], phi[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], atol=TOLERANCE, rtol=0)


def test_shifts_are_followed(network):
    z, t, phi = data(32, 48)
    shifted = network(z.roll((8, -16), (-2, -1)), t, phi)
    expected = network(z, t, phi).roll((8, -16), (-2, -1))
    torch.testing.assert_close(shifted, expected, atol=TOLERANCE, rtol=0)


def test_a_repeated_map_is_seen_as_the_map(network):
    z, t, phi = data(16, 24)
    repeated = network(z.repeat(1, 1, 3, 2), t, phi)
    expected = network(z, t, phi).repeat(1, 1, 3, 2)
    torch.testing.assert_close(repeated, expected, atol=TOLERANCE, rtol=0)


def test_odd_sizes_are_a_crop_of_the_wrapped_map(network):
    z, t, phi = data(17, 50)
    padded = np.pad(z.numpy(), ((0, 0), (0, 0), (3, 4), (3, 3)), mode="wrap")
    expected = network(torch.from_numpy(padded), t, phi)[..., 3:20, 3:53]
    torch.testing.assert_close(network(z, t, phi), expected, atol=TOLERANCE, rtol=0)


def test_time_and_phi_are_heard(network):
    z, t, phi = data(16, 16)
    before = network(z, t, phi)
    assert (network(z, t + 0.1, phi) - before).abs().max() > 1e-4
    for i in range(2):
        told = phi.clone()
        told[0, i] += 0.5
        assert (network(z, t, told) - before).abs().max() > 1e-4


def test_fourier_features_have_their_period(network):
    """Without the plane of z itself, z and z + 2 look the same to sin and cos of 2ⁿ π z."""
    z, t, phi = data(16, 16)
    assert (network(z + 2, t, phi) - network(z, t, phi)).abs().max() > 1e-3
    network.inputs.weight[:, 0] = 0
    torch.testing.assert_close(network(z + 2, t, phi), network(z, t, phi), atol=1e-4, rtol=0)
    assert (network(z + 1, t, phi) - network(z, t, phi)).abs().max() > 1e-3


def test_time_embedding_knows_differences():
    """⟨e(t), e(s)⟩ = Σ cos 2πω(t - s)."""
    embed = FourierTime(256, scale=2.0)
    inner = embed(torch.tensor([0.7, 0.3])) @ embed(torch.tensor([0.5, 0.1])).T
    torch.testing.assert_close(inner[0, 0], inner[1, 1], atol=1e-3, rtol=0)
    exact = (2 * math.pi * embed.omega * 0.2).cos().sum()
    torch.testing.assert_close(inner[0, 0], exact, atol=1e-3, rtol=0)


def test_idle_block_rescales_its_skip():
    block = ResBlock(8, 8, embedding=16, groups=4)
    for layer in (block.layers[-1], block.time[-1], block.phi[-1]):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    h, embedding = torch.randn(2, 8, 16, 16), torch.randn(2, 16)
    torch.testing.assert_close(block(h, embedding, embedding), h / math.sqrt(2))
    assert sum(isinstance(layer, nn.Conv2d) for layer in block.layers) == 3


def test_every_weight_learns(network):
    network.requires_grad_(True)
    network(*data(16, 16)).square().sum().backward()
    for name, weight in network.named_parameters():
        assert torch.count_nonzero(weight.grad) > 0, name
