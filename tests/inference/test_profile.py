"""Noise profiles: the same noise on another picture, known or as a prior."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import InputError, LevelledNoise, NoiseProfile, Posterior, WhiteNoise
from gibbsdiff.inference.encoding import Encoding
from gibbsdiff.inference.setting import FAMILIES, Depth
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.level_curves import BY_COUNTS

SHAPE = (24, 20)
PHI = {
    "white": (0.1,),
    "power-law": (0.1, -0.7),
    "banded": tuple(np.linspace(-3, -2, 8)),
    "photo": (-2.2, -0.5, 2.0, 1.7, -4.0, 0.8, -1.2),
    "curves": (*np.linspace(-4, -6, 11), 0.9, 1.1),
    "counts": (0.1, 0.4),
}


def model(family):
    if family == "counts":
        return LevelledNoise(WhiteNoise(), curve=BY_COUNTS)
    return FAMILIES[family](1, Depth())


def found(family, zero=0.0, unit=1.0, dtype="float32", shape=SHAPE, seed=0):
    """A posterior of that noise: draws around PHI, on a picture that is a ramp."""
    phi = torch.tensor(PHI[family]).double()
    names = model(family).names
    draws = phi + 0.01 * torch.randn(4, 50, len(phi), generator=torch.Generator().manual_seed(seed))
    ramp = torch.linspace(0.1, 0.9, shape[0] * shape[1]).reshape(1, *shape).double()
    encoding = Encoding(zero, unit, dtype)
    return Posterior(names, draws, ramp, ramp, encoding=encoding, method="marginal", family=family)


def sd_map(family, phi, light, unit, shape=SHAPE):
    """Of every pixel in the file's units, and N(k)."""
    noise = model(family).lit(light)
    covariance = noise.covariance(shape, torch.as_tensor(phi).reshape(1, -1).double())
    return unit * covariance.pixel_variance()[0, 0].sqrt(), unit**2 * covariance.power


@pytest.mark.parametrize("family", PHI)
def test_the_same_noise_in_other_units_and_at_another_brightness(family):
    """The old picture's counts are 100 + 200 v, the new one's 40 + 500 v: at the same counts the sd
    is the same, whatever the rest of the picture is; the picture is another half of the ramp.
    """
    old = found(family, 100.0, 200.0)
    profile = NoiseProfile.of(old)
    counts = 100 + 200 * old.observed
    part = torch.flip(counts, (-1, -2)).clamp(max=200.0)
    values = (part - 40) / 500
    light = Light.of(brightness(values[None]))
    noise = model(family)
    phi, covariance = profile.carried(noise, Encoding(40.0, 500.0), SHAPE, light)
    before, N = sd_map(family, profile.phi, Light.of(brightness(old.observed[None])), 200.0)
    after, M = sd_map(family, phi, light, 500.0)
    if noise.level_names:  # sd against counts: interpolate the old at those of the new
        flat = [t.flatten().numpy() for t in (brightness(counts[None]), before)]
        order = np.argsort(flat[0])
        expected = np.interp(brightness(part[None]).flatten(), flat[0][order], flat[1][order])
        inside = brightness(part[None]).flatten().numpy() > 125
        np.testing.assert_allclose(after.flatten()[inside], expected[inside], rtol=8e-3)
    else:
        torch.testing.assert_close(after, before, rtol=1e-4, atol=0)
        torch.testing.assert_close(M, N, rtol=1e-4, atol=0)
    # The covariance is that of the draws, carried one by one.
    move = profile._move(Encoding(40.0, 500.0), light)
    draws = old.phi.flatten(0, 1)
    several = torch.cov(noise.carried(draws, move).T).reshape(len(phi), -1)
    sd = several.diagonal().sqrt()
    assert float(((covariance - several) / sd / sd[:, None]).abs().max()) < 0.05


def test_power_laws_are_normalised_over_another_grid():
    profile = NoiseProfile.of(found("power-law"))
    noise = FAMILIES["power-law"](1, Depth())
    phi, _ = profile.carried(noise, Encoding(), (48, 40), None)
    N = noise.power(SHAPE, torch.tensor([profile.phi]).double())[0, 0]
    M = noise.power((48, 40), phi[None])[0, 0]
    torch.testing.assert_close(M[::2, ::2][1:, 1:], N[1:, 1:], rtol=8e-3, atol=0)


def test_integers_of_the_same_depth_are_levels_and_of_another_parts_of_the_range():
    noise = FAMILIES["white"](1, Depth(1e-6))
    deep = NoiseProfile.of(found("white", 0.0, 4095.0, "uint16"))
    for encoding, factor in (
        (Encoding(0.0, 4095.0, "uint16"), 1.0),
        (Encoding(0.0, 16383.0, "uint16"), 4095 / 16383),
        (Encoding(0.0, 255.0, "uint8"), 1.0),
        (Encoding(0.0, 1.0, "float32"), 1.0),
    ):
        phi, _ = deep.carried(noise, encoding, SHAPE, None)
        assert float(phi) == pytest.approx(factor * deep.phi[0])
    with pytest.raises(InputError, match="found on numbers of type uint16"):
        deep.carried(noise, Encoding(3.0, 20.0, "float32"), SHAPE, None)


