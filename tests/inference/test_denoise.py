"""`gibbsdiff.denoise` on photographs with noise that it is not told about."""

import numpy as np
import pytest
import torch
from skimage import data

import gibbsdiff
from gibbsdiff import InputError, SpectralNoise, Streams, conjugate_amplitude, few_step
from gibbsdiff.metrics import psnr

FIRST = {"method": "marginal", "second_stage": False, "samples": 0}
HOW = {
    "first stage": FIRST,
    "both stages": {"method": "marginal", "calls": 6, "samples": 0},
    "polynomial": {**FIRST, "density": "polynomial"},
    "gibbs": {"method": "gibbs", "chains": 4, "draws": 8, "calls": 3, "samples": 0},
}


def photograph(size, channels=3):
    x = torch.from_numpy(data.astronaut()[::2, ::2].copy()).permute(2, 0, 1).float() / 255
    x = x[:, :size, 40 : 40 + size]
    return x if channels == 3 else x.mean(0, keepdim=True)


@pytest.fixture(scope="module")
def noisy(truth):
    def add(x, sigma, phi, seed=0):
        cut = truth.coloured(x.shape[-2:], sigma, phi, seed, len(x), cut=True)
        return x + torch.from_numpy(cut).float()

    return add


@pytest.mark.parametrize("how", HOW)
def test_every_method_finds_the_noise_of_a_photograph(natural, noisy, how):
    """Within 3 of its own standard deviations, those given the network: 0.03 in φ, 1 % in σ."""
    size = 64 if how == "gibbs" else 96
    x = photograph(size)
    p = gibbsdiff.denoise(noisy(x, 0.15, 0.4), model=natural, **HOW[how])
    sigma, phi = p.rows
    assert phi.sd < 0.06
    assert sigma.sd < 0.01 * 0.15 * (96 / size)
    assert abs(phi.mean - 0.4) < 3 * phi.sd
    assert abs(sigma.mean - 0.15) < 3 * sigma.sd
    for row in p.rows:
        assert row.sd < row.total_sd < 3 * row.sd


@pytest.mark.parametrize("channels", [1, 3])
def test_a_photograph_blind_is_as_good_as_told(natural, noisy, channels):
    x = photograph(96, channels)
    y = noisy(x, 0.1, -0.5)
    blind = gibbsdiff.denoise(y, model=natural, **FIRST)
    known = {"sigma": 0.1, "phi": -0.5}
    told = gibbsdiff.denoise(y, known=known, model=natural, method="marginal", samples=0)
    assert told.good
    assert told.calls == 1
    assert float(psnr(blind.mean, x)) > float(psnr(told.mean, x)) - 0.05
    assert float(psnr(blind.mean, x)) > float(psnr(y, x)) + 5
    sigma, phi = blind.rows
    assert abs(sigma.mean - 0.1) < 3 * sigma.sd
    assert abs(phi.mean + 0.5) < 3 * phi.sd
    assert phi.sd < (0.05 if channels == 3 else 0.12)
    # The uncertainty map is right on average.
    error = float((blind.mean - x).square().mean().sqrt())
    assert float(blind.sd.square().mean().sqrt()) == pytest.approx(error, rel=0.25)
    assert blind.calls <= 16


def test_missing_pixels_are_filled_marked_and_not_believed(natural, noisy):
    x = photograph(96)
    y = noisy(x, 0.1, 0.0).numpy()
    y[:, 30:34, 50:56] = np.nan
    p = gibbsdiff.denoise(y, model=natural, **FIRST)
    hole = p.missing
    assert int(hole.sum()) == 24
    assert bool(torch.isfinite(p.mean).all())
    assert float((p.mean - x)[:, hole].abs().mean()) < 0.15
    sigma, phi = p.rows
    assert abs(sigma.mean - 0.1) < 3 * sigma.sd
    assert abs(phi.mean) < 3 * phi.sd
    spoilt = y.copy()
    spoilt[:, 30:34, 50:56] = 5.0  # what is not marked is believed
    believed = gibbsdiff.denoise(spoilt, model=natural, **FIRST)
    plain = gibbsdiff.denoise(spoilt, model=natural, weights=None, **FIRST)
    assert abs(plain.rows[1].mean) > 5 * plain.rows[1].sd
    # Even so: the network is not sure of such a thing, and does not listen there.
    assert abs(believed.rows[1].mean) < 3 * believed.rows[1].sd


