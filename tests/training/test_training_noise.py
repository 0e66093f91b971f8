"""Training noise has the spectrum that the network is given."""

import pytest
import torch

from gibbsdiff.fourier import REFERENCE, between_references, half_plane, power
from gibbsdiff.training.noise import NoiseLaw, add_noise

KINDS = {"power law": 0.0, "random spectra": 1.0}


def by_reference(values, shape):
    """Means around the reference frequencies, (B, 8), and the modes behind them."""
    hats = between_references(shape) * half_plane(shape).weight
    return values.flatten(1).double() @ hats.T / hats.sum(1), hats.sum(1)


def ratios(law, shape, count=400):
    """Σ |ε̂|²/N around the reference frequencies, averaged over many images."""
    rng = torch.Generator().manual_seed(0)
    x = torch.zeros(count, 2, *shape)
    z, noise = add_noise(x, rng, law)
    means, modes = by_reference((power(z) / noise.power).mean(1), shape)
    return means.mean(0), torch.sqrt(2 / (modes * count * 2))


@pytest.mark.parametrize("part", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("shape", [(32, 32), (24, 33)])
def test_periodic_noise_follows_its_spectrum(part, shape):
    mean, error = ratios(NoiseLaw(random_part=part, wide_part=0.0), shape)
    seen = torch.isfinite(mean)
    assert ((mean - 1).abs() < 4.5 * error)[seen].all()


@pytest.mark.parametrize("part", KINDS.values(), ids=KINDS)
def test_cut_noise_has_its_density_at_middle_frequencies(part):
    mean, error = ratios(NoiseLaw(random_part=part, wide_part=1.0), (48, 48))
    # 1/12, 1/6, 1/3: leakage from a square window stays within some per cent.
    assert ((mean - 1).abs() < 0.06 + 4 * error)[4:7].all()


@pytest.mark.parametrize("wide", [0.0, 1.0])
def test_the_descriptor_is_the_spectrum_at_the_references(wide):
    rng = torch.Generator().manual_seed(1)
    _, noise = add_noise(torch.zeros(8, 1, 384, 384), rng, NoiseLaw(wide_part=wide))
    assert noise.descriptor is not None
    # (kx, 0) with kx = 2/384, 4/384, ..., 128/384 are the first seven references.
    columns = torch.tensor([round(384 * k) for k in REFERENCE[:7]])
    expected = 0.5 * torch.log(noise.power[:, 0, 0, columns])
    assert torch.allclose(expected, noise.descriptor[:, 0, :7], atol=1e-4)


def test_the_level_is_the_pixels_standard_deviation():
    rng = torch.Generator().manual_seed(2)
    law = NoiseLaw(wide_part=0.0)
    z, noise = add_noise(torch.zeros(64, 3, 64, 64), rng, law)
    measured = z.square().mean((1, 2, 3)).sqrt().double()
    assert torch.allclose(measured / noise.level, torch.ones(64).double(), atol=0.15)
    assert noise.level.min() >= law.level[0] * 0.999
    assert noise.level.max() <= law.tail[1] * 1.001
    assert noise.power.dtype == z.dtype == torch.float32
    assert noise.power.shape == (64, 1, 64, 33)
