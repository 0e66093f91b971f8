"""Noisy pictures stored as JPEG: what is left of the noise, and what the network is told of it."""

from dataclasses import replace

import pytest
import torch
from skimage import data

from gibbsdiff.fourier import between_references, half_plane, power, to_opponent
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.training.config import NetworkConfig, TrainingConfig
from gibbsdiff.training.noise import NoiseLaw, add_noise
from gibbsdiff.training.spectral import SpectralObjective
from gibbsdiff.training.stored import jpeg, stored

SIDE = 64
WHITE = NoiseLaw(level=(0.03, 0.031), tail_part=0, phi=(0, 0), random_part=0, wide_part=0)


@pytest.fixture
def noisy():
    """Crops of a photograph, under white noise, and its covariance."""
    whole = torch.from_numpy(data.coffee()).permute(2, 0, 1) / 255
    x = torch.stack([whole[:, 64 * i : 64 * i + 64, 128:192] for i in range(6)])
    z, noise = add_noise(x, torch.Generator().manual_seed(3), WHITE)
    return x, z, noise


def by_reference(residual, noise):
    """Power over what is told, of all images, (3, 8), and where there are modes."""
    hats = between_references(noise.shape) * half_plane(noise.shape).weight
    P, N = (p.flatten(2).double() @ hats.T for p in (power(to_opponent(residual)), noise.power))
    return P.mean(0) / N.mean(0), hats.sum(1) > 4


def choice(*rows):
    return torch.tensor(rows).float()


@pytest.mark.parametrize("subsampling", [0.1, 0.9])
def test_what_is_told_is_the_power_that_is_left(noisy, subsampling):
    x, z, noise = noisy
    after, told = stored(x, z, noise, choice([0.0, 0.8, subsampling]).expand(6, 3), 1.0)
    # The same draw before and after: its chance is in both. Straight lines between the reference
    # frequencies are not quite the fall of chroma under 4:2:0.
    (ratio, seen), (chance, _) = by_reference(after - x, told), by_reference(z - x, noise)
    off = (ratio / chance - 1).abs()[:, seen]
    assert (off[0] < 0.2).all()
    assert (off[1:] < 0.5).all()
    before, _ = by_reference(after - x, replace(told, power=noise.power.expand(-1, 3, -1, -1)))
    if subsampling > 0.5:
        assert (before[1:, -1] < 0.5).all()  # of chroma at small scales


def test_the_descriptor_changes_as_the_power_does(noisy):
    x, z, noise = noisy
    _, told = stored(x, z, noise, choice([0.0, 0.5, 0.9]).expand(6, 3), 1.0)
    k = half_plane(noise.shape).k
    change = (told.power / noise.power).flatten(2)
    for j, reference in ((5, 1 / 6), (6, 1 / 3)):
        near = (k / reference - 1).abs().argmin()
        expected = 0.5 * torch.log(change[..., near])
        assert torch.allclose((told.descriptor - noise.descriptor)[..., j], expected, atol=0.05)


def test_a_fine_jpeg_changes_little():
    picture = torch.from_numpy(data.coffee()[:64, :64]).permute(2, 0, 1) / 255
    assert float((jpeg(picture, 99, 0) - picture).square().mean().sqrt()) < 1.2 / 255


def test_loud_and_unchosen_pictures_stay_as_they_are(noisy):
    x, z, noise = noisy
    u = choice(*[[0.1, 0.5, 0.5]] * 3, *[[0.9, 0.5, 0.5]] * 3)
    after, told = stored(x, z, noise, u, 0.5)
    assert torch.equal(after[3:], z[3:])
    assert torch.allclose(told.power[3:], noise.power[3:].expand_as(told.power[3:]))
    assert not torch.equal(after[:3], z[:3])
    loud = SpectralCovariance(noise.power * 100, noise.shape, noise.descriptor)
    assert torch.equal(stored(x, z, loud, u, 1.0)[0], z)


def test_a_row_does_not_depend_on_which_rows_are_asked(noisy):
    x = noisy[0]
    law = NoiseLaw(camera_part=0.7, together_part=0.5, gain_part=0.5, jpeg_part=0.7)
    network = NetworkConfig(widths=(8, 16), blocks=(1, 1), embedding=8, told=3, level_plane=True)
    objective = SpectralObjective(TrainingConfig(network=network, noise=law))
    rngs = [torch.Generator().manual_seed(7) for _ in range(2)]
    some = torch.tensor([4, 1])
    z, noise = objective.noisy(x, torch.arange(6), 6, rngs[0])
    z_some, noise_some = objective.noisy(x[some], some, 6, rngs[1])
    assert torch.equal(z[some], z_some)
    torch.testing.assert_close(noise.power[some], noise_some.power)
    assert torch.equal(rngs[0].get_state(), rngs[1].get_state())
    assert all(
        bool(torch.isfinite(part).all())
        for part in objective.losses(objective.model(), x, z, noise)
    )
