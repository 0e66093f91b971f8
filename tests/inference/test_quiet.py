"""The noise of quiet places: laws of patch powers by simulation, and known noise found again."""

import math
from dataclasses import replace

import pytest
import skimage.data
import torch
from torch.nn.functional import interpolate

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Wavevectors, half_plane
from gibbsdiff.inference.periodograms import unclipped
from gibbsdiff.inference.quiet import quiet_patches
from gibbsdiff.inference.quiet_law import (
    fit,
    independent_modes,
    independent_patches,
    window,
)
from gibbsdiff.inference.quiet_start import log_flat, processed, start_of
from gibbsdiff.noise.families import PowerLawNoise, SpectralNoise, WhiteNoise
from gibbsdiff.noise.level import LevelMap, Light, brightness
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.noise.photo import PhotoNoise
from gibbsdiff.noise.smooth import SmoothNoise
from gibbsdiff.streams import Streams

CAMERA = [math.log(0.05), -0.3, 2.0, 1.8, -6.0, 0.2, 0.1, 0.0, 5.0, 1.8, -5.0]


def noisy(noise, phi, x, seed=0):
    value = torch.tensor([phi], dtype=torch.float64)
    drawn = noise.covariance(tuple(x.shape[-2:]), value).draw(Streams(seed, [(0,)]), x.shape[1])
    return x + drawn


def log_true(noise, phi, quiet):
    k = Wavevectors(quiet.k, torch.zeros_like(quiet.k), torch.ones_like(quiet.k), quiet.shape)
    return noise.log_spectra(k, torch.tensor([phi], dtype=torch.float64))[0]


@pytest.mark.parametrize(("low", "high"), [(0.06, 0.3), (0.1, 0.14), (0.4, 0.72)])
def test_independent_modes_under_the_window(low, high):
    n, draws = 32, 4000
    k = torch.hypot(*torch.meshgrid(*[torch.fft.fftfreq(n).double()] * 2, indexing="ij"))
    band = ((k >= low) & (k < high)).double()
    rng = torch.Generator().manual_seed(0)
    white = torch.randn(draws, n, n, dtype=torch.float64, generator=rng)
    F = torch.fft.fft2(white * window(n), norm="ortho").abs().square()
    e = (F * band).sum((-2, -1)) / band.sum()
    assert float(e.mean()) == pytest.approx(1, abs=4 * float(e.std()) / math.sqrt(draws))
    # The variance of a χ² with ν modes, whose own error is √(2/draws), and a little more.
    assert 2 / float(e.var()) == pytest.approx(
        independent_modes(band), rel=5 * math.sqrt(2 / draws)
    )


