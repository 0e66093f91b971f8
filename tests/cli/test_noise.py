"""`gibbsdiff noise`, and noise profiles by options of `gibbsdiff denoise`."""

import json

import numpy as np
import pytest
from PIL import Image
from skimage import data

import gibbsdiff
from gibbsdiff import NoiseProfile

QUICK = ("--no-figure", "--no-posterior", "--no-check", "--model", "natural-fast")


def save(path, seed=0, camera="A", colour=True):
    clean = data.astronaut()[:48, 150:198]
    noise = 25.5 * np.random.default_rng(seed).normal(size=clean.shape)
    pixels = np.clip(clean + noise, 0, 255).astype(np.uint8)
    exif = Image.Exif()
    exif[272] = camera
    Image.fromarray(pixels if colour else pixels[..., 0]).save(path, exif=exif)


def test_the_noise_of_pictures_is_printed_kept_and_drawn(command, tmp_path):
    for i, name in enumerate(("a.png", "b.png")):
        save(tmp_path / name, i)
    out = tmp_path / "out"
    result = command("noise", tmp_path, "-o", out, "--noise", "power-law", *QUICK[2:])
    assert result.code == 0, result.stderr
    written = [f"{n}.{end}" for n in "ab" for end in ("noise-spectrum.png", "noise.json")]
    assert sorted(p.name for p in out.iterdir()) == written
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png", "out"]
    profile = NoiseProfile.load(out / "a.noise.json")
    p = gibbsdiff.denoise(tmp_path / "a.png", noise="power-law", model="natural-fast", check=False)
    assert profile.phi == pytest.approx(p.phi.flatten(0, 1).mean(0).tolist())
    assert profile.found_on == {"file": "a.png", "camera": "A"}
    assert f"sigma = {255 * p.rows[0].mean:.4g}" in result.stdout
    # What is there already, and a picture that is none.
    (tmp_path / "c.png").write_bytes(b"no picture")
    again = command("noise", tmp_path, "-o", out, "--no-clobber", *QUICK[2:])
    assert again.code == 2
    assert "a.png: skipped" in again.stderr
    assert "c.png: not a PNG picture" in again.stderr


def test_a_profile_is_saved_and_used(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.png")
    save("b.png", 1, camera="B")
    result = command("denoise", "a.png", "--noise", "white", "--save-noise", "p.json", *QUICK)
    assert result.code == 0, result.stderr
    assert "p.json" in result.stdout
    held = json.loads((tmp_path / "p.json").read_text())
    assert held["found_on"] == {"file": "a.png", "camera": "A"}
    told = command("denoise", "b.png", "--noise-from", "p.json", *QUICK)
    assert told.code == 0, told.stderr
    assert "the noise was given" in told.stdout
    assert f"sigma    {held['phi'][0]:.5f}" in told.stdout
    assert "p.json: found with camera A, and this picture has camera B" in told.stdout
    prior = command("denoise", "b.png", "--noise-prior", "p.json", *QUICK)
    assert prior.code == 0, prior.stderr
    assert "the search ended" in prior.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--noise-from", "q.json"], "q.json: no such file"),
        (["--noise-from", "p.json", "--noise", "photo"], "p.json: a profile of 'white' noise, not"),
        (["--noise-from", "p.json", "--noise-prior", "p.json"], "Give one of them"),
        (["--noise-from", "p.json", "--sigma", 0.1], "p.json: tells all parameters, sigma as well"),
        (["--noise-from", "p.json", "--draws", 9], "--draws: the noise is given"),
        (["--noise-from", "p.json", "--save-noise", "q.json"], "--save-noise: the noise is given"),
        (["b.png", "--save-noise", "q.json"], "--save-noise: a file is for the noise of one"),
    ],
    ids=str,
)
def test_profiles_that_cannot_be_used_are_refused(command, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    save("a.png")
    save("b.png")
    held = {"family": "white", "names": ["sigma"], "phi": [0.1], "covariance": [[1e-4]]}
    held |= {"format": "gibbsdiff-noise-1", "shape": [48, 48], "brightness": [0.5]}
    (tmp_path / "p.json").write_text(json.dumps(held))
    assert words in command("denoise", "a.png", *options, *QUICK).refusal()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "b.png", "p.json"]


def test_a_profile_of_colour_is_not_for_grey(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("a.png")
    save("b.png", colour=False)
    kind = ("--noise", "photo", "--model", "natural")
    assert command("noise", "a.png", "--no-figure", "--no-check", *kind).code == 0
    line = command("denoise", "b.png", "--noise-from", "a.noise.json").refusal()
    assert "b.png: a.noise.json: 'photo' noise of 13 parameters, but this grey" in line
