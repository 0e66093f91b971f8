"""Several pictures with one noise: scores add up, and each picture is one call."""

import math

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import InputError
from gibbsdiff.inference.series import contact_sheet, denoise_series

SHAPE = (64, 96)
PHI = (0.5, -0.5)


@pytest.fixture(scope="module")
def pages(truth):
    return [truth.observe(SHAPE, *PHI, seed=3 * i)[1] for i in range(9)]


@pytest.fixture(scope="module")
def found(truth, pages):
    return denoise_series(pages, model=truth.GAUSSIAN)


def test_what_nine_pictures_tell_of_one_noise_is_three_times_as_sharp(truth, pages, found):
    one = gibbsdiff.denoise(pages[0], model=truth.GAUSSIAN)
    for row, alone, value in zip(found.noise.rows, one.rows, PHI, strict=True):
        assert row.sd == pytest.approx(alone.sd / 3, rel=0.35)
        assert abs(row.mean - value) < 4 * row.sd
    assert "φ from 9 windows of 64×96" in found.noise.how


def test_each_picture_is_one_call_with_that_noise(truth, pages, found):
    given = found.options["known"]
    posteriors = list(found)
    assert len(posteriors) == len(found) == 9
    for y, p in zip(pages, posteriors, strict=True):
        assert p.calls == 1
        # σ is stated on the grid of the contact sheet, and N(k) but for k = 0 is the same here.
        mean, sd = truth.wiener(y, p.level, given["phi"])
        assert (p.mean.numpy() - mean).std() < 0.002 * sd
        assert p.phi[..., 0].mean() == pytest.approx(p.level, rel=0.01)
        assert p.level == pytest.approx(PHI[0], rel=0.03)


def test_pictures_of_any_size_but_of_one_kind(truth, pages):
    smaller = [pages[0], pages[1][..., :48, :]]
    sheet = contact_sheet([gibbsdiff.inference.encoding.read(y) for y in smaller])
    assert tuple(sheet.values.shape[-2:]) == (96, 96)
    assert sheet.pages == 2
    colour = np.concatenate([pages[1]] * 3)
    with pytest.raises(InputError, match="number 1 has 3 channels, number 0 has 1"):
        denoise_series([pages[0], colour], model=truth.GAUSSIAN)
    with pytest.raises(InputError, match="number 1 is uint8 in units of 255"):
        denoise_series([pages[0], np.zeros(SHAPE, np.uint8)], model=truth.GAUSSIAN)
    with pytest.raises(InputError, match="one picture is no series"):
        denoise_series("stack.tif")
    with pytest.raises(InputError, match="marginal method"):
        denoise_series(pages, model=truth.GAUSSIAN, method="gibbs")


def test_noise_that_is_known_is_looked_for_in_no_picture(truth, pages):
    known = dict(zip(("sigma", "phi"), PHI, strict=True))
    series = denoise_series(np.stack(pages)[:, 0], model=truth.GAUSSIAN, known=known)
    p = next(iter(series))
    assert p.noise_is_known
    mean, sd = truth.wiener(pages[0], *PHI)
    assert np.sqrt(np.mean((p.mean.numpy() - mean) ** 2)) < 1e-3 * sd


@pytest.mark.slow
def test_a_level_that_goes_with_brightness_is_one_for_dark_and_bright_pictures(natural):
    """sd ∝ exp(a (l-½)): the dark picture has less noise than the bright one, by one curve."""
    rng = np.random.default_rng(0)
    level = {light: 0.08 * math.exp(1.2 * (light - 0.5)) for light in (0.2, 0.4, 0.6, 0.8)}
    pages = [
        torch.from_numpy(light + sd * rng.standard_normal((1, 64, 64))).float()
        for light, sd in level.items()
    ]
    series = denoise_series(pages, noise="photo", model=natural)
    a = series.noise.rows[series.noise.names.index("a")]
    assert a.mean == pytest.approx(1.2, abs=3 * a.total_sd)
    assert a.total_sd < 0.3
    for sd, p in zip(level.values(), series, strict=True):
        assert float((p.observed - p.mean).std()) == pytest.approx(sd, rel=0.05)
