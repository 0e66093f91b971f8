"""Model error, eq. (12): the mode moves with N̂ as the linear response says."""

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.fourier import between_references
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.model_error import model_error, response
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise import PowerLawNoise, SpectralCovariance
from gibbsdiff.streams import Streams

SHAPE = (48, 48)
EXACT = GaussianDenoiser(NATURAL)


class OffBy(Denoiser):
    """The exact denoiser with N̂/N = (|y-D|² + Ê)/N too large by ρ(|k|) q per channel, (3, 8)."""

    error_model = True

    def __init__(self, rho):
        self.factor = (rho @ between_references(SHAPE)).reshape(1, 3, SHAPE[0], -1)

    def __call__(self, z, noise):
        mean, error = EXACT(z, noise)
        added = self.factor * noise.power * overlap(error.spectrum(), noise.power)
        return Estimate(mean, SpectralCovariance(error.spectrum() + added, SHAPE))


@pytest.fixture(scope="module")
def observation():
    noise = PowerLawNoise()
    x = EXACT.prior(SHAPE, Streams.batch(0, 1), 3)
    return noise, x + noise.draw(SHAPE, (0.15, -0.3), Streams.batch(1, 1), 3)


def mode_of(noise, y, rho):
    marginal = Marginal(y, noise, OffBy(rho))
    return marginal, find_mode(marginal, start=(0.15, -0.3))


@pytest.mark.parametrize(("channel", "knot"), [(0, 4), (0, 6), (1, 5), (2, 7)])
def test_the_mode_moves_as_the_response_says(observation, channel, knot):
    noise, y = observation
    rho = torch.zeros(3, 8).double()
    marginal, mode = mode_of(noise, y, rho)
    A = response(marginal, mode)[0].reshape(2, 3, 8)[:, channel, knot]
    moved = []
    for sign in (-1, 1):
        rho[channel, knot] = sign * 0.1
        moved.append(mode_of(noise, y, rho)[1].phi[0])
    slope = (moved[1] - moved[0]) / 0.2
    sd = mode.covariance[0].diagonal().sqrt()
    # Half of a percent of the sd is how well a mode is found.
    assert torch.allclose(slope, A, rtol=0.08, atol=0.05 * float(sd.max()))
    assert float((A / sd).abs().max()) > 0.01


def test_the_added_covariance_is_that_of_modes_over_random_errors(observation):
    """Modes under ρ drawn from its covariance scatter by A Cov Aᵀ."""
    noise, y = observation
    marginal, mode = mode_of(noise, y, torch.zeros(3, 8).double())
    sd = 0.1 * torch.ones(24).double()
    n = 60
    scattered = torch.stack(
        [
            mode_of(noise, y, (sd * z).reshape(3, 8))[1].phi[0]
            for z in Streams.batch(2, 1).normal(n, 24)[0]
        ]
    )
    added = model_error(marginal, mode, torch.diag(sd**2))
    ratio = scattered.std(0) / added[0].diagonal().sqrt()
    assert torch.allclose(ratio, torch.ones(2).double(), atol=4 / (2 * n) ** 0.5)


def test_a_factor_of_all_the_noise_moves_sigma_as_it_must(observation):
    """x known: N̂ off by 1 + ρ q in every mode makes σ² off by it: ∂σ/∂ρ = q σ/2, ∂φ/∂ρ = 0."""
    noise, y = observation
    x = EXACT.prior(SHAPE, Streams.batch(0, 1), 3)

    class Known(Denoiser):
        error_model = True
        scatter = torch.ones(24, 24)

        def __call__(self, z, noise):
            nothing = torch.full((1, 3, SHAPE[0], SHAPE[1] // 2 + 1), 1e-12).double()
            return Estimate(x, SpectralCovariance(nothing, SHAPE))

    marginal = Marginal(y, noise, Known())
    mode = find_mode(marginal, start=(0.15, -0.3))
    q = float(overlap(torch.tensor(1e-12), torch.tensor(1.0)))
    A = response(marginal, mode)[0].sum(-1) / q
    # The information is that of the noise drawn, not of its mean: 3 % of N in 3456 modes.
    assert float(A[0]) == pytest.approx(float(mode.phi[0, 0]) / 2, rel=0.05)
    assert abs(float(A[1])) < 0.05
    added = model_error(marginal, mode)
    assert float(added[0, 0, 0]) == pytest.approx(float(q * A[0]) ** 2)


def test_a_denoiser_without_scatter_makes_no_error(observation):
    noise, y = observation
    marginal, mode = mode_of(noise, y, torch.zeros(3, 8).double())
    assert model_error(marginal, mode) is None