def test_a_file_holds_all_of_it(tmp_path):
    profile = NoiseProfile.of(found("photo", 3.0, 40.0), camera="X", iso=800.0, file="ä.fits")
    path = tmp_path / "p.json"
    profile.save(path)
    again = NoiseProfile.load(path)
    assert replace(again, source=profile.source) == profile
    assert again.source == str(path)
    assert again.doubt({"camera": "X", "iso": 800.0, "exposure": 1.0}) is None
    assert (
        again.doubt({"iso": 100.0}) == f"{path}: found with iso 800, and this picture has iso 100"
    )


def test_known_noise_is_that_of_the_profile(fast):
    y = 0.3 + 0.1 * np.random.default_rng(0).standard_normal((48, 48))
    first = gibbsdiff.denoise(y, noise="power-law", model=fast, check=False)
    profile = NoiseProfile.of(first)
    p = gibbsdiff.denoise(y, noise_from=profile, model=fast)
    known = dict(zip(first.names, first.phi.mean((0, 1)).tolist(), strict=True))
    q = gibbsdiff.denoise(y, known=known, model=fast)
    assert p.noise_is_known
    torch.testing.assert_close(p.mean, q.mean)


def test_a_prior_adds_its_information(truth):
    """Of a Gaussian signal: precision adds up, and the mean is weighted by it."""
    _, y = truth.observe((32, 32), 0.2, -0.5)
    options = {"noise": "power-law", "model": truth.GAUSSIAN, "boundary": "periodic"}
    plain = gibbsdiff.denoise(y[0], draws=2000, **options)
    mean, cov = plain.phi.flatten(0, 1).mean(0), torch.cov(plain.phi.flatten(0, 1).T)
    at = mean + torch.linalg.cholesky(cov) @ torch.tensor([1.0, 0.7]).double()
    profile = replace(
        NoiseProfile.of(plain), phi=tuple(at.tolist()), covariance=tuple(map(tuple, cov.tolist()))
    )
    p = gibbsdiff.denoise(y[0], noise_prior=profile, draws=2000, **options)
    draws = p.phi.flatten(0, 1)
    # Both are equally wide: the posterior is half-way, and its covariance half.
    sd = cov.diagonal().sqrt()
    assert float(((draws.mean(0) - (mean + at) / 2) / sd).abs().max()) < 0.1
    torch.testing.assert_close(torch.cov(draws.T), cov / 2, rtol=0.12, atol=0.02 * float(cov.max()))


@pytest.mark.parametrize("weights", ["sure", None], ids=str)
def test_a_prior_that_is_sure_decides(fast, weights):
    y = 0.3 + 0.1 * np.random.default_rng(0).standard_normal((48, 48))
    profile = replace(NoiseProfile.of(found("power-law")), phi=(0.13, -0.2))
    profile = replace(profile, covariance=((1e-10, 0.0), (0.0, 1e-10)))
    p = gibbsdiff.denoise(y, noise_prior=profile, model=fast, weights=weights, check=False)
    sigma, phi = p.phi.flatten(0, 1).mean(0).tolist()
    assert sigma == pytest.approx(0.13, rel=0.03)
    assert phi == pytest.approx(-0.2, abs=0.02)
    assert p.ended
    assert float(p.phi[..., 0].std()) < 2e-3


def wrong(**changed):
    return json.dumps({"format": "gibbsdiff-noise-1", **HELD, **changed})


HELD = {
    "family": "white",
    "names": ["sigma"],
    "phi": [0.1],
    "covariance": [[1e-4]],
    "shape": [32, 32],
    "brightness": [0.5],
}
BAD = {
    "nothing there": (None, "no such file"),
    "words": ("words", "not a noise profile"),
    "a list": ("[1, 2]", "not a noise profile"),
    "another format": (json.dumps({"format": "other"}), "not a noise profile"),
    "no parameters": (wrong(names=[]), "numbers are missing"),
    "not a number": (wrong(phi=[float("nan")]), "not finite"),
    "text": (wrong(phi=["much"]), "not a noise profile"),
    "covariance": (wrong(covariance=[[1, 2]]), "of no picture"),
    "no unit": (wrong(unit=0), "not finite"),
    "no family": (wrong(family="purple"), "of 'purple' noise, which is not known here"),
    "other parameters": (wrong(names=["tau"]), "this grey picture's has 1"),
    "too strong": (wrong(phi=[7.0]), "sigma would be 7 on this picture, outside"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_profile_is_refused(tmp_path, fast, name):
    text, words = BAD[name]
    path = tmp_path / "p.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=words) as trouble:
        gibbsdiff.denoise(np.zeros((32, 32)), noise_from=path, model=fast)
    assert str(trouble.value).startswith(f"{path}: ")


def test_what_cannot_be_is_said():
    y, profile = np.zeros((32, 32)), NoiseProfile.of(found("white"))
    with pytest.raises(InputError, match="a profile of 'white' noise, not of photo"):
        gibbsdiff.denoise(y, noise="photo", noise_prior=profile)
    with pytest.raises(InputError, match="Give one of them"):
        gibbsdiff.denoise(y, noise_from=profile, noise_prior=profile)
    with pytest.raises(InputError, match="tells all parameters, sigma as well"):
        gibbsdiff.denoise(y, noise_from=profile, known={"sigma": 0.1})
    with pytest.raises(InputError, match="none of your own noise"):
        NoiseProfile.of(replace(found("white"), family=""))
    with pytest.raises(InputError, match="no noise was found"):
        NoiseProfile.of(replace(found("white"), method="known noise"))
