"""The paper's moment network: it learns a posterior mean, keeps its spread, and files hold it."""

import math

import pytest
import torch

from gibbsdiff.cosmo.moment_start import moments_bytes, new_moments, read_moments
from gibbsdiff.cosmo.moment_training import HELD_OUT, held_out, train_moments
from gibbsdiff.data.maps import Maps
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.networks.moment_cnn import MomentCNN
from gibbsdiff.networks.moments import Moments
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams

SIDE = 32
LAW = GaussianDenoiser(PowerLawSignal((1e-3,), (2.6,)))
NOISE = PowerLawNoise((0.05, 1.0))


def gaussian_maps(count):
    x = LAW.prior((SIDE, SIDE), Streams.batch(1, count + 32)).float()
    return Maps(0.0, 1.0, x[:count], x[:count], x[count:], x[count:], x[count:])


@pytest.fixture(scope="module")
def trained():
    return train_moments(gaussian_maps(96), NOISE, 200, 16, kind="paper", vary=(0.0, 0.0))


def test_it_learns_the_parameters(trained):
    x = LAW.prior((SIDE, SIDE), Streams.batch(2, 200)).float()
    y, u = held_out(x, NOISE, 9, repeats=1)
    rms = (trained.moments(y).mean - u).square().mean(0).sqrt()
    prior = 1 / math.sqrt(12)
    assert float(rms[0]) < 0.25 * prior
    assert float(rms[1]) < 0.75 * prior  # a slope takes longer than a level


def test_one_spread_for_all_is_that_of_its_errors_on_the_selection_maps(trained):
    y, u = held_out(gaussian_maps(96).selection, NOISE, 0, key=HELD_OUT)
    found = trained.moments(y)
    error = found.mean - u
    for row in (0, 5):
        assert torch.allclose(found.covariance[row], error.T @ error / len(u), rtol=1e-3)
    assert found.z(u).square().mean(0) == pytest.approx(torch.ones(2), rel=1e-3)
    width = NOISE.high - NOISE.low
    expected = found.covariance[:2].double() * width[:, None] * width
    assert torch.allclose(trained.covariance(y[:2]), expected)


def test_the_loss_is_the_squared_error_in_prior_units():
    network = MomentCNN(2, (8, 8))
    found = Moments(torch.tensor([[0.5, 0.25]]), torch.eye(2)[None])
    assert float(network.loss(found, torch.tensor([[0.2, 0.65]]))) == pytest.approx(0.09 + 0.16)


def test_shifts_of_a_periodic_map_by_its_coarsest_pixel_change_nothing(trained):
    y = LAW.prior((SIDE, SIDE), Streams.batch(3, 2)).float()
    moved = trained.moments(y.roll((16, 16), (-2, -1))).mean
    assert torch.allclose(moved, trained.moments(y).mean, atol=1e-4)


def test_files_of_either_kind_are_read_alike(trained, tmp_path):
    y = LAW.prior((SIDE, SIDE), Streams.batch(4, 3))
    path = tmp_path / "m.npz"
    path.write_bytes(moments_bytes(trained))
    back = read_moments(path)
    assert isinstance(back.network, MomentCNN)
    assert back.fits(NOISE)
    assert torch.allclose(back.start(y), trained.start(y), atol=5e-3)
    middle = new_moments(SIDE, NOISE, "paper").start(y)
    assert torch.allclose(middle, ((NOISE.low + NOISE.high) / 2).expand(3, 2))