def test_half_overlapping_patches_are_nearly_independent():
    n = 32
    rng = torch.Generator().manual_seed(1)
    white = torch.randn(400, 7 * n, n, dtype=torch.float64, generator=rng)
    strips = white.unfold(1, n, n // 2)  # along one side only
    e = torch.fft.fft2(strips * window(n).T, norm="ortho").abs().square()[..., 8, 5]
    ratio = float(e[:, 0].var() / e.shape[1] / e.mean(1).var())
    assert ratio == pytest.approx(math.sqrt(independent_patches(n)), abs=0.25)


@pytest.mark.parametrize("flat", [0.1, 0.5, 1.0])
def test_the_law_has_no_bias_of_choice(flat):
    """Flat patches among textured ones: the mean of the quietest is biased, the law is not."""
    Q, P, nu, theta = 24, 400, 60.0, 0.01
    rng = torch.Generator().manual_seed(2)
    torch.manual_seed(2)
    texture = theta * torch.exp(2.5 + 2.0 * torch.randn(Q, P, dtype=torch.float64, generator=rng))
    texture[torch.rand(Q, P, generator=rng) < flat] = 0
    gamma = torch.distributions.Gamma(nu / 2, nu / 2).sample((Q, P)).double()
    e = (theta + texture) * gamma
    law = fit(e, torch.full((Q,), nu), torch.full((P,), 0.5).double())
    off = law.log_theta - math.log(theta)
    assert abs(float(off.mean())) < 4 * float(off.std()) / math.sqrt(Q) + 0.03
    if flat == 1:
        quietest = e.sort(1).values[:, : P // 12].mean()
        assert float(quietest) < 0.8 * theta


@pytest.mark.parametrize(("channels", "side"), [(1, 96), (3, 160), (3, 256)])
def test_noise_alone_is_found(channels, side):
    noise = PhotoNoise(channels)
    phi = CAMERA[: len(noise.names)]
    z = []
    for seed in range(4):
        flat = torch.full((1, channels, side, side), 0.5, dtype=torch.float64)
        quiet = quiet_patches(noisy(noise, phi, flat, seed))
        off = quiet.power.log() - log_true(noise, phi, quiet)
        seen = quiet.k > 0.1
        z.append((off / (2 / quiet.modes + quiet.sd**2 + 0.01).sqrt())[:, seen])
        assert float(off[:, seen].abs().mean()) < 0.15
    assert float(torch.stack(z).square().mean().sqrt()) < 1.6


def textured(side, channels=3):
    """A shaded wall beside a strong texture."""
    rng = torch.Generator().manual_seed(3)
    x = torch.linspace(0.25, 0.75, side, dtype=torch.float64).expand(side, side).clone()
    x[side // 2 :] += (
        0.08 * torch.randn(side - side // 2, side, generator=rng).double().cumsum(1) / 4
    )
    return x.expand(1, channels, -1, -1).clone()


def test_texture_is_left_out():
    noise = PhotoNoise()
    y = noisy(noise, CAMERA, textured(256))
    quiet = quiet_patches(y)
    assert quiet.trusted
    off = quiet.power.log() - log_true(noise, CAMERA, quiet)
    assert float(off[:, quiet.k > 0.15].abs().max()) < 0.3


def test_levels_by_brightness_are_found():
    x = torch.linspace(0.05, 0.95, 256, dtype=torch.float64).expand(1, 3, 256, -1).clone()
    curve = torch.tensor([[0.8, -1.5]], dtype=torch.float64)
    level = LevelMap.by_light(curve, Light.of(brightness(x)))
    drawn = noisy(WhiteNoise(), [0.03], torch.zeros_like(x)) * level.g
    quiet = quiet_patches(x + drawn)
    torch.testing.assert_close(quiet.curve, curve[0], atol=0.25, rtol=0)
    # N is the mean power of the noise over the picture.
    assert float((quiet.power.log() - 2 * math.log(0.03))[:, quiet.k > 0.1].abs().mean()) < 0.12
    slope = (quiet.level[-1] - quiet.level[0]) / (quiet.light[-1] - quiet.light[0])
    assert float(slope) == pytest.approx(2 * 0.8, abs=0.6)
    found = start_of(LevelledNoise(WhiteNoise()), quiet)
    assert found[0, 0].item() == pytest.approx(0.03, rel=0.06)
    # The prior pulls, and quiet places are not trusted to more than 0.25 and 0.8.
    torch.testing.assert_close(found[0, 1:], curve[0], atol=0.5, rtol=0)


def test_saturated_places_are_left_out():
    y = noisy(WhiteNoise(), [0.04], torch.full((1, 3, 256, 256), 0.5, dtype=torch.float64))
    y[..., :160] = 1.0
    y = y.clamp(0, 1)
    assert not unclipped(y)[:, :160].any()
    quiet = quiet_patches(y)
    off = quiet.power.log() - 2 * math.log(0.04)
    assert float(off[:, quiet.k > 0.1].abs().mean()) < 0.15
    hidden = torch.ones(256, 256, dtype=torch.bool)
    hidden[:, :160] = False
    again = quiet_patches(y, hidden)
    torch.testing.assert_close(again.power, quiet.power)
    assert quiet_patches(y, torch.zeros_like(hidden)) is None


@pytest.mark.parametrize(
    ("noise", "phi"),
    [
        (WhiteNoise(), [0.05]),
        (PowerLawNoise(), [0.05, -0.6]),
        (PowerLawNoise(), [0.1, 0.7]),
        (PhotoNoise(), CAMERA),
    ],
    ids=str,
)
def test_a_family_starts_at_the_noise(noise, phi):
    x = textured(192)
    quiet = quiet_patches(noisy(noise, phi, x))
    found = start_of(noise, quiet)
    k = half_plane((192, 192))
    off = noise.log_spectra(k, found) - noise.log_spectra(k, torch.tensor([phi]).double())
    assert float(off[..., k.k > 0.15].abs().mean()) < 0.2
    statistic = quiet.statistic(noise.spectra)
    near = noise.log_likelihood(found, statistic)
    far = noise.log_likelihood(noise.low[None] + 0.9 * (noise.high - noise.low), statistic)
    assert float(near) > float(far)


def test_what_is_raised_is_raised():
    y = noisy(WhiteNoise(), [0.05], torch.full((1, 1, 96, 96), 0.5, dtype=torch.float64))
    quiet = quiet_patches(y)
    plain, more = (start_of(WhiteNoise(), quiet, r) for r in (None, (0.5, 0.0)))
    assert float(2 * (more / plain).log()) == pytest.approx(0.5, abs=0.01)


def test_a_steep_shape_is_not_believed_at_large_scales():
    flat = torch.full((1, 33), -7.0, dtype=torch.float64)
    steep = flat.clone()
    steep[:, 0] = -3.0
    noise = SmoothNoise()
    assert float(log_flat(noise, (256, 256), flat)) == pytest.approx(0)
    assert float(log_flat(noise, (256, 256), steep)) < -10
    assert float(log_flat(PowerLawNoise(), (256, 256), torch.tensor([[0.1, -1.0]]))) == 0


def test_direction_dependence_is_refused():
    quiet = quiet_patches(noisy(WhiteNoise(), [0.05], torch.zeros(1, 1, 64, 64).double()))
    noise = SpectralNoise(lambda kx, ky, sigma: 2 * sigma.log() + kx, {"sigma": (0.01, 1)})
    with pytest.raises(InputError, match="depend on"):
        start_of(noise, quiet)


@pytest.mark.parametrize("name", ["grass", "gravel"])
@pytest.mark.parametrize("levels", [0, 10])
def test_texture_everywhere_has_no_quiet_place(name, levels):
    x = torch.from_numpy(getattr(skimage.data, name)()).double()[None, None] / 255
    rng = torch.Generator().manual_seed(0)
    y = x + levels / 255 * torch.randn(x.shape, generator=rng, dtype=torch.float64)
    quiet = quiet_patches(((y * 255).round() / 255).clamp(0, 1))
    assert not quiet.trusted
    assert "cannot be told apart" in quiet.reason


def test_noise_on_bricks_is_found():
    x = torch.from_numpy(skimage.data.brick()).double()[None, None] / 255
    rng = torch.Generator().manual_seed(0)
    y = x + 10 / 255 * torch.randn(x.shape, generator=rng, dtype=torch.float64)
    quiet = quiet_patches(((y * 255).round() / 255).clamp(0, 1))
    assert quiet.trusted
    sigma = float(start_of(WhiteNoise(), quiet)) * 255
    assert sigma == pytest.approx(10, rel=0.06)


def test_small_pictures_tell_nothing():
    assert quiet_patches(torch.rand(1, 3, 31, 64)) is None


def test_texture_in_all_patches_is_told_by_its_scatter():
    """Texture of all places alike, whose strength changes by e^±0.5: the law takes it for noise,
    but κ knows, and what is left is that much less, or not counted.
    """
    side = 256
    rng = torch.Generator().manual_seed(5)
    slow = torch.randn(1, 3, 8, 8, generator=rng, dtype=torch.float64)
    strength = torch.exp(0.5 * interpolate(slow, (side, side), mode="bicubic"))
    texture = 0.04 * strength * torch.randn(1, 3, side, side, generator=rng, dtype=torch.float64)
    even = noisy(WhiteNoise(), [0.04], torch.full((1, 3, side, side), 0.5, dtype=torch.float64))
    alike, uneven = quiet_patches(even), quiet_patches(0.5 + texture)
    seen = alike.k > 0.1
    assert float(uneven.uneven[:, seen].mean()) > 0.3
    assert float(alike.uneven[:, seen].mean()) < 0.15
    less = (q.power.log() - q.by_scatter().power.log() for q in (alike, uneven))
    assert [float(d[:, seen].mean()) for d in less] == pytest.approx([0.05, 2.0], abs=1.2)
    # Even noise is believed more than a law by scale says, uneven power next to nothing.
    sums = [float(q.by_scatter().counted[:, seen].sum()) for q in (alike, uneven)]
    assert sums[1] < 0.1 * sums[0]
    assert sums[0] > float(alike.counted[:, seen].sum())


def test_a_band_of_luma_is_doubted_where_the_next_smaller_scale_is_uneven():
    """What it tells stays, and counts less; chroma is believed band by band."""
    noise = noisy(WhiteNoise(), [0.04], torch.full((1, 3, 128, 128), 0.5, dtype=torch.float64))
    even = quiet_patches(noise)
    bands = list(dict.fromkeys(even.band.tolist()))
    one = replace(even, uneven=torch.full_like(even.uneven, 0.05))
    kappa = one.uneven.clone()
    kappa[:, one.band == bands[2]] = 0.6
    texture = replace(one, uneven=kappa).by_scatter()
    before = one.by_scatter()
    for band, luma, chroma in zip(bands, (1, 1e-9, 1e-9, 1), (1, 1, 1e-9, 1), strict=False):
        here = one.band == band
        part = texture.counted[:, here].sum(1) / before.counted[:, here].sum(1).clamp(min=1e-9)
        assert part.tolist() == pytest.approx([luma, chroma, chroma], abs=1e-6)
    # The tables are of the same powers but where κ itself is large.
    same = one.band != bands[2]
    assert torch.equal(texture.power[:, same], before.power[:, same])


def test_noise_that_is_only_rolled_off_is_no_cameras():
    """Gone at small scales in luma and chroma, alike in all places, or weaker in half of them."""
    noise = PhotoNoise()
    shape = {"log_sigma": math.log(0.05), "cut": 4.0, "power": 1.6, "floor": -6.0}
    phi = dict.fromkeys(noise.names, 0.0) | shape
    phi |= {"cut_c": 5.0, "power_c": 1.5, "floor_c": -6.0}
    eps = noise.draw((256, 256), list(phi.values()), channels=3, seed=0)
    assert not processed(quiet_patches(0.5 + eps))
    blocks = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(0)) < 0.5
    level = torch.where(blocks, 1.0, 0.6).repeat_interleave(32, 2).repeat_interleave(32, 3)
    assert processed(quiet_patches(0.5 + level * eps))
