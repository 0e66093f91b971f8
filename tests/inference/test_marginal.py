"""The marginal method against the closed form: a Gaussian signal, eq. (10)."""

import math
import warnings
from functools import partial

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.laplace import draw_phi
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.matrices import raised_to
from gibbsdiff.inference.potential import fitted, gaussian, resampled, runs_away
from gibbsdiff.inference.search import find_mode
from gibbsdiff.inference.second_stage import refine
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise import (
    BandedNoise,
    PixelNoise,
    PowerLawNoise,
    SpectralCovariance,
    SpectralNoise,
    WhiteNoise,
)
from gibbsdiff.streams import Streams

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

DENOISER = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))


def observe(noise, phi, shape, seed=0):
    x = DENOISER.prior(shape, Streams(seed, [(0,)]))
    return x + noise.draw(shape, phi, Streams(seed, [(1,)]))


def log_evidence(noise, y, phi):
    shape = (y.shape[-2], y.shape[-1])
    parts = [
        DENOISER.log_evidence(y.expand(len(p), -1, -1, -1), noise.covariance(shape, p))
        for p in phi.split(128)
    ]
    return torch.cat(parts)


def climbed(noise, y, phi):
    """The exact maximum, by Newton's method on log p(y | φ) with finite differences."""
    width = noise.high - noise.low
    u = ((phi - noise.low) / width).clone()
    for _ in range(60):
        u = u.detach().requires_grad_()
        value = log_evidence(noise, y, (noise.low + u * width)[None])[0]
        (g,) = torch.autograd.grad(value, u, create_graph=True)
        H = torch.stack([torch.autograd.grad(g[i], u, retain_graph=True)[0] for i in range(len(u))])
        free = ~(((u <= 0) & (g < 0)) | ((u >= 1) & (g > 0)))
        step = torch.zeros_like(u)
        step[free] = torch.linalg.solve(H[free][:, free], -g[free])
        u = (u + step.clamp(-0.02, 0.02)).clamp(0, 1)
    return noise.low + u.detach() * width, float(value.detach())


CASES = [
    (PowerLawNoise(), (0.3, -0.4), (32, 32)),
    (PowerLawNoise(), (0.1, 0.6), (48, 64)),
    (WhiteNoise(), (0.2,), (48, 64)),
    (WhiteNoise(), (0.8,), (32, 32)),
]


@pytest.mark.parametrize(("noise", "phi", "shape"), CASES, ids=str)
def test_score_is_the_gradient_of_the_evidence(noise, phi, shape):
    """Fisher's identity, at points far from the truth too."""
    y = observe(noise, phi, shape)
    marginal = Marginal(y, noise, DENOISER)
    for seed in range(3):
        u = 0.1 + 0.8 * Streams.batch(seed, 1).uniform(len(phi))
        at = marginal.phi(u).requires_grad_()
        (exact,) = torch.autograd.grad(log_evidence(noise, y, at).sum(), at)
        # The binned statistic stands in for the modes: a small shift of the slope.
        scale = marginal.score(u).information.diagonal(dim1=1, dim2=2).sqrt()
        off = (marginal.score(u).gradient - exact * marginal.width) / scale
        assert float(off.abs().max()) < 0.1


@pytest.mark.parametrize(("noise", "phi", "shape"), CASES, ids=str)
def test_mode_and_laplace_covariance(noise, phi, shape):
    """To 1e-3 of the prior width, in at most 8 calls from the middle of the box."""
    y = observe(noise, phi, shape)
    mode = find_mode(Marginal(y, noise, DENOISER))
    best, _ = climbed(noise, y, torch.tensor(phi, dtype=torch.float64))
    assert bool(mode.ended.all())
    assert float(((mode.phi[0] - best) / (noise.high - noise.low)).abs().max()) < 1e-3
    assert mode.calls - 1 - len(phi) <= 8  # the rest is the Laplace covariance
    h = mode.covariance[0].diagonal().sqrt() / 50
    for i in range(len(phi)):
        for j in range(i + 1):
            e = torch.zeros(4, len(phi)).double()
            e[:, i] += torch.tensor([1, 1, -1, -1]) * h[i]
            e[:, j] += torch.tensor([1, -1, 1, -1]) * h[j]
            f = log_evidence(noise, y, mode.phi + e)
            curvature = float(f[0] - f[1] - f[2] + f[3]) / float(4 * h[i] * h[j])
            found = float(-torch.linalg.inv(mode.covariance[0])[i, j])
            scale = math.sqrt(float(torch.linalg.inv(mode.covariance[0]).diagonal()[[i, j]].prod()))
            assert found / scale == pytest.approx(curvature / scale, abs=0.1)


