"""What a denoiser leaves of the noise: the gain and the scatter have closed forms."""

import dataclasses

import pytest
import torch

from gibbsdiff.diffusion.calibration import Calibration, between, overlap
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.fourier import between_references, half_plane
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.training.evaluation import observed
from gibbsdiff.training.noise_error import (
    Heard,
    fit_calibration,
    fit_gain,
    needed,
    needed_by_each,
    noise_error,
)

SHAPE = (48, 48)
CELLS = ((0.05, 0.2), (-1.0, 0.0, 1.0))


def spectra(sigma, phi):
    N = PowerLawNoise().covariance(SHAPE, torch.tensor([[sigma, phi]]).double()).power
    return NATURAL.power(SHAPE), N


@pytest.fixture(scope="module")
def shy(silent):
    """The Wiener filter of a signal that is believed to have 0.8 of its power."""
    weak = tuple(0.8 * a for a in NATURAL.amplitude)
    return silent(dataclasses.replace(NATURAL, amplitude=weak))


@pytest.fixture(scope="module")
def gain(shy, gaussian_images):
    return fit_gain(shy, gaussian_images, *CELLS)


def test_the_gain_makes_a_wrong_filter_the_right_one(shy, gain):
    """D = s' y with s' too small: b = (s - s')/(1 - s')."""
    weight = half_plane(SHAPE).weight.reshape(SHAPE[0], -1)
    for phi in (-0.5, 0.5):
        S, N = spectra(0.1, phi)
        s, believed = S / (S + N), 0.8 * S / (0.8 * S + N)
        exact = (s - believed) / (1 - believed)
        found = between(gain, N, 0.8 * S, SHAPE)
        # Where noise and signal compete; far below the noise both s are 0, and r is all of y.
        compete = weight * ((s > 0.1) & (s < 0.9))
        off = ((found - exact).abs() * compete).sum() / compete.sum()
        size = (exact * compete).sum() / compete.sum()
        assert 0.05 < float(size) < 0.2
        # A gain is believed to be small until it is measured, and stays smaller than it is.
        assert float(off) < 0.4 * float(size)


def test_the_gain_lowers_the_error_and_mends_the_noise(shy, gain, gaussian_images):
    blank = Calibration(torch.zeros(3, 8, 10).double(), torch.zeros(24, 24).double(), gain)
    mended = SpectralDenoiser(shy.network, shy.signal, blank)
    y, noise = observed(gaussian_images, 0.1, 0.0, 7, 0)
    before, after = (d(y, noise).mean for d in (shy, mended))
    eps = (y - gaussian_images).flatten(1)
    shared = [
        float(((gaussian_images - D).flatten(1) * (y - D).flatten(1)).sum() / eps.square().sum())
        for D in (before, after)
    ]
    assert shared[0] > 0.01
    assert abs(shared[1]) < 0.2 * shared[0]
    errors = [float((D - gaussian_images).square().mean()) for D in (before, after)]
    assert errors[1] < errors[0]


def test_a_denoiser_that_is_right_has_no_scatter(silent, gaussian_images):
    bias, found = noise_error(silent(), gaussian_images, *CELLS)
    assert bias.reshape(3, 8)[:, 5:].abs().max() < 0.04
    assert torch.linalg.eigvalsh(found).min() > -1e-10
    # Around 1/12 a sampling variance of 0.03/q², q² about 0.1, over 60 images and 6 cells: 0.02.
    assert found.diagonal().reshape(3, 8)[:, 4].max() < 8e-2
    assert found.diagonal().reshape(3, 8)[:, 5:].max() < 5e-3


def left_by_signal(sigma):
    """∂ρ/∂a at each knot for a signal with a times the power, (3, 8)."""
    S, N = spectra(sigma, 0.0)
    hats = between_references(SHAPE) * half_plane(SHAPE).weight
    left = ((N / (S + N)) ** 2 * S / N).flatten(2)[0] @ hats.T
    return left / (overlap(S * N / (S + N), N).flatten(2)[0] @ hats.T).clamp(min=1e-12)


def test_scatter_is_what_images_of_other_strength_leave(silent, gaussian_images):
    """x with a times the power: E[N̂] - N = (1-s)² (a-1) S; 60 images tell its square to 15 %."""
    a = torch.exp(0.5 * torch.randn(60, 1, 1, 1, generator=torch.Generator().manual_seed(1)))
    varied = NATURAL.mean + (gaussian_images - NATURAL.mean) * a.sqrt()
    found = noise_error(silent(), varied, (0.05,), (0.0,)).scatter
    exact = float((a - 1).square().mean()) * left_by_signal(0.05)[0, 6] ** 2
    assert float(found[6, 6]) == pytest.approx(float(exact), rel=0.4)
    # Bands of one image are wrong together.
    assert float(found[6, 7]) > 0.8 * float(found[6, 6] * found[7, 7]) ** 0.5


def test_what_is_wrong_on_all_images_is_bias(silent, gaussian_images):
    """All with half as much power again: ρ is the same everywhere, and hardly scatters."""
    varied = NATURAL.mean + (gaussian_images - NATURAL.mean) * 1.5**0.5
    bias, scatter = noise_error(silent(), varied, (0.05,), (0.0,))
    exact = 0.5 * left_by_signal(0.05)[:, 6:]
    assert torch.allclose(bias.reshape(3, 8)[:, 6:], exact, rtol=0.15)
    assert float(scatter.diagonal().reshape(3, 8)[:, 6:].max()) < 0.3 * float(exact.square().max())


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_scatter_is_scaled_to_what_the_parameters_need(scale):
    """g ~ N(∂g/∂ρ ρ̄, V + κ ∂g/∂ρ Cov ρ ∂g/∂ρᵀ) of 4000 images: κ is found."""
    rng = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    by_rho, root = normal(4000, 2, 8), normal(8, 8) / 4
    V = torch.diag_embed(0.5 + normal(4000, 2).square())
    bias, cov = normal(8), root @ root.T
    rho = bias + scale**0.5 * (normal(4000, 8) @ root.T)
    g = (by_rho @ rho[..., None])[..., 0] + V.diagonal(dim1=1, dim2=2).sqrt() * normal(4000, 2)
    heard = Heard(g, V, V, by_rho)
    for found in (needed(heard, bias, cov), needed_by_each(heard, bias, cov)):
        assert found == pytest.approx(scale, abs=0.15 * scale + 0.03)


def test_the_exact_filter_needs_no_calibration(silent, gaussian_images):
    found = fit_calibration(silent(), gaussian_images, *CELLS, with_gain=True)
    assert float(found.gain.abs().max()) < 0.03
    assert float(found.log_c[:, 3:].abs().max()) < 0.1
    assert found.scatter.diagonal().reshape(3, 8)[:, 5:].max() < 5e-3
    assert fit_calibration(silent(), gaussian_images, (0.1,), (0.0,)).gain is None
