"""The HTML report: both pictures to the level, words of the posterior, nothing from outside."""

import base64
import hashlib
import io
import json
import re

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms
from skimage import data

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.picture import read_picture
from gibbsdiff.streams import Streams
from gibbsdiff.web.report import html

SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def make(shape=(3, 24, 40), **fields):
    """White noise of σ = 0.05 around levels of 8 bits."""
    x = torch.linspace(0.2, 0.8, shape[-1], dtype=torch.float64).expand(shape)
    x = (x * 255).round() / 255
    eps = 0.05 * Streams.batch(1, 1).normal(*shape)[0]
    power = torch.full((1, shape[-2], shape[-1] // 2 + 1), 0.0025, dtype=torch.float64)
    phi = 0.05 + 1e-3 * Streams.batch(0, 4).normal(50, 1)
    held = {"noise_power": power, "method": "marginal", "unit": 200.0} | fields
    return Posterior(("sigma",), phi, x + eps, x, 0.01 + 0 * x, **held)


def facts_of(text):
    return json.loads(re.search(r'id="facts">(.*?)</script>', text, re.S)[1])


def pixels(facts, name):
    kind, content = facts["inside"][name].split(";base64,")
    assert kind == "data:image/png"
    return Image.open(io.BytesIO(base64.b64decode(content)))


@pytest.mark.parametrize("shape", [(3, 24, 40), (1, 24, 40)])
def test_both_sides_have_one_stretch(shape):
    posterior = make(shape)
    facts = facts_of(html(posterior, title="a"))
    expected = (posterior.mean * 255).round().byte().permute(1, 2, 0).numpy().squeeze()
    assert np.array_equal(np.asarray(pixels(facts, "denoised.png")), expected)
    noisy = (posterior.observed * 255).round().clamp(0, 255).byte().permute(1, 2, 0).numpy()
    assert np.array_equal(np.asarray(pixels(facts, "noisy.png")), noisy.squeeze())
    assert facts["size"] == [40, 24]
    assert facts["words"] == ["noise: 10 a pixel, white"]
    assert facts["overlay"]["high"] == "2"


def test_a_share_of_the_noise_stays_in_the_picture_that_is_shown():
    posterior = make(keep=(0.5, 0.5))
    shown = np.asarray(pixels(facts_of(html(posterior)), "denoised.png"))
    half = (posterior.mean + posterior.observed) / 2
    assert np.array_equal(shown, (half * 255).round().clamp(0, 255).byte().permute(1, 2, 0).numpy())


def test_the_profile_of_the_input_is_in_both_sides():
    for shape in ((3, 24, 40), (1, 24, 40)):  # a colour file of equal channels has one
        facts = facts_of(html(make(shape), profile=SRGB))
        for side in ("noisy.png", "denoised.png"):
            assert pixels(facts, side).info["icc_profile"] == SRGB
            assert pixels(facts, side).mode == "RGB"


@pytest.mark.parametrize(
    ("kind", "options"), [("PNG", {}), ("JPEG", {}), ("WEBP", {}), ("TIFF", {})]
)
def test_a_picture_knows_its_profile(tmp_path, kind, options):
    path = tmp_path / f"a.{kind.lower()}"
    picture = Image.fromarray(data.chelsea()[:32, :32])
    picture.save(path, format=kind, icc_profile=SRGB)
    assert read_picture(path).profile == SRGB
    picture.save(path, format=kind)
    assert read_picture(path).profile is None


def test_large_pictures_are_shown_as_means_over_blocks():
    facts = facts_of(html(make((1, 40, 4100))))
    assert facts["block"] == 3
    assert pixels(facts, "noisy.png").size == (1367, 14)
    assert facts["size"] == [4100, 40]


def test_nothing_from_outside_and_nothing_of_the_title_runs(tmp_path):
    trap = '</script><img src=x onerror=alert(1)>"&'
    text = html(make(), tmp_path / "a.html", title=trap)
    assert (tmp_path / "a.html").read_text() == text
    assert trap not in text
    assert facts_of(text)["title"] == trap
    assert not re.search(r"https?://(?!www\.w3\.org)", text)
    policy = re.search(r'Security-Policy" content="([^"]*)"', text)[1]
    assert "default-src 'none'" in policy
    for tag in ("style", r"script(?! type)"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</", text, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_command_writes_one_beside_the_others(command, tmp_path):
    Image.fromarray(data.chelsea()[:48, :64]).save(tmp_path / "a.png")
    options = ("--sigma", 0.1, "--phi", 0, "--model", "natural-fast", "--no-figure", "--html")
    result = command("denoise", tmp_path / "a.png", *options)
    assert result.code == 0, result
    assert f"  {tmp_path / 'a.report.html'}" in result.stdout
    facts = facts_of((tmp_path / "a.report.html").read_text())
    denoised = np.asarray(Image.open(tmp_path / "a.denoised.png"))
    assert np.array_equal(np.asarray(pixels(facts, "denoised.png")), denoised)
    assert np.array_equal(np.asarray(pixels(facts, "noisy.png")), data.chelsea()[:48, :64])
    assert facts["summary"].splitlines()[0] in result.stdout
    # It is a result, not a picture to denoise.
    again = command("denoise", tmp_path, *options[:-1], "--no-clobber")
    assert "a.report.html" in again.stderr
