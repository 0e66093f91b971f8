"""Impulses are found, taken out where that is sure, and inferred from what is around them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import data

from gibbsdiff import denoise, psnr
from gibbsdiff.inference.encoding import read
from gibbsdiff.inference.impulses import MANY, impulses_in, without_impulses
from gibbsdiff.inference.posterior import Posterior

LEVEL = 10 / 255


def spoilt(part, seed=0):
    """A photograph, it under white noise, and where impulses are in it."""
    rng = np.random.default_rng(seed)
    x = data.coffee()[100:196, 200:296] / 255
    y = x + LEVEL * rng.standard_normal(x.shape)
    hit = rng.random(x.shape[:2]) < part
    y[hit] = np.where(x[hit] < 0.5, 1, 0)
    return x, (255 * y.clip(0, 1)).round().astype(np.uint8), hit


def posterior_of(pixels):
    y = torch.from_numpy(pixels / 255.0).permute(2, 0, 1)
    power = torch.full((3, *y.shape[1:-1], y.shape[-1] // 2 + 1), LEVEL**2)
    return Posterior(("sigma",), torch.full((1, 1, 1), LEVEL), y, y, noise_power=power)


def test_most_impulses_are_found_and_little_else():
    _, pixels, hit = spoilt(0.01)
    found = impulses_in(posterior_of(pixels)).numpy()
    assert found[hit].mean() > 0.75
    assert found[~hit].mean() < MANY


def test_noise_has_none():
    _, pixels, _ = spoilt(0.0)
    found = impulses_in(posterior_of(pixels))
    assert found is None or float(found.double().mean()) < MANY


def test_a_picture_made_of_them_is_left_alone():
    _, pixels, _ = spoilt(0.0)
    pixels[::3, ::3] = 255
    assert impulses_in(posterior_of(pixels)) is None


@pytest.fixture(scope="module")
def found():
    """By default, kept, and as floats."""
    x, pixels, hit = spoilt(0.004)
    kwargs = {"noise": "white", "model": "natural-fast"}
    asked = {"as it comes": {}, "kept": {"impulses": False}}
    made = {name: denoise(pixels, **kwargs, **more) for name, more in asked.items()}
    made["floats"] = denoise(pixels / 255.0, **kwargs)
    return torch.from_numpy(x).permute(2, 0, 1), hit, made


def test_they_are_inferred_from_what_is_around_them(found):
    x, hit, made = found
    out, kept = made["as it comes"], made["kept"]
    assert psnr(out.mean, x) > psnr(kept.mean, x) + 2
    at = torch.from_numpy(hit)
    error = (out.mean - x)[:, at & out.missing].square().mean().sqrt()
    assert error < 0.1  # they are half of the range off, and more
    assert bool(out.missing[at].double().mean() > 0.75)
    assert "taken for missing" in out.notes[-1]


def test_the_noise_is_found_beside_them(found):
    _, _, made = found
    assert made["as it comes"].phi.mean() == pytest.approx(LEVEL, rel=0.05)


def test_only_eight_bits_or_on_request(found):
    _, _, made = found
    for name in ("kept", "floats"):
        assert made[name].missing is None
        assert not any("taken for missing" in note for note in made[name].notes)


@pytest.mark.parametrize("raises", [True, False])
def test_what_is_there_stays_when_the_second_round_is_interrupted(raises):
    _, pixels, _ = spoilt(0.01)
    whole = replace(posterior_of(pixels), calls=5)

    def posterior(given):
        if not torch.isnan(given.values).any():
            return whole
        if raises:
            raise KeyboardInterrupt
        return replace(whole, interrupted=True)

    given = read(pixels)
    stopped = without_impulses(posterior, given, None)
    assert stopped.interrupted
    assert stopped.missing is None
