"""How pictures are seen: grey through a colour network, open borders, missing pixels."""

import math

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import NATURAL, PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.observation import ObservationModel, on_grid, taper
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise import PowerLawNoise, WhiteNoise
from gibbsdiff.streams import Streams

SHAPE = (64, 48)


def maximum(noise, statistic, start):
    """argmax of the likelihood by Newton's method, and the inverse of its curvature."""
    phi = torch.tensor(start).double().expand(len(statistic.P), -1).clone()
    for _ in range(20):
        phi = phi.detach().requires_grad_()
        value = noise.log_likelihood(phi, statistic).sum()
        (g,) = torch.autograd.grad(value, phi, create_graph=True)
        columns = [
            torch.autograd.grad(g[:, i].sum(), phi, retain_graph=True)[0]
            for i in range(phi.shape[1])
        ]
        H = -torch.stack(columns, 1)
        phi = phi + torch.linalg.solve(H, g).clamp(-0.1, 0.1)
    return phi.detach(), torch.linalg.inv(H.detach())


@pytest.mark.parametrize("slope", [-1.0, 0.0, 1.0])
def test_tapered_likelihood_of_cut_noise_is_unbiased_and_knows_its_width(slope):
    """Fields cut from a larger one: no bias, and the claimed sd is the spread of the maxima."""
    noise = PowerLawNoise(phi=(-1.5, 1.5))
    fields = noise.draw((256, 192), (0.1, slope), Streams.batch(0, 12))
    cuts = torch.cat([fields[..., i : i + 64, j : j + 48] for i in (0, 64, 128) for j in (0, 96)])
    statistic = ObservationModel(noise, SHAPE, window=taper(SHAPE)).statistic(cuts)
    phi, covariance = maximum(noise, statistic, (0.1, slope))
    n = len(phi)
    claimed = covariance.diagonal(dim1=1, dim2=2).mean(0).sqrt()
    spread = phi.std(0)
    # N(k) of the large grid, normalised on the small one.
    k = noise.grouping(SHAPE).k, noise.grouping((256, 192)).k
    small, large = ((m.fraction * torch.exp(slope * m.log_k)).sum() for m in k)
    truth = torch.tensor([0.1 * math.sqrt(small / large), slope]).double()
    bias = (phi.mean(0) - truth) / claimed
    assert float(bias.abs().max()) < 4 / math.sqrt(n) + 0.15  # the taper leaks a little
    assert float((spread / claimed).log().abs().max()) < 4 / math.sqrt(2 * n)


def test_without_the_taper_the_same_likelihood_is_biased():
    noise = PowerLawNoise(phi=(-1.5, 1.5))
    fields = noise.draw((256, 192), (0.1, -1.0), Streams.batch(0, 12))
    phi, covariance = maximum(noise, noise.statistic(fields[..., :64, :48]), (0.1, -1.0))
    bias = (phi.mean(0) + 1)[1] / covariance[:, 1, 1].mean().sqrt()
    assert abs(float(bias)) > 0.5


def test_missing_pixels_leave_white_noise_as_it_is():
    noise = WhiteNoise()
    eps = noise.draw(SHAPE, (0.2,), Streams.batch(1, 40))
    missing = torch.zeros(SHAPE, dtype=torch.bool)
    missing[10:20, 5:30] = True
    seen = torch.where(missing, torch.tensor(7.0).double(), eps)  # whatever stood there
    observation = ObservationModel(noise, SHAPE, window=(~missing)[None, None].double())
    phi, covariance = maximum(noise, observation.statistic(seen), (0.2,))
    z = (phi.mean() - 0.2) / (covariance.mean().sqrt() / math.sqrt(40))
    assert abs(float(z)) < 4
    assert float(phi.std() / covariance.mean().sqrt()) == pytest.approx(1, abs=0.4)


def test_a_grey_picture_is_an_observation_in_colour_with_noise_of_sqrt_three():
    """All three opponent channels of what is shown hold noise of power 3 N."""
    noise = PowerLawNoise()
    observation = ObservationModel(noise, SHAPE, grey=True)
    phi = torch.tensor([[0.1, -0.5]]).double().expand(200, -1)
    x = torch.full((1, 1, *SHAPE), 0.4).double()
    covariance = observation.covariance(phi, torch.float64)
    y = x + noise.draw(SHAPE, (0.1, -0.5), Streams.batch(2, 200))
    shown = observation.show(y, covariance, Streams.batch(3, 200))
    assert torch.allclose(observation.take(shown), y, atol=1e-12)
    P = power(shown - 0.4).mean(0) / covariance.power[0]
    weight = half_plane(SHAPE).weight.reshape(SHAPE[0], -1)
    mean = (P * weight).sum((1, 2)) / weight.sum()
    assert torch.allclose(mean, torch.ones(3).double(), atol=5 / math.sqrt(100 * 64 * 48))
    cross = (shown - 0.4).mean((2, 3)) - (shown - 0.4).mean((1, 2, 3))[:, None]
    assert float(cross.mean().abs()) < 1e-3