def test_bands_reach_the_top():
    """8 parameters: log p within 0.05 of the maximum."""
    noise = BandedNoise(edges=(0.1, 0.16, 0.22, 0.28, 0.35, 0.42, 0.5))
    truth = torch.linspace(-1.0, -1.6, 8).double()
    y = observe(noise, tuple(truth.tolist()), (32, 32))
    mode = find_mode(Marginal(y, noise, DENOISER), start=truth[None] + 0.7, most=40)
    _, top = climbed(noise, y, truth)
    assert float(log_evidence(noise, y, mode.phi)) > top - 0.05


def test_a_mode_at_the_wall_is_found():
    noise = PowerLawNoise()
    y = observe(PowerLawNoise(phi=(-2.0, 2.0)), (0.3, 1.4), (32, 32))
    mode = find_mode(Marginal(y, noise, DENOISER))
    assert float(mode.phi[0, 1]) == 1.0
    assert bool(mode.ended.all())
    best, _ = climbed(noise, y, torch.tensor([0.3, 1.0]).double())
    assert float((mode.phi[0] - best).abs()[0]) < 1e-3


@pytest.mark.parametrize(("noise", "phi", "shape"), CASES[:3], ids=str)
def test_draws_match_the_grid_integral(noise, phi, shape):
    y = observe(noise, phi, shape, seed=5)
    marginal = Marginal(y, noise, DENOISER)
    mode = find_mode(marginal)
    drawn = draw_phi(marginal, mode, 400, density="polynomial")
    assert drawn.densities == ["polynomial"]
    assert drawn.calls == 24
    draws = drawn.phi[0]
    sd = mode.covariance[0].diagonal().sqrt()
    axes = [
        torch.linspace(
            max(float(m - 6 * s), float(low)), min(float(m + 6 * s), float(high)), 60
        ).double()
        for m, s, low, high in zip(mode.phi[0], sd, noise.low, noise.high, strict=True)
    ]
    grid = torch.cartesian_prod(*axes).reshape(-1, len(axes))
    p = torch.softmax(log_evidence(noise, y, grid), 0)
    mean = p @ grid
    exact_sd = (p @ (grid - mean) ** 2).sqrt()
    for i in range(len(phi)):
        values = draws[..., i].numpy()
        z = (values.mean() - float(mean[i])) / float(arviz.mcse(values, method="mean"))
        assert abs(z) < 4
        z = (values.std() - float(exact_sd[i])) / float(arviz.mcse(values, method="sd"))
        assert abs(z) < 4


def test_a_fit_that_turns_up_is_not_believed():
    """Scores of -½z² + 0.1 z⁴ rise far out. A skew density does not, nor does one whose mode is
    held by a wall: what it does outside the box is of no matter.
    """
    z = 1.4 * Streams.batch(0, 1).normal(24, 1)[0]
    middle, wall = torch.tensor([0.5]).double(), torch.tensor([1.0]).double()
    sd = torch.tensor([[0.05]]).double()
    assert runs_away(fitted(z, -z + 0.4 * z**3), middle, sd)
    assert not runs_away(fitted(z, -z + 0.15 * z**2 - 0.02 * z**3), middle, sd)
    assert not runs_away(fitted(z, 3 - z), wall, sd)
    assert runs_away(fitted(z, 3 - z), middle, sd)


class Doubtful(Denoiser):
    """The right mean with an error model that is a quarter too confident."""

    error_model = True

    def __call__(self, z, noise):
        mean, error = DENOISER(z, noise)
        return Estimate(mean, SpectralCovariance(0.75 * error.spectrum(), error.shape))


def test_second_stage_stays_at_an_exact_mode_and_mends_a_biased_one():
    """Many steps need little of the error model: the bias of its one-call moments goes."""
    noise = WhiteNoise()
    y = observe(noise, (0.2,), (48, 64), seed=7)
    exact = Marginal(y, noise, DENOISER)
    mode = find_mode(exact)
    sd = float(mode.covariance[0, 0, 0].sqrt())
    one, many = (partial(few_step, calls=n) for n in (1, 24))
    stayed = refine(exact, mode, DENOISER, one, iterations=40, chains=4)
    assert abs(float(stayed.phi - mode.phi)) < 0.5 * sd
    wrong = Marginal(y, noise, Doubtful())
    biased = find_mode(wrong)
    mended = refine(wrong, biased, Doubtful(), many, iterations=30, chains=4)
    assert abs(float(biased.phi - mode.phi)) > 3 * sd
    assert abs(float(mended.phi - mode.phi)) < abs(float(biased.phi - mode.phi)) / 3
    assert mended.calls > 30 * 24


