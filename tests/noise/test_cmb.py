"""The CMB family: its emulator against CAMB, its units, and what HMC makes of it."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane, power, radial_bins
from gibbsdiff.mcmc import run, warm_up
from gibbsdiff.noise import CMBNoise
from gibbsdiff.noise.emulator import load_emulator
from gibbsdiff.streams import Streams

FIDUCIAL = (67.4, 0.0224)
PIXEL = 8 * math.pi / (180 * 60)


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["lensed", "unlensed"])
def test_emulator_equals_camb_where_it_was_not_fitted(kind):
    """CAMB itself is good to about 0.1 %."""
    with np.load(Path(__file__).with_name("camb_spectra.npz")) as camb:
        theta, ell = torch.from_numpy(camb["params"]), torch.from_numpy(camb["ell"]).double()
        C = torch.from_numpy(camb[kind].astype(np.float64))
    error = torch.exp(load_emulator(None, kind == "lensed").log_spectrum(theta, ell)) / C - 1
    assert error.shape == (5, len(ell))
    assert float(error.abs().max()) < 2e-3
    assert (
        float(error.square().mean().sqrt()) < 4e-4
    )  # mostly corners of the box, where it is worst


def test_power_is_the_spectrum_over_the_fiducial_variance():
    """N = σ² C_ℓ/(Δ² V_fid) at ℓ = 2π|k|/Δ, by hand, on a grid that is not square."""
    noise, shape = CMBNoise(), (64, 96)
    k = half_plane(shape)
    n = torch.hypot(torch.round(k.kx * 96) / 96, torch.round(k.ky * 64) / 64)
    ell = 2 * math.pi * torch.where(n > 0, n, 1 / 96) / PIXEL
    C = torch.exp(noise.emulator.log_spectrum(tensor([FIDUCIAL, (80.0, 0.05)]), ell))
    V = (k.weight * C[0] / PIXEL**2).sum() / (64 * 96)
    assert noise.fiducial_variance(shape) == pytest.approx(float(V), rel=1e-12)
    N = torch.exp(noise.log_power(k, tensor([[0.3, 80.0, 0.05]])))
    assert torch.allclose(N[0], 0.09 * C[1] / (PIXEL**2 * V), rtol=1e-12)


def test_the_cmb_has_about_a_hundred_microkelvin():
    """The sky: ΔT ≈ 110 µK rms, and D_ℓ = ℓ(ℓ+1)C_ℓ/2π peaks near ℓ = 220 at 5700 µK²."""
    assert math.sqrt(CMBNoise().fiducial_variance((256, 256))) == pytest.approx(105, abs=10)
    ell = torch.arange(2, 2001, dtype=torch.float64)
    C = torch.exp(load_emulator().log_spectrum(tensor(FIDUCIAL), ell))
    D = ell * (ell + 1) * C / (2 * math.pi)
    assert 215 <= float(ell[D.argmax()]) <= 225
    assert float(D.max()) == pytest.approx(5730, rel=0.02)


def test_fiducial_maps_have_the_standard_deviation_sigma():
    level = CMBNoise().covariance((256, 256), tensor([[0.5, *FIDUCIAL]])).level
    assert float(level) == pytest.approx(0.5, rel=1e-12)
    other = CMBNoise().covariance((256, 256), tensor([[0.5, 50.0, 0.01]])).level
    assert abs(float(other) / 0.5 - 1) > 0.05  # V_fid is fixed: the level tells the cosmology


def test_beam_and_white_noise():
    """b_ℓ falls to one half at an angle of half the FWHM, so b_ℓ = exp(-ℓ(ℓ+1) s²/2)."""
    phi = tensor([[0.4, 70.0, 0.03]])
    k = radial_bins((128, 128)).k
    sky, seen = CMBNoise(), CMBNoise(beam=20.0, white=0.07)
    ell = sky.multipole(k)
    s = 20 / 60 * math.pi / 180 / 2.3548200450309493
    expected = torch.exp(sky.log_power(k, phi) - ell * (ell + 1) * s**2) + 0.07**2
    assert torch.allclose(torch.exp(seen.log_power(k, phi)), expected, rtol=1e-12)


def test_sigma_is_the_amplitude_unless_there_is_white_noise():
    phi = tensor([[0.4, 70.0, 0.03]])
    assert CMBNoise().shape_parameters(phi).tolist() == [[70.0, 0.03]]
    assert CMBNoise(white=0.1).shape_parameters(phi).tolist() == phi.tolist()
    statistic = CMBNoise(white=0.1).statistic(torch.randn(1, 1, 16, 16))
    with pytest.raises(InputError, match="no exact draw of its amplitude"):
        CMBNoise(white=0.1).redraw_amplitude(phi, statistic, Streams.batch(0, 1))


def test_draws_have_the_spectrum_of_their_cosmology():
    """40 maps of 256²: the power in bands of ℓ is C_ℓ within sampling error (χ² of each band)."""
    noise, phi, n = CMBNoise(), tensor([[0.5, 80.0, 0.04]]), 40
    maps = noise.draw((256, 256), phi, Streams.batch(3, n))
    k = half_plane((256, 256))
    ratio = (power(maps) / noise.power((256, 256), phi)).mean((0, 1)).flatten()
    band = torch.bucketize(noise.multipole(k), torch.arange(100, 1900, 100).double())
    modes = torch.zeros(19).double().index_add(0, band, k.weight)
    mean = torch.zeros(19).double().index_add(0, band, k.weight * ratio) / modes
    z = (mean - 1) / torch.sqrt(2 / (n * modes))
    assert float(z.abs().max()) < 3.5


def test_a_chain_does_not_know_its_batch():
    """Bit by bit, gradients included."""
    noise, k = CMBNoise(), radial_bins((32, 32)).k
    phi = noise.draw_prior(Streams.batch(4, 7)).requires_grad_()
    every = noise.log_power(k, phi)
    (slopes,) = torch.autograd.grad(every.square().sum(), phi)
    for i in range(7):
        one = phi[i : i + 1].detach().requires_grad_()
        alone = noise.log_power(k, one)
        (slope,) = torch.autograd.grad(alone.square().sum(), one)
        assert torch.equal(alone[0], every[i])
        assert torch.equal(slope[0], slopes[i])


def test_the_gradient_is_finite_on_every_wall():
    noise, k = CMBNoise(), radial_bins((16, 16)).k
    box = torch.stack([noise.low, noise.high])
    corners = torch.cartesian_prod(*box.T).requires_grad_()
    (slope,) = torch.autograd.grad(noise.log_power(k, corners).sum(), corners)
    assert bool(slope.isfinite().all())


def test_it_survives_pickling():
    noise, k = CMBNoise(beam=5.0), radial_bins((16, 16)).k
    phi = tensor([[0.4, 70.0, 0.03]])
    before = noise.log_power(k, phi)
    assert torch.equal(pickle.loads(pickle.dumps(noise)).log_power(k, phi), before)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: CMBNoise().check((0.5, 95.0, 0.03)),
            r"H0 = 95 is outside its prior range \[50, 90\]",
        ),
        (lambda: CMBNoise().check((0.5, 70.0, 0.001)), "omega_b = 0.001 is outside"),
        (lambda: CMBNoise().check((2.0, 70.0, 0.03)), "sigma = 2 is outside"),
        (lambda: CMBNoise(pixel=4), "modes up to multipole 3818, the emulator up to 2000"),
        (lambda: CMBNoise(pixel=0), "pixel = 0 is not a size"),
        (lambda: CMBNoise(beam=-1), "beam = -1 is not a size"),
        (lambda: CMBNoise(white=math.nan), "white = nan is not a size"),
        (lambda: CMBNoise(emulator="nowhere.npz"), "nowhere.npz: no such file"),
        (lambda: CMBNoise(emulator=__file__), "test_cmb.py: not an emulator"),
    ],
)
def test_bad_settings_are_one_clear_line(make, words):
    with pytest.raises(InputError, match=words) as trouble:
        make()
    assert "\n" not in str(trouble.value)


@pytest.mark.slow
def test_simulation_based_calibration_of_hmc():
    """300 noise maps of 48², φ from the prior: ranks of the truth among 99 draws are uniform."""
    noise, n = CMBNoise(), 300
    truth = noise.draw_prior(Streams.batch(20, n))
    posterior = noise.log_posterior(
        noise.statistic(noise.draw((48, 48), truth, Streams.batch(21, n)))
    )
    rng = Streams.batch(22, n)
    position, tuning = warm_up(posterior, noise.draw_prior(rng), noise.low, noise.high, rng)
    draws, _ = run(posterior, position, tuning, rng, transitions=99 * 5, keep=99)
    ranks = (draws < truth).sum(0).numpy()
    for rank in ranks.T:
        counts = np.histogram(rank, 10, (0, 100))[0]
        assert stats.chisquare(counts).pvalue > 0.01 / 3
