"""The table c recovers what the heads got wrong."""

import math

import pytest
import torch

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.training.calibrate import calibrate, check, quadrants


@pytest.fixture(scope="module")
def wiener_filter(silent):
    """The exact estimate of a Gaussian x, its error underestimated."""
    return silent(too_small=1.7)


@pytest.fixture(scope="module")
def table(wiener_filter, gaussian_images):
    return calibrate(wiener_filter, gaussian_images, sigma=(0.05, 0.2), phi=(-1.0, 0.0, 1.0))


def test_a_known_factor_is_recovered(table, wiener_filter, gaussian_images):
    assert table.log_c.shape == (3, 8, 10)
    calibrated = SpectralDenoiser(wiener_filter.network, NATURAL, table)
    for before, after in zip(
        check(wiener_filter, gaussian_images, (0.1,), (-0.5, 0.5)),
        check(calibrated, gaussian_images, (0.1,), (-0.5, 0.5)),
        strict=True,
    ):
        assert before.median == pytest.approx(1.7, rel=0.05)
        assert after.median == pytest.approx(1.0, abs=0.05)
        # The lowest knots have a handful of modes per image: 2 % to 5 % errors.
        assert torch.tensor(after.bands[2:]) == pytest.approx(1.0, abs=0.1)


def test_the_table_tends_to_1_where_it_has_seen_nothing(table):
    # At |k| = 0.6 nothing is met with noise far below the signal.
    assert table.log_c[0, -1, 0].abs() < 0.5 * math.log(1.7)
    assert table.log_c[0, -1, 0].abs() < table.log_c[0, -1, 3].abs()


def test_equal_images_have_no_scatter(table):
    assert table.scatter.shape == (24, 24)
    assert torch.linalg.eigvalsh(table.scatter).min() > -1e-10
    # Sampling variance alone is 0.03 at 1/12 and falls from there.
    assert table.scatter.diagonal().reshape(3, 8)[:, 4:].max() < 0.02


def test_scatter_from_image_to_image_is_seen(wiener_filter, gaussian_images):
    s = 0.8 * torch.randn(60, 1, 1, 1, generator=torch.Generator().manual_seed(1))
    varied = NATURAL.mean + (gaussian_images - NATURAL.mean) * torch.exp(s / 2)
    found = calibrate(wiener_filter, varied, sigma=(0.6,), phi=(0.0,))
    # In colour at |k| = 1/6 noise is far above the signal: the error is all of the signal.
    assert float(found.scatter[13, 13]) == pytest.approx(float(s.var()), rel=0.2)


def test_a_table_already_there_is_not_counted_twice(table, wiener_filter, gaussian_images):
    wrong = Calibration(torch.ones(3, 8, 10).double(), torch.zeros(24, 24).double())
    again = calibrate(
        SpectralDenoiser(wiener_filter.network, NATURAL, wrong),
        gaussian_images,
        sigma=(0.05, 0.2),
        phi=(-1.0, 0.0, 1.0),
    )
    assert torch.allclose(again.log_c, table.log_c)


def test_quadrants_are_the_quarters():
    x = torch.arange(2 * 16.0).reshape(2, 1, 4, 4)
    quarters = quadrants(x)
    assert quarters.shape == (8, 1, 2, 2)
    assert torch.equal(quarters[0, 0], x[0, 0, :2, :2])
    assert torch.equal(quarters[3, 0], x[0, 0, 2:, 2:])
    assert torch.equal(quarters[4, 0], x[1, 0, :2, :2])
