"""Level maps that are given: kinds say the same, σ is found under them, bad ones are refused."""

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import InputError
from gibbsdiff.inference.encoding import Encoding, Given
from gibbsdiff.inference.given_level import GivenLevel

SHAPE = (96, 96)


def corners(side=96, times=10.0):
    """g: corners are ten times noisier."""
    rows, columns = np.mgrid[:side, :side] - (side - 1) / 2
    return np.where(np.hypot(rows, columns) > 0.575 * side, times, 1.0)


def test_all_kinds_say_the_same():
    sd = np.random.default_rng(0).uniform(0.5, 2, SHAPE)
    sd[3, 4] = np.nan
    maps = {"sd": sd, "variance": sd**2, "ivar": sd**-2.0, "flat": sd**-2.0}
    maps["ivar"][3, 4] = 0  # no weight is no pixel
    maps["variance"][3, 4] = np.inf
    for kind, values in maps.items():
        found = GivenLevel.of(values, kind).sd
        torch.testing.assert_close(found, torch.from_numpy(sd), equal_nan=True)
    given = Given(torch.zeros(1, *SHAPE), Encoding(5.0, 20.0))
    there, log_sd = GivenLevel.of(sd).on(given)
    assert torch.isnan(there.values).nonzero().tolist() == [[0, 3, 4]]
    assert float(log_sd[0, 0]) == pytest.approx(np.log(sd[0, 0] / 20))


BAD = {
    "shape": (np.ones((96, 95)), "sd", "is 96×95 pixels, and the picture 96×96"),
    "planes": (np.ones((2, 96, 96)), "sd", "needs one plane"),
    "negative": (-np.ones(SHAPE), "ivar", "has negative numbers"),
    "zero": (np.zeros(SHAPE), "variance", "has no number above 0"),
    "no weight": (np.full(SHAPE, np.nan), "ivar", "has no number above 0"),
    "infinite": (np.full(SHAPE, np.inf), "sd", "no pixel has noise of a finite level"),
    "words": ("much", "sd", "no such file|unknown suffix"),
    "kind": (np.ones(SHAPE), "snr", "level kind 'snr'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_maps_are_refused(name):
    values, kind, words = BAD[name]
    with pytest.raises(InputError, match=words):
        gibbsdiff.denoise(np.zeros(SHAPE), level_map=values, level_kind=kind)


def test_what_does_not_go_with_a_map_is_said(fast):
    y, level = np.zeros(SHAPE), np.ones(SHAPE)
    with pytest.raises(InputError, match="tells no absolute level"):
        gibbsdiff.denoise(y, level_map=level, level_kind="flat", level_absolute=True)
    with pytest.raises(InputError, match="counted light has a level of its own"):
        gibbsdiff.denoise(y, level_map=level, noise="poisson-gaussian")
    with pytest.raises(InputError, match="needs a family that has a sigma"):
        gibbsdiff.denoise(y, level_map=level, noise="photo", level_absolute=True)
    with pytest.raises(InputError, match="noise of one level in all places"):
        gibbsdiff.denoise(0.1 * np.random.default_rng(0).random(SHAPE), level_map=level, model=fast)


@pytest.fixture(scope="module")
def observed():
    """A smooth thing on a sky under white noise of 0.03, ten times that in the corners."""
    rows, columns = np.mgrid[:96, :96]
    x = 0.2 + 0.6 * np.exp(-((rows - 48) ** 2 + (columns - 40) ** 2) / 300)
    y = x + 0.03 * corners() * np.random.default_rng(1).normal(size=SHAPE)
    return x, y.astype(np.float32)


def test_noise_of_corners_is_taken_away_with_a_map_and_not_without(natural, observed):
    x, y = observed
    g, ok = corners(), np.ones(SHAPE, bool)
    p = gibbsdiff.denoise(y, noise="white", level_map=7 * g, model=natural)
    rms = np.sqrt(np.mean((0.03 * g) ** 2))
    assert p.level == pytest.approx(rms, rel=0.1)
    plain = gibbsdiff.denoise(y, noise="white", model=natural, check=False)
    for part, most in ((g > 1, 0.3), (ok, 0.35)):
        before, after, without = (np.std((z - x)[part]) for z in (y, p.image, plain.image))
        assert after < most * before
        assert after < 0.7 * without


def test_an_absolute_map_is_the_noise(natural, observed):
    x, y = observed
    holes = y.copy()
    level = 0.03 * corners()
    level[10:14, 20:30] = np.inf
    holes[10:14, 20:30] = 9.0  # whatever stands there
    options = {"noise": "white", "level_absolute": True, "model": natural}
    p = gibbsdiff.denoise(holes, level_map=level**2, level_kind="variance", **options)
    assert p.noise_is_known
    rms = np.sqrt(np.mean(level[np.isfinite(level)] ** 2))
    assert p.rows[0].mean == pytest.approx(rms, rel=0.01)
    assert int(p.missing.sum()) == 40
    assert np.std(p.image - x) < 0.35 * np.std(y - x)
    z = np.abs(p.image - x)[48:, 48:] / p.sd.numpy()[0][48:, 48:]
    assert np.mean(z < 2) > 0.8
