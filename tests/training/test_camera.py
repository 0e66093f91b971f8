"""Noise as cameras leave it: spectra in each channel, level maps, and what the network is told."""

from dataclasses import replace

import pytest
import torch

from gibbsdiff.data.changes import darkened, enlarged
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import REFERENCE, between_references, fft, half_plane, power, to_opponent
from gibbsdiff.noise.level import brightness
from gibbsdiff.training.camera import BETA, draw_filters, draw_levels
from gibbsdiff.training.config import NetworkConfig, TrainingConfig
from gibbsdiff.training.noise import NoiseLaw, add_noise
from gibbsdiff.training.spectral import SpectralObjective

CAMERA = NoiseLaw(level=(0.003, 0.6), random_slope=1.6, camera_part=1.0)
WITH_CAMERAS = TrainingConfig(
    network=NetworkConfig(widths=(8, 16), blocks=(1, 1), embedding=8, told=3, level_plane=True),
    noise=replace(CAMERA, camera_part=0.5, gain_part=0.5),
)


@pytest.fixture
def rng():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def pictures():
    """Six that are dark at one side and bright at the other."""
    x = torch.linspace(0, 1, 32).expand(6, 3, 32, 32)
    return (x + 0.1 * torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(5))) / 1.1


@pytest.mark.parametrize("together", [0.0, 1.0])
@pytest.mark.parametrize("shape", [(32, 32), (24, 33)])
def test_every_channel_follows_its_own_spectrum(rng, shape, together):
    count, law = 600, replace(CAMERA, wide_part=0.0, together_part=together)
    z, noise = add_noise(torch.zeros(count, 3, *shape), rng, law)
    assert noise.power.shape == (count, 3, shape[0], shape[1] // 2 + 1)
    hats = between_references(shape) * half_plane(shape).weight
    ratio = (power(to_opponent(z)) / noise.power).flatten(2).double().mean(0)
    mean, error = ratio @ hats.T / hats.sum(1), torch.sqrt(2 / (hats.sum(1) * count))
    seen = hats.sum(1) > 0
    assert ((mean - 1).abs() < 4.5 * error)[:, seen].all()


def test_luma_goes_with_green_chroma(rng):
    """E ε_l ε_g* = β N_g, eq. (17), in every mode: β by regression is that of sensors."""
    law = replace(CAMERA, wide_part=0.0, together_part=1.0)
    z, noise = add_noise(torch.zeros(400, 3, 32, 32), rng, law)
    luma, _, green = fft(to_opponent(z)).unbind(1)
    cross = (luma * green.conj()).real / noise.power[:, 2]
    own = power(to_opponent(z))[:, 2] / noise.power[:, 2]
    beta = cross.mean((1, 2)) / own.mean((1, 2))
    assert abs(float(beta.median()) - BETA) < 0.03
    alone, _ = add_noise(torch.zeros(400, 3, 32, 32), rng, replace(law, together_part=0.0))
    luma, _, green = fft(to_opponent(alone)).unbind(1)
    norm = (luma.abs().square().mean((1, 2)) * green.abs().square().mean((1, 2))).sqrt()
    assert abs(float(((luma * green.conj()).real.mean((1, 2)) / norm).mean())) < 0.01


def test_cut_noise_has_its_density_at_middle_frequencies(rng):
    """Where the spectrum is not too steep for a square window."""
    count, shape = 400, (64, 64)
    z, noise = add_noise(torch.zeros(count, 3, *shape), rng, replace(CAMERA, wide_part=1.0))
    hats = between_references(shape) * half_plane(shape).weight
    of_z, of_n = (p.flatten(2).double() @ hats.T for p in (power(to_opponent(z)), noise.power))
    ratio = (of_z / of_n).median(0).values
    assert ((ratio - 1).abs() < 0.1)[:, 4:6].all()


@pytest.mark.parametrize("wide", [0.0, 1.0])
def test_the_network_is_told_every_channel(rng, wide):
    _, noise = add_noise(torch.zeros(8, 3, 384, 384), rng, replace(CAMERA, wide_part=wide))
    assert noise.descriptor.shape == (8, 3, 8)
    columns = torch.tensor([round(384 * k) for k in REFERENCE[:7]])
    expected = 0.5 * torch.log(noise.power[:, :, 0, columns])
    assert torch.allclose(expected, noise.descriptor[..., :7], atol=1e-4)


def test_the_level_is_that_of_all_channels_together(rng):
    z, noise = add_noise(torch.zeros(64, 3, 64, 64), rng, replace(CAMERA, wide_part=0.0))
    measured = z.square().mean((1, 2, 3)).sqrt().double()
    assert torch.allclose(measured / noise.level, torch.ones(64).double(), atol=0.3)
    assert noise.level.min() >= 0.00299
    assert noise.level.max() <= 1.001


def test_without_a_camera_all_channels_are_equal(rng):
    _, noise = add_noise(torch.zeros(64, 3, 16, 16), rng, replace(CAMERA, camera_part=0.5))
    equal = (noise.descriptor == noise.descriptor[:, :1]).all(-1).all(-1)
    assert 20 < int(equal.sum()) < 44


def test_chroma_is_smoother_than_luma(rng):
    filters = draw_filters(2000, rng, 1.0)
    luma, *chroma = filters.log_power(torch.tensor([0.3]))[..., 0].unbind(1)
    assert all(float(c.median()) < float(luma.median()) - 1 for c in chroma)
    at_zero = filters.log_power(torch.tensor([0.0]))[..., 0]
    assert float(at_zero[:, 1].std()) == pytest.approx(0.8, rel=0.1)


def test_grey_pictures_have_no_camera(rng):
    with pytest.raises(InputError, match="three channels"):
        add_noise(torch.zeros(2, 1, 16, 16), rng, CAMERA)


def test_level_maps_have_the_mean_square_one(rng, pictures):
    g = draw_levels(6, rng, 1.0).g(brightness(pictures, 3))
    assert g.shape == (6, 1, 32, 32)
    assert torch.allclose(g.square().mean((1, 2, 3)), torch.ones(6), atol=1e-5)
    assert (g.flatten(1).std(1) > 1e-3).all()
    assert torch.equal(draw_levels(6, rng, 0.0).g(brightness(pictures, 3)), torch.ones_like(g))


def test_counts_make_bright_places_noisier(pictures):
    levels = draw_levels(6, torch.Generator().manual_seed(0), 1.0)
    by_counts = levels._replace(u=torch.tensor([0.0, 0.9, 0.5, 1.0]).expand(6, -1))
    light = torch.full((6, 1, 8, 8), 0.1)
    light[..., 4:] = 0.9
    g = by_counts.g(light)
    ratio = g[..., 4:].square().mean() / g[..., :4].square().mean()
    assert float(ratio) == pytest.approx((0.9 + 0.003) / (0.1 + 0.003), rel=0.01)


def test_a_row_does_not_depend_on_which_rows_are_asked(pictures):
    objective = SpectralObjective(WITH_CAMERAS)
    rngs = [torch.Generator().manual_seed(7) for _ in range(2)]
    some = torch.tensor([4, 1])
    z, noise = objective.noisy(pictures, torch.arange(6), 6, rngs[0])
    z_some, noise_some = objective.noisy(pictures[some], some, 6, rngs[1])
    assert torch.equal(z[some], z_some)
    assert torch.equal(noise.power[some], noise_some.power)
    assert torch.allclose(noise.level_map.g[some], noise_some.level_map.g)
    assert torch.equal(rngs[0].get_state(), rngs[1].get_state())


def test_the_network_is_shown_the_level_of_its_own_input(pictures):
    """The noise has g of x; what is told is g of z: one does not give the other away."""
    law = replace(WITH_CAMERAS.noise, level=(0.3, 0.31), tail_part=0.0, gain_part=1.0)
    objective = SpectralObjective(replace(WITH_CAMERAS, noise=law))
    rng = torch.Generator().manual_seed(1)
    z, noise = objective.noisy(pictures, torch.arange(6), 6, rng)
    again = torch.Generator().manual_seed(1)
    stationary, _ = add_noise(torch.zeros_like(pictures), again, law)
    levels = draw_levels(6, again, 1.0)
    assert torch.allclose(noise.level_map.g, levels.g(brightness(z, 9)))
    assert torch.allclose(z - pictures, levels.g(brightness(pictures, 3)) * stationary, atol=1e-6)
    losses = objective.losses(objective.model(), pictures, z, noise)
    assert all(bool(torch.isfinite(part).all()) for part in losses)


def test_changes_of_a_row_do_not_depend_on_which_rows_are_asked(pictures):
    some = torch.tensor([3, 0])
    for change in (
        lambda x, rows, rng: enlarged(x, rows, 6, rng, 0.7, (1.2, 3.2)),
        lambda x, rows, rng: darkened(x, rows, 6, rng, 0.7),
    ):
        rngs = [torch.Generator().manual_seed(2) for _ in range(2)]
        whole = change(pictures, torch.arange(6), rngs[0])
        assert torch.equal(whole[some], change(pictures[some], some, rngs[1]))
        assert torch.equal(rngs[0].get_state(), rngs[1].get_state())
        changed = (whole != pictures).flatten(1).any(1)
        assert 0 < int(changed.sum()) < 6
        assert whole.min() >= 0
        assert whole.max() <= 1


def test_enlarged_pictures_are_smoother_and_darkened_ones_darker(rng):
    x = torch.rand(4, 3, 64, 64, generator=rng)
    large = enlarged(x, torch.arange(4), 4, rng, 1.0, (3.0, 3.2))
    step = [(p[..., 1:] - p[..., :-1]).square().mean() for p in (x, large)]
    assert step[1] < 0.3 * step[0]
    assert darkened(x, torch.arange(4), 4, rng, 1.0).mean() < x.mean()
