"""What becomes of a picture beside its posterior: noise kept, symmetries, weak noise, clipping."""

import math
from dataclasses import replace

import pytest
import torch

from gibbsdiff import Estimate, ObservationModel, Posterior, PowerLawNoise, Problem, denoise
from gibbsdiff.diffusion.denoiser import as_denoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane, to_opponent
from gibbsdiff.inference.drawing import at_once, best_mean, given_back, image_at
from gibbsdiff.inference.problem import Options
from gibbsdiff.inference.setting import depth_of, family_of, picture_problem
from gibbsdiff.inference.simpler import could_be
from gibbsdiff.noise import LevelledNoise, PhotoNoise, WhiteNoise

PHI = torch.tensor([[0.1, 0.0]]).double()


def posterior(**fields):
    y, x = torch.rand(2, 3, 24, 20, generator=torch.Generator().manual_seed(1))
    return Posterior(("sigma",), torch.full((1, 4, 1), 0.1), y, x, **fields)


def test_shares_of_luma_and_chroma_noise_stay():
    p = posterior(keep=(0.2, 0.5))
    left = to_opponent((p.picture - p.mean)[None])[0]
    whole = to_opponent((p.observed - p.mean)[None])[0]
    for channel, share in enumerate((0.2, 0.5, 0.5)):
        assert torch.allclose(left[channel], share * whole[channel], atol=1e-6)
    assert torch.equal(posterior().picture, p.mean)
    assert torch.allclose(posterior(keep=(1.0, 1.0)).picture, p.observed, atol=1e-6)


def shifted(z, noise):
    """A denoiser that no symmetry leaves alone."""
    return Estimate(z.roll(1, -1))


def test_the_best_mean_is_that_over_eight_symmetries():
    """Of a shift by a pixel to the right it is the mean of shifts into all four directions."""
    noise, shape = PowerLawNoise(), (24, 20)
    y = torch.rand(1, 3, *shape, generator=torch.Generator().manual_seed(2)).double()
    problem = Problem(y, noise, as_denoiser(shifted), ObservationModel(noise, shape))
    around = [y.roll(s, a) for a in (-1, -2) for s in (-1, 1)]
    assert torch.allclose(best_mean(problem, PHI, 0), torch.stack(around).mean(0)[0])
    even = as_denoiser(lambda z, noise: Estimate(z / 2))
    same = replace(problem, denoiser=even)
    assert torch.allclose(best_mean(same, PHI, 0), image_at(same, PHI, 0)[0])


def test_noise_weaker_than_any_known_leaves_the_picture():
    power = torch.full((1, 24, 11), 0.002**2)
    found = given_back(posterior(noise_power=power), 0.003)
    assert found.returned
    assert torch.equal(found.mean, found.observed)
    assert float(found.sd.mean()) == pytest.approx(0.002)
    assert "given back as it is" in found.notes[-1]
    assert not given_back(posterior(noise_power=4 * power), 0.003).returned


@pytest.mark.parametrize("family", ["photo", "white", "power-law"])
def test_a_drawing_is_given_back_at_once(family):
    values = torch.ones(3, 32, 40)
    values[:, 8:20, 5:30] = torch.tensor([0.2, 0.4, 0.8]).view(3, 1, 1)
    even, depth = as_denoiser(lambda z, noise: Estimate(z / 2)), depth_of("uint8")
    noise = family_of(family, 3, depth)
    made, _ = picture_problem(values, noise, {}, even, on_unit_range=True, depth=depth)
    options = Options("marginal", samples=0)
    found = at_once(made, options)
    assert found.returned
    assert torch.equal(found.mean, values)
    assert found.level < made.least_level
    assert "given back as it is" in found.notes[0]
    grain = 0.02 * torch.randn(3, 32, 40, generator=torch.Generator().manual_seed(5))
    noisy, _ = picture_problem(
        (values + grain).clamp(0, 1), noise, {}, even, on_unit_range=True, depth=depth
    )
    assert at_once(noisy, options) is None


def test_saturated_places_have_no_weight():
    values = 0.1 + 0.8 * torch.rand(3, 48, 40, generator=torch.Generator().manual_seed(3))
    values[1, 5, 7] = 0.0  # a single pixel says nothing wrong
    values[0, 20:30, 20:30] = 1.0
    even = as_denoiser(lambda z, noise: Estimate(z / 2))
    made, missing = picture_problem(values, PowerLawNoise(), {}, even, depth=depth_of("uint8"))
    window = made.observation.window[0, 0]
    assert missing is None
    assert float(window[5, 7]) > 0
    assert float(window[21:29, 21:29].max()) == 0
    assert float((window == 0).double().sum()) < 15**2
    floats, _ = picture_problem(values, PowerLawNoise(), {}, even)
    assert float(floats.observation.window.min()) > 0  # floats may be 0 by themselves


def test_a_files_depth_bounds_its_noise():
    assert depth_of("uint8").rounding == pytest.approx(1 / 255**2 / 12)
    assert depth_of("uint16").rounding == pytest.approx(1 / 65535**2 / 12)
    assert not depth_of("float32").clipped
    photo = family_of("photo", 3, depth_of("uint8"))
    assert isinstance(photo, LevelledNoise)
    N = photo.power((16, 16), torch.stack([photo.low, photo.high]))
    assert float(N.min()) >= depth_of("uint8").rounding
    assert float(family_of("power-law", 3, depth_of("uint8")).low[0]) < 0.003
    assert float(family_of("power-law", 3).low[0]) == 0.01
    with pytest.raises(InputError, match="there are"):
        family_of("pink", 3)


@pytest.mark.parametrize("name", ["white", "power-law"])
def test_a_simpler_family_is_tried_where_spectra_are_near_it(name):
    shape = (24, 20)
    slope = 0.0 if name == "white" else -0.8
    simple = PowerLawNoise().power(shape, torch.tensor([[0.1, slope]]).double())[0]
    assert could_be(posterior(noise_power=simple.expand(3, -1, -1)), name)
    steep = simple * torch.exp(-4 * half_plane(shape).k.reshape(simple.shape[-2:]) ** 2 / 0.1)
    chroma = torch.cat([simple, steep, steep])
    assert not could_be(posterior(noise_power=chroma), name)
    if name == "white":
        pink = PowerLawNoise().power(shape, torch.tensor([[0.1, -0.9]]).double())[0]
        assert not could_be(posterior(noise_power=pink), name)


def test_white_noise_is_inside_photographs_noise():
    """At slope 0, no roll-off and no floor."""
    photo = PhotoNoise(rounding=1e-12)
    phi = torch.zeros(1, 11).double()
    phi[0, [3, 9]], phi[0, [4, 10]], phi[0, 0] = 1.6, -12.0, math.log(0.1)
    white = WhiteNoise().power((16, 12), torch.tensor([[0.1]]).double())
    assert torch.allclose(photo.power((16, 12), phi), white.expand(-1, 3, -1, -1), rtol=1e-4)


def test_a_second_stage_is_refused_where_the_level_goes_with_brightness():
    y = torch.rand(3, 40, 40, generator=torch.Generator().manual_seed(4))
    with pytest.raises(InputError, match="second_stage: not for noise whose level"):
        denoise(y, noise="photo", second_stage=True)
