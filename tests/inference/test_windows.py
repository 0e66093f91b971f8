"""Large pictures: φ from windows that share it, x for the whole frame."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import data

import gibbsdiff
from gibbsdiff import GaussianDenoiser, PowerLawSignal
from gibbsdiff.inference.windows import places
from gibbsdiff.metrics import psnr

SHAPE = (2000, 132)  # just above 512² pixels, in four windows of 256×132
PHI = (0.5, -0.5)


class Colour(GaussianDenoiser):
    """For RGB alone: equal opponent channels, of which grey pictures are the first by √3."""

    channels = 3


@pytest.fixture(scope="module")
def large(truth):
    return truth.observe(SHAPE, *PHI)


def test_windows_do_not_overlap_and_stay_inside():
    for shape in ((600, 700), (2000, 300), (4000, 6000), (4000, 132), (200, 3000)):
        corners = places(shape)
        assert len(corners) <= 16
        height, width = min(256, shape[0]), min(256, shape[1])
        for i, (top, left) in enumerate(corners):
            assert 0 <= top <= shape[0] - height
            assert 0 <= left <= shape[1] - width
            for other_top, other_left in corners[:i]:
                assert abs(top - other_top) >= height or abs(left - other_left) >= width


def test_the_noise_of_a_large_picture_is_found_from_windows(truth, large):
    """One N(k): σ is that of the whole picture, whose grid is not the windows'."""
    x, y = large
    p = gibbsdiff.denoise(y, model=truth.GAUSSIAN)
    assert p.how == ("first stage", "laplace density", "φ from 4 windows of 256×132")
    sigma, phi = p.rows
    assert sigma.mean == pytest.approx(PHI[0], rel=0.02)
    assert phi.mean == pytest.approx(PHI[1], abs=0.04)
    assert phi.sd < 0.02
    assert p.samples is None
    # The spectrum and the mean are those of the whole picture.
    N = truth.noise_spectrum(SHAPE, *PHI)[:, : SHAPE[1] // 2 + 1]
    ratio = p.noise_power[0].numpy() / N
    assert np.abs(np.log(ratio[3:-3, 3:])).max() < 0.1
    assert p.level == pytest.approx(PHI[0], rel=0.02)
    assert p.level == pytest.approx(sigma.mean, rel=0.005)
    mean, sd = truth.wiener(y, *PHI)
    assert np.sqrt(np.mean((p.mean.numpy() - mean) ** 2)) < 0.1 * sd
    assert float(p.sd.mean()) == pytest.approx(sd, rel=0.02)
    error = math.sqrt(np.mean((p.mean.numpy() - x) ** 2))
    assert error == pytest.approx(sd, rel=0.05)


def test_windows_take_every_option(truth, large):
    x, y = large
    options = {"model": truth.GAUSSIAN, "seed": 2}
    plain = gibbsdiff.denoise(y, **options)
    asked = gibbsdiff.denoise(y, samples=2, second_stage=True, calls=1, **options)
    assert asked.how[0] == "two stages"
    assert asked.samples.shape == (2, *y.shape)
    # 5 iterations, 2 draws of each of 4 windows, one more score of each; 2 samples.
    assert asked.calls - plain.calls == 5 * 2 * 4 + 4 + 2
    assert asked.rows[1].mean == pytest.approx(PHI[1], abs=0.05)
    assert not torch.equal(asked.phi, plain.phi)
    error = (asked.samples.numpy() - x).std() / plain.sd.mean()
    assert float(error) == pytest.approx(math.sqrt(2), rel=0.05)  # a draw errs twice as much
    slow = gibbsdiff.denoise(y, samples=1, calls=3, **options)
    assert slow.calls - plain.calls == 3
    fitted = gibbsdiff.denoise(y, density="polynomial", **options)
    assert fitted.how[1] == "polynomial density"
    assert fitted.calls - plain.calls == 24 * 4
    assert [r.mean for r in fitted.rows] == pytest.approx([r.mean for r in plain.rows], rel=0.02)


def test_the_box_of_windows_is_stated_for_the_whole_picture(truth, large):
    """Draws near a wall stay near it when they are widened."""
    p = gibbsdiff.denoise(large[1], model=truth.GAUSSIAN)
    scale = p.box[1, 0]  # the prior's upper wall of σ is 1
    assert float(p.box[0, 0]) == pytest.approx(0.01 * float(scale))
    assert float(scale) != 1
    near = replace(p, phi=p.box[1].expand(4, 500, 2), model_error=torch.diag(torch.ones(2)) * 1e-6)
    wide = near.widened().phi
    assert bool(((wide <= p.box[1]) & (wide > p.box[1] - 0.01)).all())


def test_grey_missing_and_windows_together(truth, large):
    """A grey picture with holes through a denoiser for colour is as without the detour, and as
    without the holes but for their share of the pixels.
    """
    _, y = large
    holes = y.copy()
    rng = np.random.default_rng(0)
    holes[0, rng.random(SHAPE) < 0.02] = np.nan
    holes[0, 300:420, 20:60] = np.nan
    colour = Colour(PowerLawSignal((6e-3,), (2.0,), 0.4))
    whole, grey, told = (
        gibbsdiff.denoise(picture, model=model)
        for picture, model in ((y, truth.GAUSSIAN), (holes, colour), (holes, truth.GAUSSIAN))
    )
    assert grey.mean.shape == y.shape
    assert int(grey.missing.sum()) == int(np.isnan(holes).sum())
    assert bool(torch.isfinite(grey.mean).all())
    for row, same, full in zip(grey.rows, told.rows, whole.rows, strict=True):
        assert row.mean == pytest.approx(same.mean, abs=0.2 * same.sd)
        assert row.sd == pytest.approx(same.sd, rel=0.05)
        assert row.mean == pytest.approx(full.mean, abs=3 * row.sd)
    assert grey.rows[1].mean == pytest.approx(PHI[1], abs=0.06)
    np.testing.assert_allclose(grey.sd, told.sd, rtol=0.02)
    seen = ~np.isnan(holes)
    assert np.abs((grey.mean - told.mean).numpy()[seen]).max() < 0.05 * float(told.sd.mean())


def test_a_large_photograph(natural, truth):
    x = torch.from_numpy(data.astronaut().copy()).permute(2, 0, 1).float() / 255
    x = torch.cat([x, x.flip(-2)] * 2, -2)[:, : SHAPE[0], 100 : 100 + SHAPE[1]]
    y = x + torch.from_numpy(truth.coloured(SHAPE, 0.15, -0.7, 2, 3)).float()
    p = gibbsdiff.denoise(y, model=natural)
    assert p.method == "marginal"
    assert p.how[-1] == "φ from 4 windows of 256×132"
    sigma, phi = p.rows
    assert sigma.mean == pytest.approx(0.15, rel=0.03)
    assert phi.mean == pytest.approx(-0.7, abs=0.06)
    assert float(psnr(p.mean, x)) > float(psnr(y, x)) + 5
