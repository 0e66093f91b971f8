"""Where a level map spans much: quiet places are denoised as if there were no loud ones."""

import numpy as np
import torch
from skimage import data

import gibbsdiff
from gibbsdiff.inference.calm import calm_part
from gibbsdiff.inference.given_level import GivenLevel

SIDE = 96
CLEAN = data.camera()[100 : 100 + SIDE, 180 : 180 + SIDE] / 255
ROWS, COLUMNS = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
CORNERS = np.hypot(ROWS, COLUMNS) > 0.575 * SIDE


def test_what_is_calm():
    sd = np.where(CORNERS, 10.0, 1.0)
    sd[50, 50] = np.nan
    calm = calm_part(GivenLevel.of(sd)).sd
    assert torch.equal(torch.isfinite(calm), torch.from_numpy(~CORNERS & np.isfinite(sd)))
    assert calm_part(GivenLevel.of(np.where(CORNERS, 2.0, 1.0))) is None
    few = np.where(np.arange(SIDE) < 0.2 * SIDE, 1.0, 10.0) * np.ones((SIDE, 1))
    assert calm_part(GivenLevel.of(few)) is None  # too little to be denoised by itself
    star = 1 + 200 * np.exp(-0.5 * np.hypot(ROWS, COLUMNS) ** 2 / 9)
    assert calm_part(GivenLevel.of(np.sqrt(star))) is None  # counts: no jump
    assert calm_part(GivenLevel.of(np.geomspace(1, 10, SIDE) * np.ones((SIDE, 1)))) is None


def test_loud_corners_cost_nothing_elsewhere():
    """The error where noise is weak is that of noise of this level in all places, and the noise
    found is that of the whole.
    """
    white = np.random.default_rng(0).normal(size=CLEAN.shape)
    error = []
    for sd in (np.full(CLEAN.shape, 0.04), np.where(CORNERS, 0.4, 0.04)):
        p = gibbsdiff.denoise(
            CLEAN + sd * white, noise="white", level_map=sd, level_absolute=True, check=False
        )
        assert np.isclose(p.level, np.sqrt(np.mean(sd**2)), rtol=0.01)
        off = p.mean[0].numpy() - CLEAN
        error.append(np.sqrt(np.mean(off[~CORNERS] ** 2)))
        z = off / p.sd[0].numpy()
        assert 0.6 < np.std(z[~CORNERS]) < 1.6
    assert error[1] < 1.1 * error[0]
    assert np.std(off[CORNERS]) < 0.5 * 0.4
