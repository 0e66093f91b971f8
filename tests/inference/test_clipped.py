"""Places where noise was cut off, and pictures that were drawn at the ends of the range."""

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.inference.clipped import ENOUGH, hidden_places, made_so, without_noise


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def normal(t):
    density = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return density, float(torch.special.ndtr(torch.tensor(-t).double()))


@pytest.mark.parametrize("t", [0.5, 1.0, 2.0])
def test_leaving_out_pixels_loses_more_noise_than_leaving_them(t):
    """The two losses of the module's docstring, against draws."""
    density, below = normal(t)
    mean = density - t * below
    stays = below * (1 - t * t) + t * density + mean**2
    ratio = density / (1 - below)
    left_out = t * ratio + ratio**2
    eps = noise(400_000)
    assert float(eps.clamp(min=-t).var()) == pytest.approx(1 - stays, abs=0.008)
    assert float(eps[eps > -t].var()) == pytest.approx(1 - left_out, abs=0.008)
    assert left_out > stays


def test_dark_places_are_hidden_and_others_are_whole():
    x = torch.full((1, 3, 64, 64), 0.5).double()
    x[..., :10] = 0.0  # half of its noise is cut off
    x[..., 40:] = 0.16  # two sd above 0: a few pixels are at 0
    y = (x + 0.08 * noise(1, 3, 64, 64)).clamp(0, 1)
    hidden = hidden_places(y)
    assert bool((y[0, :, :, 40:] == 0).any())
    assert bool(hidden[:, :8].all())
    assert not bool(hidden[:, 16:].any())
    missing = torch.zeros(64, 64, dtype=torch.bool)
    missing[5, 60] = True
    assert torch.equal(hidden_places(y, missing), hidden | missing)
    assert hidden_places((0.5 + 0.05 * noise(1, 3, 64, 64)).clamp(0, 1)) is None


@pytest.mark.parametrize("subsampling", ["4:2:0", "4:4:4"])
def test_a_jpeg_hides_the_same_dark_places(subsampling):
    """Its chroma is smooth, and hardly a pixel is at 0: it is mean and sd that tell."""
    x = torch.full((1, 3, 96, 96), 0.5).double()
    x[..., :16] = 0.0
    y = (x + 0.08 * noise(1, 3, 96, 96)).clamp(0, 1)
    pixels = (255 * y[0]).round().to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=95, subsampling=subsampling)
    decoded = torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)[None] / 255
    at_zero = [float((part[..., :12] <= 0).double().mean()) for part in (y, decoded)]
    assert at_zero[0] > 0.45
    assert at_zero[1] < 0.35
    hidden = hidden_places(decoded)
    assert float(hidden[:, :12].double().mean()) > 0.95
    assert not bool(hidden[:, 26:].any())


def test_a_picture_is_not_hidden_altogether():
    y = (0.08 * noise(1, 3, 64, 64)).clamp(0, 1)
    y[..., : int(64 * ENOUGH) - 6] += 0.5
    assert hidden_places(y) is None


def test_a_drawing_on_white_paper_was_made_so():
    letters = (noise(1, 1, 64, 64) > 1.5).double()
    text = (1 - letters).expand(1, 3, 64, 64)
    assert made_so(text)
    assert hidden_places(text) is None
    flat = torch.ones(1, 3, 64, 64).double()
    flat[..., 30:] = torch.tensor([0.8, 0.3, 0.2]).double().view(1, 3, 1, 1)
    assert made_so(flat)
    photo = flat + 0.02 * noise(1, 3, 64, 64)
    photo[..., :30] = 1.0  # overexposed, and noise elsewhere
    assert not made_so(photo.clamp(0, 1))
    assert not made_so((1 + 0.1 * noise(1, 3, 64, 64)).clamp(0, 1))


def test_noise_of_a_level_makes_neighbours_differ():
    ramp = torch.linspace(40, 200, 64).double().expand(1, 3, 64, 64)
    assert without_noise((torch.linspace(40, 60, 64).double().expand(1, 3, 64, 64)).round() / 255)
    for channels in (1, 3):
        noisy = ramp[:, :channels] + 0.75 * noise(1, channels, 64, 64)
        assert not without_noise(noisy.round() / 255)
        even = 100 + 0.75 * noise(1, channels, 64, 64)
        assert not without_noise(even.round() / 255)
    text = (noise(1, 1, 64, 64) < 1.5).double().expand(1, 3, 64, 64)
    assert without_noise(text)
    overexposed = (even.round() / 255).expand(1, 3, 64, 64).clone()
    overexposed[..., :20] = 1.0
    assert not without_noise(overexposed)
