"""The table c recovers what the heads got wrong."""

import math

import pytest
import torch

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.training.error_table import check_errors, fit_factor, quadrants


@pytest.fixture(scope="module")
def wiener_filter(silent):
    """The exact estimate of a Gaussian x, its error underestimated."""
    return silent(too_small=1.7)


@pytest.fixture(scope="module")
def table(wiener_filter, gaussian_images):
    return fit_factor(wiener_filter, gaussian_images, sigma=(0.05, 0.2), phi=(-1.0, 0.0, 1.0))


def test_a_known_factor_is_recovered(table, wiener_filter, gaussian_images):
    assert table.shape == (3, 8, 10)
    known = Calibration(table, torch.zeros(24, 24).double())
    calibrated = SpectralDenoiser(wiener_filter.network, NATURAL, known)
    for before, after in zip(
        check_errors(wiener_filter, gaussian_images, (0.1,), (-0.5, 0.5)),
        check_errors(calibrated, gaussian_images, (0.1,), (-0.5, 0.5)),
        strict=True,
    ):
        assert before.median == pytest.approx(1.7, rel=0.05)
        assert after.median == pytest.approx(1.0, abs=0.05)
        # The lowest knots have a handful of modes per image: 2 % to 5 % errors.
        assert torch.tensor(after.bands[2:]) == pytest.approx(1.0, abs=0.1)


def test_the_table_tends_to_1_where_it_has_seen_nothing(table):
    # At |k| = 0.6 nothing is met with noise far below the signal.
    assert table[0, -1, 0].abs() < 0.5 * math.log(1.7)
    assert table[0, -1, 0].abs() < table[0, -1, 3].abs()


def test_a_table_already_there_is_not_counted_twice(table, wiener_filter, gaussian_images):
    wrong = Calibration(torch.ones(3, 8, 10).double(), torch.zeros(24, 24).double())
    again = fit_factor(
        SpectralDenoiser(wiener_filter.network, NATURAL, wrong),
        gaussian_images,
        sigma=(0.05, 0.2),
        phi=(-1.0, 0.0, 1.0),
    )
    assert torch.allclose(again, table)


def test_quadrants_are_the_quarters():
    x = torch.arange(2 * 16.0).reshape(2, 1, 4, 4)
    quarters = quadrants(x)
    assert quarters.shape == (8, 1, 2, 2)
    assert torch.equal(quarters[0, 0], x[0, 0, :2, :2])
    assert torch.equal(quarters[3, 0], x[0, 0, 2:, 2:])
    assert torch.equal(quarters[4, 0], x[1, 0, :2, :2])