def test_images_in_a_batch_are_as_alone():
    noise = PowerLawNoise()
    ys = torch.cat(
        [observe(noise, p, (32, 32), seed=s) for s, p in enumerate([(0.1, 0), (0.5, -0.8)])]
    )
    together = find_mode(Marginal(ys, noise, DENOISER))
    for b in range(2):
        alone = find_mode(Marginal(ys[b : b + 1], noise, DENOISER))
        assert torch.allclose(together.phi[b], alone.phi[0], atol=2e-4)


def test_says_when_it_has_not_ended():
    noise = PowerLawNoise()
    y = observe(noise, (0.05, 0.9), (32, 32))
    assert not bool(find_mode(Marginal(y, noise, DENOISER), most=1).ended.any())


class Bare(Denoiser):
    def __call__(self, z, noise):
        return Estimate(z)


def test_a_denoiser_without_an_error_spectrum_is_refused():
    y, noise, bare = torch.zeros(8, 8).double(), WhiteNoise(), Bare()
    with pytest.raises(InputError, match="models its own error"):
        Marginal(y, noise, bare)
    with pytest.raises(InputError, match="models its own error"):
        Marginal(y, noise, lambda z, noise: z)
    bare.error_model = True
    with pytest.raises(InputError, match="error has a spectrum"):
        find_mode(Marginal(y, noise, bare))
    with pytest.raises(InputError, match="has no spectrum"):
        Marginal(y, PixelNoise.weighted(torch.ones(8, 8)), DENOISER)


def test_anisotropic_noise():
    def stripes(kx, ky, sigma, stretch):
        return 2 * torch.log(sigma) - torch.log1p((stretch * kx) ** 2)

    noise = SpectralNoise(stripes, {"sigma": (0.01, 1.0), "stretch": (0.0, 20.0)})
    y = observe(noise, (0.4, 6.0), (32, 32))
    mode = find_mode(Marginal(y, noise, DENOISER))
    best, _ = climbed(noise, y, torch.tensor([0.4, 6.0]).double())
    assert float(((mode.phi[0] - best) / (noise.high - noise.low)).abs().max()) < 1e-3


def test_a_density_wider_than_the_box_is_drawn_all_over_the_box():
    """In a corner, ten times as wide as the box and thin: few proposals of its own are inside."""
    angle = torch.tensor([[1.0, 0.0, 0.0], [0.9, 0.4, 0.0], [-0.9, 0.4, 0.2]]).double()
    centre = torch.tensor([0.0, 1.0, 0.0]).double()
    u = resampled(gaussian, centre, 10 * angle, 400, Streams.batch(0, 1))
    assert ((u >= 0) & (u <= 1)).all()
    # Nearly uniform: sd √(1/12), and its standard error for 400 draws is 1.5 %.
    assert torch.allclose(u.std(0), torch.full((3,), 12**-0.5).double(), rtol=0.15)


def test_information_is_raised_to_a_floor_and_not_otherwise():
    floor = torch.tensor([[[4.0, 1.0], [1.0, 3.0]]]).double()
    H = torch.tensor([[[9.0, 0.0], [0.0, 0.1]]]).double()
    raised = raised_to(H, floor)
    assert torch.linalg.eigvalsh(raised - floor).min() > -1e-9
    assert torch.linalg.eigvalsh(raised - H).min() > -1e-9
    assert torch.allclose(raised_to(5 * floor, floor), 5 * floor)
    assert torch.allclose(raised_to(0.1 * floor, floor), floor)


def test_draws_are_made_with_the_heads_of_the_image():
    """One observation has a denoiser of its own, whose error is that of eq. (13) at φ."""
    torch.manual_seed(0)
    network = UNet(1, (16, 24), (1, 1), embedding=16).requires_grad_(False)
    plain = SpectralDenoiser(network, DENOISER.signal)
    noise = PowerLawNoise()
    y = observe(noise, (0.1, -0.5), (32, 32)).float()
    marginal = Marginal(y, noise, plain)
    phi = torch.tensor([[0.12, -0.3]], dtype=torch.float64)
    denoiser, calls = marginal.adapted(phi)
    covariance = noise.covariance((32, 32), phi, torch.float32)
    own, probed = (d(y, covariance) for d in (denoiser, plain.with_derivative_error()))
    assert torch.allclose(own.mean, marginal.score_at(phi, torch.tensor([0])).mean)
    assert torch.allclose(own.error.spectrum(), probed.error.spectrum(), rtol=1e-4)
    assert calls == 1
    assert Marginal(torch.cat([y, y]), noise, plain).adapted(phi) == (plain, 0)
    assert Marginal(y, noise, DENOISER).adapted(phi) == (DENOISER, 0)
