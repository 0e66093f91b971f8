"""Curves of the level: slopes by differentiation, and the line of counted light."""

import pytest
import torch

from gibbsdiff.noise import LevelledNoise, Light, WhiteNoise
from gibbsdiff.noise.level import LevelMap
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, BY_COUNTS

LIGHT = torch.linspace(0.07, 0.9, 40, dtype=torch.float64)
CASES = [(BY_BRIGHTNESS, (0.8, -1.3)), (BY_COUNTS, (1.4,)), (BY_COUNTS, (-2.0,))]


@pytest.mark.parametrize(("form", "values"), CASES)
def test_slopes_are_derivatives(form, values):
    form, at = form.on(LIGHT), torch.tensor([values], dtype=torch.float64)
    exact = torch.func.jacfwd(lambda v: form.log_level(v, LIGHT[None]))(at)[0, :, 0]
    torch.testing.assert_close(form.slopes(at, LIGHT[None])[0], exact.T)


def test_the_variance_of_counted_light_is_its_line():
    """g² times the mean variance is gain · l + c, whatever gain and pedestal."""
    rise, variance = torch.tensor([[1.1]], dtype=torch.float64), torch.tensor([0.02]).double()
    light = Light.of(LIGHT.reshape(1, 1, 5, 8))
    level = LevelMap.by_light(rise, light, BY_COUNTS)
    gain, c = BY_COUNTS.on(light.whole).line(rise[:, 0], variance)
    torch.testing.assert_close(level.g.square() * variance, gain * light.map + c)
    # From equal everywhere to nothing in the darkest place.
    flat, steep = (torch.tensor([[end]]).double() for end in (-40.0, 40.0))
    torch.testing.assert_close(
        LevelMap.by_light(flat, light, BY_COUNTS).g, torch.ones(1, 1, 5, 8).double()
    )
    gain, c = BY_COUNTS.on(light.whole).line(steep[:, 0], variance)
    assert float(gain * LIGHT[0] + c) == pytest.approx(0, abs=1e-12)


def test_curves_are_part_of_what_a_noise_is():
    by_brightness = LevelledNoise(WhiteNoise())
    by_counts = LevelledNoise(WhiteNoise(), curve=BY_COUNTS)
    assert by_brightness.digest() != by_counts.digest()
    assert by_counts.names == ("sigma", "rise")
