"""The fast U-Net: laws that hold for any weights, so the weights here are random."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gibbsdiff.networks.unet import LOG_VARIANCE_RANGE, UNet

TOLERANCE = 1e-5


def build(padding="zeros", channels=3, seed=0) -> UNet:
    """Build a small network in which every path carries signal, the zero-started ones too."""
    torch.manual_seed(seed)
    network = UNet(channels, (16, 24, 32, 32), (1, 1, 1, 1), embedding=32, padding=padding)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=0.5 * module.weight[0].numel() ** -0.5)
            nn.init.normal_(module.bias, std=0.1)
    return network.requires_grad_(False)


def data(height, width, batch=1, channels=3, seed=1) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    inputs = torch.randn(batch, 2 * channels, height, width, generator=rng)
    return inputs, torch.randn(batch, 8, generator=rng) - 2.3


def difference(a, b) -> float:
    return max(float((x - y).abs().max()) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("padding", ["zeros", "circular"])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_alone_and_in_a_batch_agree(padding, channels):
    network = build(padding, channels)
    inputs, descriptor = data(40, 56, batch=3, channels=channels)
    together = network(inputs, descriptor)
    for i in range(3):
        alone = network(inputs[i : i + 1], descriptor[i : i + 1])
        assert difference(alone, [head[i : i + 1] for head in together]) < TOLERANCE


def test_circular_network_follows_shifts():
    network = build("circular")
    inputs, descriptor = data(48, 64)
    shift = (16, -32)
    F, v, bands = network(inputs, descriptor)
    shifted = network(inputs.roll(shift, (-2, -1)), descriptor)
    expected = F.roll(shift, (-2, -1)), v.roll(shift, (-2, -1)), bands
    assert difference(shifted, expected) < TOLERANCE
    # ... which says something: shifts by a single pixel do change what is found.
    assert difference([network(inputs.roll(1, -1), descriptor)[0]], [F.roll(1, -1)]) > 1e-3


def test_circular_network_sees_a_repeated_map_as_the_map():
    network = build("circular")
    inputs, descriptor = data(32, 16)
    F, v, bands = network(inputs, descriptor)
    repeated = network(inputs.repeat(1, 1, 2, 3), descriptor)
    assert difference(repeated, (F.repeat(1, 1, 2, 3), v.repeat(1, 1, 2, 3), bands)) < TOLERANCE


@pytest.mark.parametrize(("padding", "mode"), [("zeros", "reflect"), ("circular", "wrap")])
@pytest.mark.parametrize(("height", "width"), [(17, 50), (16, 31), (33, 48)])
def test_odd_sizes_are_a_crop_of_the_padded_image(padding, mode, height, width):
    network = build(padding)
    inputs, descriptor = data(height, width)
    rows, columns = -height % 16, -width % 16
    top, left = rows // 2, columns // 2
    pads = (0, 0), (0, 0), (top, rows - top), (left, columns - left)
    padded = torch.from_numpy(np.pad(inputs.numpy(), pads, mode=mode))
    F, v, bands = network(padded, descriptor)
    window = (..., slice(top, top + height), slice(left, left + width))
    assert difference(network(inputs, descriptor), (F[window], v[window], bands)) < TOLERANCE


@pytest.mark.parametrize("padding", ["zeros", "circular"])
def test_memory_format_does_not_matter(padding):
    network = build(padding)
    inputs, descriptor = data(32, 48, batch=2)
    last = inputs.contiguous(memory_format=torch.channels_last)
    assert difference(network(inputs, descriptor), network(last, descriptor)) < TOLERANCE
    network.to(memory_format=torch.channels_last)
    assert difference(network(inputs, descriptor), network(last, descriptor)) < TOLERANCE


def test_untrained_network_is_near_the_wiener_filter():
    torch.manual_seed(0)
    network = UNet()
    with torch.no_grad():
        F, v, bands = network(*data(64, 64, batch=2))
    assert torch.count_nonzero(bands) == 0
    assert F.std() < 0.1
    assert abs(v.mean() + 0.3) < 0.02
    assert v.std() < 0.1


def test_bands_of_averaged_tiles_are_those_of_the_image():
    network = build("circular")
    inputs, descriptor = data(32, 32)
    tiles = torch.cat([inputs, inputs.roll(16, -1)])
    pooled = network.trunk(tiles, descriptor.repeat(2, 1)).pooled.mean(0, keepdim=True)
    whole = network(inputs, descriptor).log_bands
    assert difference([network.bands(pooled, descriptor)], [whole]) < TOLERANCE


def test_every_head_sees_the_noise_descriptor():
    network = build()
    inputs, descriptor = data(32, 32)
    for i in range(8):
        told = descriptor.clone()
        told[0, i] += 0.5
        for before, after in zip(network(inputs, descriptor), network(inputs, told), strict=True):
            assert difference([before], [after]) > 1e-4


def test_log_variance_stays_in_range():
    network = build()
    network.outputs.weight.mul_(1e3)
    inputs, descriptor = data(32, 32)
    v = network(inputs, descriptor).log_variance
    assert (float(v.min()), float(v.max())) == LOG_VARIANCE_RANGE


def test_every_weight_learns():
    network = build().requires_grad_(True)
    F, v, bands = network(*data(32, 32))
    (F.square().sum() + v.square().sum() + bands.square().sum()).backward()
    for name, weight in network.named_parameters():
        assert torch.count_nonzero(weight.grad) > 0, name


def test_default_has_the_measured_size():
    # (48, 96, 192, 192) with two blocks each, DESIGN section 4: 5.8 M.
    assert round(sum(p.numel() for p in UNet().parameters()) / 1e6, 1) == 5.8


def test_too_small_an_image_is_refused():
    with pytest.raises(ValueError, match="15×40 is smaller than 16"):
        build()(*data(15, 40))