def test_a_noise_model_of_ones_own(natural):
    def knee(kx, ky, sigma, at):
        return 2 * sigma.log() + (1 + at**2 / (kx**2 + ky**2)).log()

    noise = SpectralNoise(knee, {"sigma": (0.01, 1), "at": (0.005, 0.5)}, isotropic=True)
    x = photograph(96)
    y = x + noise.draw((96, 96), (0.08, 0.05), Streams.batch(3, 1), 3, torch.float32)[0]
    p = gibbsdiff.denoise(y, noise=noise, model=natural, **FIRST)
    assert p.names == ("sigma", "at")
    assert p.rows[0].mean == pytest.approx(0.08, abs=3 * p.rows[0].sd)
    assert p.rows[1].mean == pytest.approx(0.05, abs=3 * p.rows[1].total_sd)


def test_the_same_seed_gives_the_same_result(natural, noisy):
    y = noisy(photograph(48, 1), 0.1, 0.0)
    options = {"model": natural, "chains": 2, "draws": 4, "calls": 2, "method": "gibbs"}
    options |= {"noise": "white", "phi_step": conjugate_amplitude}
    first, second = (gibbsdiff.denoise(y, seed=5, **options) for _ in range(2))
    assert torch.equal(first.phi, second.phi)
    assert torch.equal(first.samples, second.samples)
    assert not torch.equal(first.phi, gibbsdiff.denoise(y, seed=6, **options).phi)


ZEROS = np.zeros((32, 32))


@pytest.mark.parametrize(
    ("picture", "options", "words"),
    [
        (np.zeros((32, 32, 5)), {}, "need"),
        ([], {}, "need"),
        (np.zeros((8, 8), np.float32), {}, "at least 16"),
        (np.zeros((32, 32), np.int64), {}, "scale int64"),
        (np.zeros((32, 32), bool), {}, "bool is not real"),
        (np.zeros((32, 32), complex), {}, "complex128 is not real"),
        (np.full((32, 32), np.nan), {}, "no pixel is finite"),
        (255 * ZEROS + 128, {}, "128 to 128, but the model knows pictures on about"),
        (ZEROS, {"noise": "brown"}, "power-law"),
        (ZEROS, {"method": "magic"}, "no such method"),
        (ZEROS, {"boundary": "round"}, "no such method or boundary"),
        (ZEROS, {"known": {"gamma": 1.0}}, "gamma"),
        (ZEROS, {"known": {"sigma": 7.0}}, "sigma = 7 is outside"),
        (ZEROS, {"model": "missing"}, "neither a file nor a model"),
        (ZEROS, {"model": 3}, "a callable"),
        (ZEROS, {"device": "abacus"}, "abacus"),
        (ZEROS, {"precision": "half"}, "precision 'half': there are float32, bfloat16, auto"),
        (ZEROS, {"chains": 0}, "chains"),
        (np.zeros((3, 32, 32)), {"model": "dust128"}, "dust128: a model of dust maps, not of"),
        # Options of the other method, and of neither.
        (ZEROS, {"method": "marginal", "starts": "prior"}, "starts is for Gibbs"),
        (ZEROS, {"method": "marginal", "checkpoint": "a"}, "checkpoint is for Gibbs"),
        (ZEROS, {"method": "marginal", "phi_step": conjugate_amplitude}, "phi_step is for Gibbs"),
        (ZEROS, {"method": "gibbs", "second_stage": True}, "second_stage is for the marginal"),
        (ZEROS, {"method": "gibbs", "density": "polynomial"}, "density is for the marginal"),
        ([ZEROS, ZEROS], {"method": "gibbs", "checkpoint": "a"}, "one picture"),
        (ZEROS, {"calls": 3, "sampler": few_step}, "calls: a sampler"),
        (ZEROS, {"method": "marginal", "density": "cubic"}, "density 'cubic': there are laplace"),
        (ZEROS, {"starts": "anywhere"}, "starts 'anywhere': there are marginal, prior, paper"),
    ],
)
def test_bad_input_is_one_clear_line(picture, options, words):
    with pytest.raises(InputError, match=words) as trouble:
        gibbsdiff.denoise(picture, **options)
    assert "\n" not in str(trouble.value)


@pytest.mark.parametrize(
    "idle",
    [
        {"starts": "prior"},
        {"phi_step": conjugate_amplitude},
        {"checkpoint": "a"},
        {"method": "marginal", "second_stage": True},
        {"method": "marginal", "density": "polynomial"},
    ],
    ids=lambda o: list(o)[-1],
)
def test_known_noise_leaves_nothing_for_these(truth, idle):
    known = {"sigma": 0.1, "phi": 0.0}
    with pytest.raises(InputError, match=f"{list(idle)[-1]}: the noise is known"):
        gibbsdiff.denoise(ZEROS, known=known, model=truth.GAUSSIAN, **idle)
