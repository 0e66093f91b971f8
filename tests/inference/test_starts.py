"""Starts: inside the box, near the truth, and over-dispersed when asked."""

import pytest
import torch
from skimage import data

from gibbsdiff.inference.starts import Regression, nearest, regression_start, spread
from gibbsdiff.noise import BandedNoise, PowerLawNoise, SpectralNoise, WhiteNoise
from gibbsdiff.streams import Streams

SHAPE = (96, 128)


@pytest.mark.parametrize(
    ("noise", "phi"),
    [
        (PowerLawNoise(), (0.07, -0.6)),
        (WhiteNoise(), (0.3,)),
        (BandedNoise(edges=(0.05, 0.2)), (-1.5, -2.0, -2.5)),
    ],
    ids=str,
)
def test_the_nearest_spectrum_to_a_familys_own_is_itself(noise, phi):
    truth = torch.tensor([phi]).double()
    found = nearest(noise, SHAPE, noise.descriptor(SHAPE, truth), torch.ones(8).double())
    assert torch.allclose(found, truth, atol=2e-3)


def test_a_familys_walls_hold():
    target = WhiteNoise(sigma=(0.01, 5.0)).descriptor(SHAPE, torch.tensor([[3.0]]).double())
    assert float(nearest(WhiteNoise(), SHAPE, target, torch.ones(8).double())) == 1.0


@pytest.mark.parametrize("channels", [1, 3])
def test_photographs_start_near_the_truth(channels):
    """Within 40 % in σ and 0.7 in φ, on photographs it was not fitted on."""
    noise = PowerLawNoise()
    pictures = (data.astronaut(), data.coffee(), data.chelsea())
    for i, picture in enumerate(pictures):
        x = torch.from_numpy(picture[50:242, 60:252].copy()).permute(2, 0, 1)[None] / 255
        x = x if channels == 3 else x.mean(1, keepdim=True)
        for phi in ((0.1, -0.7), (0.2, 0.0), (0.1, 0.7)):
            y = x + noise.draw((192, 192), phi, Streams.batch(i, 1), channels, torch.float32)
            start = regression_start(y, noise)[0]
            assert float((start[0] / phi[0]).log().abs()) < 0.4
            assert abs(float(start[1]) - phi[1]) < 0.7


def test_a_users_own_family_starts_too():
    def knee(kx, ky, sigma, at):
        return 2 * sigma.log() + (1 + (at**2 / (kx**2 + ky**2))).log()

    noise = SpectralNoise(knee, {"sigma": (0.01, 1), "at": (0.01, 0.5)}, isotropic=True)
    y = 0.5 + noise.draw((128, 128), (0.3, 0.1), Streams.batch(0, 1), 3, torch.float32)
    start = regression_start(y, noise)[0]
    assert float((start[0] / 0.3).log().abs()) < 0.3


def test_regression_recovers_a_linear_law():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(500, 6, generator=rng, dtype=torch.float64)
    weight = torch.randn(6, 8, generator=rng, dtype=torch.float64)
    fit = Regression.fit(x, x @ weight, ridge=1e-9)
    assert torch.allclose(fit.weight, weight, atol=1e-8)
    assert float(fit.sd.max()) < 1e-8


def test_over_dispersed_starts_have_twice_the_spread():
    noise = PowerLawNoise()
    mean = torch.tensor([0.3, 0.0]).double()
    covariance = torch.tensor([[1e-4, 2e-5], [2e-5, 4e-4]]).double()
    starts = spread(mean, covariance, noise, Streams.batch(0, 4000))
    assert torch.allclose(torch.cov(starts.T), 4 * covariance, rtol=0.25)
    near = spread(torch.tensor([0.011, 0.99]).double(), covariance, noise, Streams.batch(1, 50))
    assert noise.check(near) is not None