def test_grey_inference_is_that_of_a_grey_signal():
    """With independent opponent channels, the detour through colour changes nothing: the
    marginal mode and Gibbs agree with a denoiser for the grey signal itself.
    """
    noise = WhiteNoise()
    colour = PowerLawSignal(tuple(3 * a for a in NATURAL.amplitude), NATURAL.slope, 0.45)
    grey = PowerLawSignal((NATURAL.amplitude[0],), (NATURAL.slope[0],), 0.45)
    x = GaussianDenoiser(grey).prior(SHAPE, Streams.batch(4, 1))
    y = x + noise.draw(SHAPE, (0.2,), Streams.batch(5, 1))
    exact = find_mode(Marginal(y, noise, GaussianDenoiser(grey)))
    seen = find_mode(
        Marginal(y, noise, GaussianDenoiser(colour), ObservationModel(noise, SHAPE, grey=True))
    )
    assert torch.allclose(seen.phi, exact.phi, rtol=1e-4)
    assert torch.allclose(seen.covariance, exact.covariance, rtol=0.02)
    assert torch.allclose(seen.mean, exact.mean, atol=1e-3)
    settings = Settings(
        chains=16,
        iterations=80,
        burn_in=20,
        transitions=2,
        warm_up=60,
        stop_when_converged=False,
    )
    (p,) = gibbs(
        y,
        noise,
        GaussianDenoiser(colour),
        settings=settings,
        sampler=lambda d, z, c, rng: few_step(d, z, c, rng, calls=1),
        observation=ObservationModel(noise, SHAPE, grey=True),
    )
    sd = float(exact.covariance[0, 0, 0].sqrt())
    assert float(p.phi.mean() - exact.phi) == pytest.approx(0, abs=0.5 * sd)
    assert p.mean.shape == (1, *SHAPE)


def test_windows_that_share_one_noise_add_their_scores():
    noise = PowerLawNoise()
    denoiser = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
    x = denoiser.prior(SHAPE, Streams.batch(6, 3))
    y = x + noise.draw(SHAPE, (0.2, 0.3), Streams.batch(7, 3))
    u = torch.tensor([[0.3, 0.6]]).double()
    shared = Marginal(y, noise, denoiser, shared=True)
    each = Marginal(y, noise, denoiser).score(u.expand(3, -1))
    together = shared.score(u)
    assert torch.allclose(together.gradient, each.gradient.sum(0, keepdim=True))
    assert torch.allclose(together.information, each.information.sum(0, keepdim=True))
    assert shared.cost == 3
    mode = find_mode(shared)
    assert mode.calls % 3 == 0
    z = (mode.phi[0] - torch.tensor([0.2, 0.3])) / mode.covariance[0].diagonal().sqrt()
    assert float(z.abs().max()) < 4


def test_a_spectrum_keeps_its_density_on_another_grid():
    noise = PowerLawNoise()
    phi = torch.tensor([[0.1, -0.8]]).double()
    large = on_grid(noise, (128, 96), phi, SHAPE, torch.float64)
    small = noise.power(SHAPE, phi)
    assert torch.allclose(large.power[0, 0, ::2, ::2][1:], small[0, 0][1:], rtol=1e-4)  # bins
    assert torch.allclose(large.descriptor, noise.descriptor(SHAPE, phi))


def test_a_grating_counts_as_little_more_than_the_modes_that_it_takes():
    """Noise alone loses e^-6 of its power by the limit; a grating of a hundred times its power in
    a few modes adds a few per cent, not several times as much.
    """
    noise, N = WhiteNoise(), torch.full((1, 1, SHAPE[0], SHAPE[1] // 2 + 1), 0.01).double()
    observation = ObservationModel(noise, SHAPE, window=taper(SHAPE))
    eps = noise.draw(SHAPE, [0.1], Streams.batch(1, 40))

    def found(residual, most):
        nothing = torch.zeros_like(N)
        P = observation.statistic(residual, None, nothing, N, most=most).P.sum((1, 2))
        return P / observation.statistic(eps, None, nothing, N).P.sum((1, 2)).mean()

    alone = found(eps, 6.0)
    error = float(alone.std()) / len(alone) ** 0.5
    assert float(alone.mean()) == pytest.approx(1 - math.exp(-6), abs=4 * error)
    grating = 0.3 * torch.cos(2 * torch.pi * 0.3 * torch.arange(SHAPE[1]))
    assert float(found(eps + grating, None).mean()) > 5
    assert float(found(eps + grating, 6.0).mean()) < 1.2
