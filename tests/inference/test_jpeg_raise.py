"""Noise of known level in files that Pillow wrote: what is left in flat blocks, and what texture
keeps of it.
"""

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.fourier import to_opponent
from gibbsdiff.inference.jpeg_raise import _shares, _windows, jpeg_raise
from gibbsdiff.inference.jpeg_rounding import survived
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_whole import of_the_whole
from gibbsdiff.io.jpeg_steps import steps_of

SIDE = 256
BANDS = ((0.06, 0.15), (0.15, 0.25), (0.25, 0.35), (0.35, 0.45), (0.45, 0.6))
RADIUS = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE))


def file_of(levels, quality, subsampling=0):
    """y (1, C, H, W) as it is decoded, and the file's steps."""
    pixels = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=subsampling)
    with Image.open(file) as image:
        steps = steps_of(image)
        values = np.asarray(image, dtype=np.float64) / 255
    planes = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return torch.from_numpy(planes.copy())[None], steps


def white(level, seed=0, channels=3):
    shape = (SIDE, SIDE) if channels == 1 else (SIDE, SIDE, channels)
    return level * np.random.default_rng(seed).standard_normal(shape)


def textured(seed=5, level=12):
    """Noise-like texture in the right half, of luma alone, none in the left."""
    picture = np.full((SIDE, SIDE), 128.0)
    picture[:, SIDE // 2 :] += white(level, seed, 1)[:, SIDE // 2 :]
    return picture


@pytest.mark.parametrize("quality", [95, 85, 75])
@pytest.mark.parametrize("level", [3.0, 6.0, 12.0, 20.0])
def test_what_is_left_in_flat_blocks_by_band(quality, level):
    y, steps = file_of(128 + white(level, channels=1), quality)
    power = np.abs(np.fft.fft2(255 * y[0, 0].numpy(), norm="ortho")) ** 2
    s2 = level**2 + 1 / 12  # the picture itself was rounded
    f = survived(np.full(64, math.sqrt(s2)), steps.tables[0].ravel())
    for low, high in BANDS:
        here = (low <= RADIUS) & (high > RADIUS)
        k = np.sqrt(RADIUS[here].min() * RADIUS[here].max())
        within = _shares(np.linspace(low, high, 9), (1, 1)).mean(0)
        predicted = within @ f + 1 / 12  # and so is what is decoded
        scatter = power[here].std() / math.sqrt(here.sum() / 2)
        assert power[here].mean() == pytest.approx(predicted, abs=4 * scatter + 0.15 * predicted), k


@pytest.mark.parametrize("quality", [95, 85, 75])
@pytest.mark.parametrize("subsampling", [0, 2])
def test_a_flat_picture_is_not_raised(quality, subsampling):
    y, steps = file_of(128 + white(12.0), quality, subsampling)
    quiet = quiet_patches(y)
    more = jpeg_raise(quiet, y, steps)
    assert float(more.mean.min()) >= 0
    survives = quiet.power > 0.1 * (12 / 255) ** 2
    assert float(more.mean[survives].max()) < 0.25


def test_texture_keeps_what_flat_blocks_lose():
    clean = textured()
    y, steps = file_of(clean + white(3.0, channels=1), 75)
    quiet = quiet_patches(y)
    more = jpeg_raise(quiet, y, steps)
    # Luma's small scales are nearly gone in the left half, and there in the right one.
    error = 255 * y[0, 0].numpy() - clean
    halves = [
        np.abs(np.fft.fft2(part, norm="ortho")) ** 2
        for part in (error[:, : SIDE // 2], error[:, SIDE // 2 :])
    ]
    radius = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.fftfreq(SIDE // 2))
    here = (radius > 0.25) & (radius < 0.45)
    flat, spread = (half[here].mean() for half in halves)
    assert spread > 5 * flat
    small = (quiet.k > 0.25) & (quiet.k < 0.45)
    assert float(more.mean[0, small].min()) > 0.5
    true = math.log((flat + spread) / 2 / flat)
    assert float(more.mean[0, small].mean()) == pytest.approx(true, rel=0.5)
    assert bool((more.sd >= 0.5 * more.mean - 1e-9).all())


def test_where_nothing_survives_quiet_places_weigh_nothing():
    y, steps = file_of(textured(level=40) + white(1.0, channels=1), 60)
    quiet = quiet_patches(y)
    more = jpeg_raise(quiet, y, steps)
    gone = quiet.k > 0.3
    assert float(more.sd[0, gone].min()) > 0.8
    told = quiet.louder(*more)
    assert bool((told.counted[0, gone] == 0).all())


def test_fine_steps_change_nothing():
    rng = np.random.default_rng(3)
    ramp = 60 + 100 * np.linspace(0, 1, SIDE)[:, None] + 0 * rng.random((SIDE, SIDE))
    y, steps = file_of(ramp[..., None] + white(10.0), 100)
    quiet = quiet_patches(y)
    more = jpeg_raise(quiet, y, steps)
    assert float(more.mean.max()) < 0.02
    raised, rest = of_the_whole(quiet, y, True, True, steps)
    assert rest == (0.0, 0.0)
    assert torch.allclose(raised.power, quiet.by_scatter().power, rtol=0.02)


def test_without_steps_all_is_as_it_was():
    y, _ = file_of(128 + white(12.0), 85)
    quiet = quiet_patches(y)
    same, raised = of_the_whole(quiet, y)
    assert torch.equal(same.power, quiet.by_scatter().power)
    assert raised == (0.0, 0.0)
    assert jpeg_raise(quiet, y, file_of(128 + white(1.0, channels=1), 85)[1]) is None


def test_units_are_those_of_the_full_scale():
    clean = textured()[..., None]
    y, steps = file_of(clean + white(6.0), 80, 2)
    one = jpeg_raise(quiet_patches(y), y, steps)
    seen = torch.ones(SIDE, SIDE, dtype=torch.bool)
    quiet = quiet_patches(y, seen)
    half = jpeg_raise(
        quiet.louder(*(torch.full_like(quiet.sd, v) for v in (math.log(0.25), 0.0))),
        0.5 * y,
        steps,
        full=0.5,
    )
    assert torch.allclose(one.mean, half.mean, atol=0.05)


def test_large_pictures_are_cut_where_blocks_begin():
    levels = np.add.outer(1000.0 * np.arange(1400), np.arange(1100.0))[None]
    windows = _windows(levels, 16, 16)
    assert len(windows) == 16
    for window in windows:
        assert window.shape == (1, 256, 256)
        assert window[0, 0, 0] // 1000 % 16 == window[0, 0, 0] % 1000 % 16 == 0


def test_opponent_noise_comes_back_from_the_planes():
    from gibbsdiff.inference.jpeg_raise import PLANES, _between

    to, back = _between(3)
    rgb = torch.rand(1, 3, 4, 4, dtype=torch.float64)
    planes = np.einsum("pc,chw->phw", PLANES, rgb[0].numpy())
    assert np.allclose(np.einsum("pc,chw->phw", to, to_opponent(rgb)[0].numpy()), planes)
    assert np.allclose(to @ back, np.eye(3))
