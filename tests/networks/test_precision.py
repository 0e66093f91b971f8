"""bfloat16 within a network, and nowhere else."""

import pytest
import torch

from gibbsdiff.networks import precision as room
from gibbsdiff.networks.precision import precision
from gibbsdiff.networks.unet import UNet


@pytest.fixture
def network():
    torch.manual_seed(0)
    return UNet(3, (16, 32), (1, 1), embedding=16)


def heads(network):
    torch.manual_seed(1)
    return network(torch.randn(2, 6, 32, 32), torch.randn(2, 8) - 2)


def off(rough, exact):
    return float(((rough - exact).norm() / exact.norm().clamp(min=1e-9)).detach())


def test_products_are_rounded_and_what_comes_out_is_not(network):
    """bfloat16 has 8 bits: a product is off by up to 2⁻⁸, and sums of them by little more."""
    exact = heads(network)
    with precision(network, "bfloat16"):
        rough = heads(network)
    for a, b in zip(exact, rough, strict=True):
        assert b.dtype == torch.float32
        assert off(b, a) < 2**-5
    assert off(rough.correction, exact.correction) > 1e-4
    assert torch.equal(heads(network).correction, exact.correction)  # as before, outside


def test_gradients_are_those_of_the_exact_network_to_some_per_cent(network):
    found = []
    for kind in ("float32", "bfloat16"):
        network.zero_grad()
        with precision(network, kind):
            heads(network).correction.square().sum().backward()
        found.append(
            torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
        )
    assert off(found[1], found[0]) < 0.05


@pytest.mark.parametrize("able", [True, False])
def test_auto_asks_the_processor(network, monkeypatch, able):
    monkeypatch.setattr(room, "has_bfloat16", lambda: able)
    exact = heads(network).correction
    with precision(network, "auto"):
        assert torch.equal(heads(network).correction, exact) != able


def test_a_failure_leaves_the_network_as_it_was(network):
    exact = heads(network).correction
    with pytest.raises(RuntimeError), precision(network, "bfloat16"):
        network(torch.randn(1, 5, 32, 32), torch.randn(1, 8))
    assert torch.equal(heads(network).correction, exact)
