"""`gibbsdiff.denoise`: photographs with noise that it is not told about."""

import math

import numpy as np
import pytest
import torch
from skimage import data

import gibbsdiff
from gibbsdiff import GaussianDenoiser, InputError, PowerLawNoise, SpectralNoise, Streams
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.inference.windows import places
from gibbsdiff.metrics import psnr

GAUSSIAN = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))


def photograph(size, channels=3):
    x = torch.from_numpy(data.astronaut()[::2, ::2].copy()).permute(2, 0, 1).float() / 255
    x = x[:, :size, 40 : 40 + size]
    return x if channels == 3 else x.mean(0, keepdim=True)


def cut_noise(phi, size, channels, seed=0):
    field = PowerLawNoise().draw(
        (2 * size, 2 * size), phi, Streams.batch(seed, 1), channels, torch.float32
    )
    return field[0, :, :size, :size]


@pytest.fixture(scope="module")
def natural():
    return gibbsdiff.load_model("natural")


@pytest.mark.parametrize("channels", [1, 3])
def test_a_photograph_blind_is_as_good_as_told(natural, channels):
    x = photograph(96, channels)
    y = x + cut_noise((0.1, -0.5), 96, channels)
    options = {"model": natural, "method": "marginal", "samples": 0}
    blind = gibbsdiff.denoise(y, second_stage=False, **options)
    told = gibbsdiff.denoise(y, known={"sigma": 0.1, "phi": -0.5}, **options)
    assert told.converged
    assert float(psnr(blind.mean, x)) > float(psnr(told.mean, x)) - 0.15
    assert float(psnr(blind.mean, x)) > float(psnr(y, x)) + 5
    sigma, phi = blind.rows
    assert abs(sigma.mean - 0.1) < 3 * sigma.sd + 0.01
    assert abs(phi.mean + 0.5) < 3 * phi.sd + 0.05
    assert all(raw <= row.sd * 1.2 for raw, row in zip(blind.raw_sd, blind.rows, strict=True))
    # The uncertainty map is right on average.
    error = float((blind.mean - x).square().mean().sqrt())
    assert float(blind.sd.square().mean().sqrt()) == pytest.approx(error, rel=0.4)
    assert blind.calls <= 16


def test_missing_pixels_are_filled_marked_and_not_believed(natural):
    x = photograph(96)
    y = (x + cut_noise((0.1, 0.0), 96, 3)).numpy()
    y[:, 30:34, 50:56] = np.nan
    p = gibbsdiff.denoise(y, model=natural, method="marginal", second_stage=False, samples=0)
    hole = p.missing
    assert int(hole.sum()) == 24
    assert bool(torch.isfinite(p.mean).all())
    assert float((p.mean - x)[:, hole].abs().mean()) < 0.15
    assert p.rows[0].mean == pytest.approx(0.1, rel=0.1)


def test_periodic_gaussian_maps_agree_with_the_exact_posterior():
    """Marginal and Gibbs through the front door, on the closed form."""
    noise = PowerLawNoise()
    x = GAUSSIAN.prior((48, 64), Streams.batch(0, 1))
    y = (x + noise.draw((48, 64), (0.3, 0.4), Streams.batch(1, 1)))[0, 0]
    options = {"model": GAUSSIAN, "boundary": "periodic", "samples": 0, "calls": 1}
    marginal = gibbsdiff.denoise(y, method="marginal", second_stage=False, **options)
    gibbs = gibbsdiff.denoise(y, method="gibbs", draws=100, **options)
    for one, other in zip(marginal.rows, gibbs.rows, strict=True):
        assert abs(one.mean - other.mean) < 4 * other.sd / math.sqrt(other.ess_bulk) + 0.15 * one.sd
        assert one.sd == pytest.approx(other.sd, rel=0.4)
    assert gibbs.method == "gibbs"
    assert torch.allclose(marginal.mean, gibbs.mean, atol=0.1)


def test_large_pictures_take_the_noise_from_windows(natural):
    """One N(k): σ is that of the whole picture, whose grid is not the windows'."""
    x = photograph(216)
    big = torch.cat([torch.cat([x, x.flip(-1), x], -1)] * 3, -2)[:, :528, :544]
    noise = PowerLawNoise()
    y = big + noise.draw((528, 544), (0.15, -1.0), Streams.batch(2, 1), 3, torch.float32)[0]
    p = gibbsdiff.denoise(y, model=natural, method="auto", samples=0)
    assert p.method == "marginal, windows"
    sigma, phi = p.rows
    assert sigma.mean == pytest.approx(0.15, abs=3 * sigma.sd + 0.01)
    assert phi.mean == pytest.approx(-1.0, abs=3 * phi.sd + 0.05)
    assert float(psnr(p.mean, big)) > float(psnr(y, big)) + 5


def test_windows_do_not_overlap_and_stay_inside():
    for shape in ((600, 700), (2000, 300), (4000, 6000)):
        corners = places(shape)
        assert len(corners) <= 16
        for i, (top, left) in enumerate(corners):
            assert 0 <= top <= shape[0] - 256
            assert 0 <= left <= shape[1] - 256
            for other_top, other_left in corners[:i]:
                assert max(abs(top - other_top), abs(left - other_left)) >= 256


def test_a_noise_model_of_ones_own(natural):
    def knee(kx, ky, sigma, at):
        return 2 * sigma.log() + (1 + at**2 / (kx**2 + ky**2)).log()

    noise = SpectralNoise(knee, {"sigma": (0.01, 1), "at": (0.005, 0.5)}, isotropic=True)
    x = photograph(96)
    y = x + noise.draw((96, 96), (0.08, 0.05), Streams.batch(3, 1), 3, torch.float32)[0]
    p = gibbsdiff.denoise(
        y, noise=noise, model=natural, method="marginal", second_stage=False, samples=0
    )
    assert p.names == ("sigma", "at")
    assert p.rows[0].mean == pytest.approx(0.08, rel=0.15)


def test_the_same_seed_gives_the_same_result(natural):
    y = photograph(48, 1) + cut_noise((0.1, 0.0), 48, 1)
    options = {"model": natural, "chains": 2, "draws": 4, "calls": 2, "method": "gibbs"}
    first, second = (gibbsdiff.denoise(y, seed=5, **options) for _ in range(2))
    assert torch.equal(first.phi, second.phi)
    assert torch.equal(first.samples, second.samples)


@pytest.mark.parametrize(
    ("picture", "options", "words"),
    [
        (np.zeros((32, 32, 5)), {}, "need"),
        (np.zeros((8, 8), np.float32), {}, "at least 16"),
        (np.zeros((32, 32), np.uint8), {}, "scale"),
        (np.full((32, 32), np.nan), {}, "no pixel is finite"),
        (np.zeros((32, 32)), {"noise": "brown"}, "power-law"),
        (np.zeros((32, 32)), {"method": "magic"}, "no such method"),
        (np.zeros((32, 32)), {"known": {"gamma": 1.0}}, "gamma"),
        (np.zeros((32, 32)), {"known": {"sigma": 7.0}}, "sigma = 7 is outside"),
        (np.zeros((32, 32)), {"model": "missing"}, "neither a file nor a model"),
    ],
)
def test_bad_input_is_one_clear_line(picture, options, words):
    with pytest.raises(InputError, match=words):
        gibbsdiff.denoise(picture, **options)
