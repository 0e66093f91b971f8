"""Counted light: what is found of its line, and pictures that are stretched for the network."""

import math

import numpy as np
import pytest
import torch
from skimage import data
from torch import Tensor

import gibbsdiff
from gibbsdiff.inference.counts import (
    COLOURED,
    PHOTOGRAPHED,
    WHITE,
    as_given,
    kind_of,
    stretched,
    stretched_known,
)
from gibbsdiff.inference.encoding import read
from gibbsdiff.inference.line import Line
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_start import start_of
from gibbsdiff.noise import LevelledNoise, Light, PhotoNoise
from gibbsdiff.noise.level import LevelMap, brightness
from gibbsdiff.noise.level_curves import BY_COUNTS

GAIN, C = 0.02, 2e-4


def cells(side=256):
    """Round spots of all brightnesses on a dark ground, (H, W) on [0.05, 0.95]."""
    rng = np.random.default_rng(1)
    rows, columns = np.mgrid[:side, :side]
    x = np.full((side, side), 0.05)
    for _ in range(14):
        r, c, radius = (*rng.uniform(0, side, 2), rng.uniform(12, 40))
        far = np.hypot(rows - r, columns - c) - radius
        x = np.maximum(x, 0.05 + rng.uniform(0.1, 0.9) / (1 + np.exp(np.clip(far, -60, 60))))
    return torch.from_numpy(x)


def counted(x: Tensor, gain=GAIN, c=C, seed=0) -> Tensor:
    """Poisson counts of `gain` each, and Gaussian read noise of variance c."""
    rng = torch.Generator().manual_seed(seed)
    shot = gain * torch.poisson(x / gain, generator=rng)
    return shot + math.sqrt(c) * torch.randn(x.shape, generator=rng, dtype=x.dtype)


def line_by_quiet_places(y: Tensor) -> tuple[float, float]:
    quiet = quiet_patches(y[None, None], torch.ones_like(y, dtype=torch.bool), BY_COUNTS)
    light = Light.of(brightness(y[None, None]))
    noise = LevelledNoise(PhotoNoise(1), curve=BY_COUNTS).lit(light)
    phi = start_of(noise, quiet)
    variance = noise.covariance((y.shape[0], y.shape[1]), phi).level.square()
    gain, c = BY_COUNTS.on(light.whole).line(phi[:, -1], variance)
    return float(gain), float(c)


def test_quiet_places_tell_the_line():
    gain, c = line_by_quiet_places(counted(cells()))
    assert gain == pytest.approx(GAIN, rel=0.12)
    assert c == pytest.approx(C, abs=0.1 * GAIN * 0.2)


def test_kinds_are_told_apart():
    x = cells().clamp(0.02, 0.98)
    assert kind_of(read(counted(x).float())) == WHITE
    curve = torch.tensor([[-0.9, -1.2]]).double()
    g = LevelMap.by_light(curve, Light.of(brightness(x[None, None]))).g[0, 0]
    rng = torch.Generator().manual_seed(1)
    by_camera = x + 0.04 * g * torch.randn(x.shape, generator=rng, dtype=x.dtype)
    assert kind_of(read(by_camera.float())) == PHOTOGRAPHED
    # A colour picture of 8 bits is a photograph, whatever its noise.
    assert kind_of(read(data.astronaut()[:64, :64])) == PHOTOGRAPHED


def test_what_is_stretched_comes_back():
    """Maps, level and parameters of the stretched picture as those of the picture."""
    x = 0.1 * cells(64)
    y = counted(x, 0.002, 1e-5).float()
    shown, s = stretched(read(y))
    assert float(torch.quantile(shown.values, 0.999)) == pytest.approx(1, rel=0.01)
    known = {"log_sigma": -4.0, "slope": 0.1, "cut": 0.5, "power": 1.6, "floor": -5.5, "rise": 1.0}
    noise = LevelledNoise(PhotoNoise(1, 1e-9), curve=BY_COUNTS)
    options = {"model": "natural", "check": False}
    there = gibbsdiff.denoise(shown.values, noise=noise, known=stretched_known(known, s), **options)
    back = as_given(there, s)
    torch.testing.assert_close(back.observed, read(y).values)
    assert back.level == pytest.approx(there.level / s)
    for name, value in zip(back.names, back.phi[0, 0].tolist(), strict=True):
        assert value == pytest.approx(known[name])
    by_name = gibbsdiff.denoise(y, noise=COLOURED, known=known, **options)
    torch.testing.assert_close(by_name.mean, back.mean, atol=1e-5, rtol=0)
    assert by_name.line is not None


def test_the_line_is_in_the_units_of_the_file():
    """Known noise: gain and c follow from φ, and scale with the data."""
    x = cells(64)
    known = {"log_sigma": -3.0, "slope": 0.0, "cut": 0.0, "power": 1.6, "floor": -12.0, "rise": 1.0}
    lines = []
    for unit in (255, 65535):
        kind = np.uint8 if unit == 255 else np.uint16
        levels = np.rint(unit * np.clip(x.numpy(), 0, 1)).astype(kind)
        found = gibbsdiff.denoise(levels, noise=COLOURED, known=known, check=False, offset=0.0)
        lines.append(found.line)
    ratio = 65535 / 255
    assert lines[1].gain == pytest.approx(ratio * lines[0].gain, rel=0.01)
    assert lines[1].c == pytest.approx(ratio**2 * lines[0].c, rel=0.02)
    assert lines[0].read == pytest.approx(math.sqrt(max(lines[0].c, 0)), rel=0.01)
    # The mean of gain · l + c over the picture is the variance of the noise.
    mean = float(np.rint(255 * x.numpy()).mean())
    assert lines[0].gain * mean + lines[0].c == pytest.approx((255 * found.level) ** 2, rel=0.03)


def test_a_line_says_what_cannot_be_told():
    assert "--offset" in str(Line(2.0, 0.1, -30.0, 5.0))
    assert "read noise 3" in str(Line(2.0, 0.1, -30.0, 5.0, 3.0))


def test_the_line_is_found_without_a_search():
    """By quiet places alone: two network calls, and the truth inside of the error bars."""
    found = gibbsdiff.denoise(counted(cells()).float(), noise=WHITE, check=False)
    assert found.calls == 2
    assert abs(found.line.gain - GAIN) < 2.5 * found.line.gain_sd < 0.4 * GAIN
    assert abs(found.line.c - C) < 2.5 * found.line.c_sd
