"""What a network is told of noise with several spectra and a level map, eqs. (5) and (15)."""

import pytest
import torch

from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.networks.tiled import Tiled
from gibbsdiff.noise import LevelledNoise, Light, PhotoNoise, PowerLawNoise
from gibbsdiff.noise.level import SIDE, brightness
from gibbsdiff.streams import Streams

SHAPE = (40, 24)
PHOTO = (-2.2, -0.5, 2.0, 1.7, -4.0, 0.3, -0.2, -1.0, 5.0, 1.5, -5.0)
CURVES = [(0.8, -0.6), (-0.5, 1.0), (1.5, 0.0)]
LIGHT = Light.of(torch.rand(1, 1, *SHAPE, generator=torch.Generator().manual_seed(0)))
LEVELLED = LevelledNoise(PhotoNoise()).lit(LIGHT)


def observed(noise, phi, seed=0):
    """y (B, 3, H, W), a different noise on each, and its covariance."""
    phi = torch.tensor(phi, dtype=torch.float64)
    covariance = noise.covariance(SHAPE, phi, torch.float32)
    rng = Streams.batch(seed, len(phi))
    x = 0.5 + 0.2 * rng.normal(3, *SHAPE, dtype=torch.float32)
    return x + covariance.draw(rng, 3), covariance


def three():
    """Three images, as many as channels, each with noise of its own."""
    rows = [
        [value + 0.3 * i for value in PHOTO[:1]] + list(PHOTO[1:]) + list(curve)
        for i, curve in enumerate(CURVES)
    ]
    return observed(LEVELLED, rows)


@pytest.fixture
def told(small):
    """A network of no training that takes three rows and the plane, every path carrying signal."""
    network = small(told=3, level_plane=True)
    for p in network.parameters():
        p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())))
    return SpectralDenoiser(network, NATURAL)


def test_a_batch_of_three_is_never_taken_for_three_channels(told):
    y, noise = three()
    assert noise.descriptor.shape == (3, 3, 8)
    together = told(y, noise)
    for i in range(3):
        one = torch.tensor([i])
        alone = told(y[one], noise.rows(one))
        assert torch.allclose(alone.mean, together.mean[one], atol=1e-5)
        assert torch.allclose(alone.error.spectrum(), together.error.spectrum()[one], rtol=1e-3)


def test_a_network_hears_every_row_and_the_plane(told):
    """Each of them moves its answer, so that the laws here say something."""
    y, noise = three()
    plain = told.network(*shown(told, y, noise)).correction
    planes, rows = shown(told, y, noise)
    for r in range(3):
        other = rows.clone()
        other[:, r] += 0.5
        assert not torch.allclose(told.network(planes, other).correction, plain)
    planes = planes.clone()
    planes[:, -1] += 0.5
    assert not torch.allclose(told.network(planes, rows).correction, plain)


def shown(denoiser, y, noise):
    """What the network is given."""
    seen = []
    hook = denoiser.network.register_forward_pre_hook(lambda _, given: seen.append(given))
    denoiser(y, noise)
    hook.remove()
    return seen[0]


def test_the_plane_is_the_curve_at_the_brightness_of_its_own_input(told):
    y, noise = three()
    planes, _ = shown(told, y, noise)
    assert planes.shape[1] == 7
    light = brightness(y)[:, 0].double() - 0.5
    assert torch.allclose(light[:, SIDE, SIDE] + 0.5, y[:, :, 5:14, 5:14].double().mean((1, 2, 3)))
    for i, (a, b) in enumerate(CURVES):
        log_g = a * light[i] + b * light[i] ** 2
        whole = a * (LIGHT.whole - 0.5) + b * (LIGHT.whole - 0.5) ** 2
        log_g = log_g - 0.5 * torch.exp(2 * whole).mean().log()
        assert torch.allclose(planes[i, -1].double(), log_g, atol=1e-5)


def test_the_plane_is_held_constant_under_the_derivative(told):
    """∂D/∂z v is that of a network whose plane is given."""
    y, noise = three()
    v = torch.randn(y.shape, generator=torch.Generator().manual_seed(2))
    _, moved = torch.func.jvp(lambda z: told(z, noise).mean, (y,), (v,))
    plane = noise.level_map.shown(y)
    told._level_plane = lambda z, noise: (plane,)
    _, held = torch.func.jvp(lambda z: told(z, noise).mean, (y,), (v,))
    assert torch.allclose(moved, held, atol=1e-6)
    # By differences of D itself, whose plane moves with z, it would be another one.
    del told._level_plane
    h = 1e-2
    whole = (told(y + h * v, noise).mean - told(y - h * v, noise).mean) / (2 * h)
    assert float((whole - held).abs().max()) > 10 * float((moved - held).abs().max())


def test_noise_of_one_level_has_a_plane_of_zeros(told):
    y, noise = observed(PowerLawNoise(), [(0.1, -0.5)])
    planes, rows = shown(told, y, noise)
    assert not planes[:, -1].any()
    assert torch.equal(rows, noise.descriptor.expand(-1, 3, -1))


def test_tiles_take_the_plane_with_them(small):
    network = small(told=3, level_plane=True)
    rng = torch.Generator().manual_seed(1)
    planes = torch.randn(2, 7, 101, 150, generator=rng)
    rows = torch.randn(2, 3, 8, generator=rng) - 2.3
    whole, tiles = network(planes, rows), Tiled(network, 48, halo=64)(planes, rows)
    for a, b in zip(whole, tiles, strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_a_network_told_one_row_refuses_unequal_channels(small):
    y, noise = observed(PhotoNoise(), [PHOTO])
    with pytest.raises(InputError, match=r"^this network was trained on noise that is equal in"):
        SpectralDenoiser(small(), NATURAL)(y, noise)


def test_a_network_without_the_plane_refuses_a_level_map(small):
    y, noise = observed(LevelledNoise(PowerLawNoise()).lit(LIGHT), [(0.1, -0.5, 0.8, -0.6)])
    with pytest.raises(InputError, match=r"^this network was trained on noise of one level in"):
        SpectralDenoiser(small(), NATURAL)(y, noise)
