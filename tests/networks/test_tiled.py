"""Tiles against the whole image: the shipped weights to 1e-4, any weights exactly with all of the
field of view in the halo.
"""

import pytest
import torch
from skimage import data
from torch import nn

from gibbsdiff import PowerLawNoise, Streams, load_model
from gibbsdiff.errors import InputError
from gibbsdiff.networks.tiled import HALO, Tiled
from gibbsdiff.networks.unet import UNet

#: Strong pink noise, for which halos matter most, and white noise.
LEVELS = [(1.0, -1.0), (0.1, 0.0)]


@pytest.fixture(scope="module")
def natural():
    return load_model("natural")


@pytest.fixture(scope="module", autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


def observed(height, width, levels):
    picture = torch.from_numpy(data.coffee()[:height, :width].copy())
    x = picture.permute(2, 0, 1)[None].float() / 255
    phi = torch.tensor(levels, dtype=torch.float64)
    noise = PowerLawNoise().covariance((height, width), phi, torch.float32)
    return x + noise.draw(Streams.batch(0, len(levels)), 3), noise


def small(padding):
    """Random weights through which every path carries signal; its field of view is 64 pixels."""
    torch.manual_seed(0)
    network = UNet(1, (8, 12, 16), (1, 1, 1), embedding=8, padding=padding)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=0.8 * module.weight[0].numel() ** -0.5)
            nn.init.normal_(module.bias, std=0.1)
    return network.requires_grad_(False)


def planes(network, height, width, batch=2):
    rng = torch.Generator().manual_seed(1)
    inputs = torch.randn(batch, 2 * network.channels, height, width, generator=rng)
    return inputs, torch.randn(batch, 8, generator=rng) - 2.3


def furthest(a, b):
    return [float((x - y).abs().max()) for x, y in zip(a, b, strict=True)]


def test_shipped_weights_by_tiles_equal_the_whole_image(natural):
    """Two noise levels at once, sides that are no multiples of 16, tiles smaller than the halo."""
    y, noise = observed(267, 390, LEVELS)
    whole, tiled = natural(y, noise), natural.tiled(64 + HALO)(y, noise)
    assert float((tiled.mean - whole.mean).abs().max()) < 1e-4
    assert float((tiled.error.spectrum() / whole.error.spectrum() - 1).abs().max()) < 1e-4
    ratio = tiled.error.pixel_variance() / whole.error.pixel_variance()
    assert float((ratio - 1).abs().max()) < 5e-3
    # ... which says something: the tiles do not see the whole, so not every bit agrees.
    assert not torch.equal(tiled.mean, whole.mean)


def test_pooled_features_of_a_photograph_are_those_of_the_whole_image(natural):
    y, noise = observed(150, 250, LEVELS[1:])
    seen = []
    hook = natural.network.register_forward_pre_hook(lambda _, given: seen.append(given))
    natural(y, noise)
    hook.remove()
    tiled = Tiled(natural.network, 128).trunk(*seen[0])
    whole = natural.network.trunk(*seen[0])
    assert float((tiled.pooled - whole.pooled).abs().max()) < 1e-5
    assert max(furthest(tiled, whole)) < 3e-4


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize(("height", "width"), [(96, 128), (101, 215), (40, 203)])
def test_a_halo_of_the_whole_field_of_view_is_exact(padding, height, width):
    network = small(padding)
    inputs, descriptor = planes(network, height, width)
    tiles = Tiled(network, 48, halo=64)
    assert max(furthest(tiles.trunk(inputs, descriptor), network.trunk(inputs, descriptor))) < 1e-5
    assert max(furthest(tiles(inputs, descriptor), network(inputs, descriptor))) < 1e-5


@pytest.mark.parametrize("padding", ["zeros", "circular"])
def test_the_error_falls_with_the_halo(padding):
    network = small(padding)
    inputs, descriptor = planes(network, 128, 160)
    whole = network(inputs, descriptor)
    errors = [
        max(furthest(Tiled(network, 64, halo)(inputs, descriptor), whole)) for halo in (0, 16, 32)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_one_tile_is_the_whole_image():
    network = small("circular")
    inputs, descriptor = planes(network, 61, 90)
    tiles = Tiled(network, 96, halo=16)
    assert max(furthest(tiles(inputs, descriptor), network(inputs, descriptor))) < 1e-5


def test_a_view_shares_its_weights(natural):
    view = natural.tiled(256)
    assert view.network is natural.network
    assert set(view.state_dict()) == set(natural.state_dict())


def test_too_small_a_tile_is_refused(natural):
    y, noise = observed(32, 32, LEVELS[:1])
    with pytest.raises(InputError, match="tile: needs at least 16 pixels, not 8"):
        natural.tiled(8)(y, noise)
