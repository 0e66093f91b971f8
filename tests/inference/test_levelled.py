"""Noise whose level goes with brightness, and with several spectra, against a dense Gaussian."""

from functools import partial

import pytest
import torch
from torch.distributions import MultivariateNormal

from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.fourier import OPPONENT, half_plane
from gibbsdiff.inference import marginal as module
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.level_score import counted_modes
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.inference.told import by_prior
from gibbsdiff.noise import LevelledNoise, Light, PhotoNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.noise.covariance import Covariance
from gibbsdiff.noise.level_curves import AS_GIVEN, BY_COUNTS
from gibbsdiff.streams import Streams

MEAN = 0.4


def basis(channels, shape):
    """Rows are opponent colours × pixels, of (C, H, W) flattened."""
    colours = OPPONENT if channels == 3 else torch.eye(channels).double()
    return torch.kron(colours, torch.eye(shape[0] * shape[1]).double())


def dense(power, g, shape, channels):
    """g Fᵀ diag(N) F g, (n, n), from N (1 or C, H, W//2+1)."""
    pixels = shape[0] * shape[1]
    unit = torch.eye(pixels).double().reshape(pixels, 1, *shape)
    blocks = torch.fft.irfft2(torch.fft.rfft2(unit) * power, s=shape).expand(-1, channels, -1, -1)
    whole = torch.block_diag(*blocks.flatten(2).transpose(0, 1))
    rotation, level = basis(channels, shape), g.flatten().repeat(channels)
    return level[:, None] * (rotation.T @ whole @ rotation) * level


class DensePosterior(Covariance):
    """Cov[x | z] (B, n, n); its spectrum is that of (x - D)/g."""

    def __init__(self, matrix, g, shape, channels):
        self.matrix, self.g, self.shape, self.channels = matrix, g, shape, channels

    def draw(self, rng, channels):
        white = rng.normal(channels, *self.shape).flatten(1)
        factor = torch.linalg.cholesky(self.matrix)
        return (factor @ white[..., None])[..., 0].reshape(-1, channels, *self.shape)

    def spectrum(self):
        pixels, C = self.shape[0] * self.shape[1], self.channels
        level, rotation = self.g.reshape(-1, pixels).repeat(1, C), basis(C, self.shape)
        scaled = rotation @ (self.matrix / level[:, :, None] / level[:, None, :]) @ rotation.T
        unit = torch.eye(pixels).double().reshape(pixels, *self.shape)
        F = torch.fft.rfft2(unit, norm="ortho").flatten(1)
        found = []
        for c in range(C):
            block = scaled[:, c * pixels : (c + 1) * pixels, c * pixels : (c + 1) * pixels]
            found.append(torch.einsum("ik,bij,jk->bk", F.conj(), block.to(F.dtype), F).real)
        return torch.stack(found, 1).reshape(-1, C, self.shape[0], self.shape[1] // 2 + 1)


class Dense(Denoiser):
    """x ~ N(m, S) by dense algebra: its error is known, but as a network's the score probes it."""

    error_model = differentiable = True

    def __init__(self, shape, channels):
        self.shape, self.channels = shape, channels
        k = half_plane(shape).k.reshape(shape[0], -1).clamp(min=0.5 / max(shape))
        strength = torch.tensor([1.0, 0.3, 0.2])[:channels].double()
        self.S = dense(
            2e-3 * strength.view(-1, 1, 1) * k**-2, torch.ones(shape).double(), shape, channels
        )

    def noise(self, covariance):
        g = torch.ones(len(covariance.power), 1, *self.shape).double()
        g = g if covariance.level_map is None else covariance.level_map.g.expand_as(g)
        parts = zip(covariance.power, g, strict=True)
        return torch.stack([dense(N, one, self.shape, self.channels) for N, one in parts]), g

    def __call__(self, z, noise):
        Sigma, g = self.noise(noise)
        K = torch.linalg.solve(self.S + Sigma, self.S.expand_as(Sigma)).mT
        moved = (K @ (z - MEAN).flatten(1)[..., None])[..., 0].reshape(z.shape)
        error = self.S - K @ self.S
        return Estimate(
            MEAN + moved, DensePosterior((error + error.mT) / 2, g, self.shape, self.channels)
        )

    def observe(self, noise, phi, seed=0):
        """y = x + ε (1, C, H, W)."""
        total = self.S + self.noise(noise.covariance(self.shape, phi))[0][0]
        rng = Streams.batch(seed, 1).normal(len(total))[0]
        y = MEAN + torch.linalg.cholesky(total) @ rng
        return y.reshape(1, self.channels, *self.shape)

    def log_evidence(self, y, noise, phi):
        """log p(y | φ), (B,)."""
        total = self.S + self.noise(noise.covariance(self.shape, phi))[0]
        zero = torch.zeros(total.shape[-1]).double()
        return MultivariateNormal(zero, total).log_prob((y - MEAN).flatten(1))


def light_of(shape):
    """A brightness that changes slowly over a periodic picture."""
    rows, columns = (torch.arange(n).double() / n for n in shape)
    slow = torch.cos(2 * torch.pi * rows)[:, None] + 0.5 * torch.sin(2 * torch.pi * columns)
    return Light.of((0.5 + 0.3 * slow)[None, None])


PHOTO = (-2.2, -0.5, 2.0, 1.7, -4.0, 0.3, -0.2, -1.0, 5.0, 1.5, -5.0)
CASES = [
    (LevelledNoise(PowerLawNoise()), (0.2, -0.5, 0.8, -0.6), 1),
    (LevelledNoise(PowerLawNoise()), (0.2, -0.5, 0.8, -0.6), 3),
    (LevelledNoise(PowerLawNoise(), curve=AS_GIVEN), (0.2, -0.5), 1),
    (PhotoNoise(), PHOTO, 3),
    (LevelledNoise(PhotoNoise()), (*PHOTO, 0.8, -0.6), 3),
    (LevelledNoise(PhotoNoise(1), curve=BY_COUNTS), (*PHOTO[:5], 0.7), 1),
]
every_case = pytest.mark.parametrize(("noise", "phi", "channels"), CASES, ids=str)


def problem(noise, phi, channels, shape):
    phi, light = torch.tensor([phi]).double(), light_of(shape)
    denoiser = Dense(shape, channels)
    y = denoiser.observe(noise.lit(light), phi)
    observation = ObservationModel(noise, shape, light=light)
    return denoiser, y, phi, Marginal(y, noise, denoiser, observation), noise.lit(light)


@every_case
def test_the_score_is_the_gradient_of_the_dense_evidence(monkeypatch, noise, phi, channels):
    """Within the scatter of one probe, averaged over many; away from the mode."""
    denoiser, y, phi, marginal, lit = problem(noise, phi, channels, (8, 8))
    phi = 0.97 * phi + 0.03 * (noise.low + noise.high) / 2
    u = (phi - noise.low) / marginal.width
    exact = []
    for h in torch.diag(1e-5 * marginal.width):
        ends = torch.cat([phi - h, phi + h])
        low, high = denoiser.log_evidence(y, lit, ends) + noise.log_prior(ends)
        exact.append((high - low) / 2e-5)
    exact = torch.stack(exact)
    found = []
    for seed in range(40):
        probe = partial(module.windowed_error, seed=seed)
        with monkeypatch.context() as patch:
            patch.setattr(module, "windowed_error", probe)
            found.append(marginal.score(u).gradient[0])
    found = torch.stack(found)
    error = found.std(0) / len(found) ** 0.5
    # Bins of |k| instead of modes shift the score by less than a hundredth of its sd.
    sd = marginal.score(u).information[0].diagonal().sqrt()
    assert bool(((found.mean(0) - exact).abs() < 4.5 * error + 0.01 * sd).all())
    # One probe misses the score by little beside what y itself leaves open.
    assert float((found.std(0) / sd).max()) < 0.5


def test_the_score_of_the_level_has_zero_mean_at_the_truth_whatever_modes_count():
    """Of a denoiser that may be wrong faint modes count little; over draws of y nothing is left."""
    shape, light = (8, 8), light_of((8, 8))
    noise = LevelledNoise(PhotoNoise())
    faint = (-2.2, -0.5, 2.0, 1.7, -8.0, 0.3, -0.2, -1.0, 5.0, 1.5, -8.0, 0.8, -0.6)
    phi, denoiser = torch.tensor([faint]).double(), Dense(shape, 3)
    assert not denoiser.exact
    observation = ObservationModel(noise, shape, light=light)
    N = noise.lit(light).covariance(shape, phi).power
    assert float(counted_modes(N).min()) < 0.2
    u = (phi - noise.low) / (noise.high - noise.low)
    found = []
    for seed in range(60):
        y = denoiser.observe(noise.lit(light), phi, seed)
        found.append(Marginal(y, noise, denoiser, observation).score(u).gradient[0, -2:])
    found = torch.stack(found) - by_prior(Marginal(y, noise, denoiser, observation), phi)[0][0, -2:]
    assert bool((found.mean(0).abs() < 4 * found.std(0) / len(found) ** 0.5).all())


@every_case
def test_the_information_is_that_of_the_dense_gaussian(noise, phi, channels):
    """½ tr(T⁻¹ ∂T T⁻¹ ∂T), T = S + Σ_φ, for a level that changes by little: J has one share of the
    noise, 1 - Ê/N, in all places.
    """
    shape, little = (12, 12), {0: (), 1: (-2.5,), 2: (0.2, -0.2)}
    phi = phi[: len(phi) - len(noise.level_names)] + little[len(noise.level_names)]
    denoiser, _, phi, marginal, lit = problem(noise, phi, channels, shape)

    def total(at):
        return denoiser.S + denoiser.noise(lit.covariance(shape, at))[0][0]

    inverse, columns = torch.linalg.inv(total(phi)), []
    for h in torch.diag(1e-5 * marginal.width):
        columns.append(inverse @ (total(phi + h) - total(phi - h)) / 2e-5)
    fisher = 0.5 * torch.stack([torch.stack([(a * b.T).sum() for b in columns]) for a in columns])
    J = marginal.score((phi - noise.low) / marginal.width).information[0]
    sd = fisher.diagonal().sqrt()
    assert float(((J - fisher) / sd / sd[:, None]).abs().max()) < 0.2


@pytest.mark.slow
def test_gibbs_finds_the_level_of_a_gaussian_signal():
    """(σ, a, b) | y by chains, with exact draws of x, and by the dense evidence: importance
    sampling from a Gaussian that is twice as wide as the draws.
    """
    shape, noise = (8, 8), LevelledNoise(WhiteNoise())
    denoiser, y, phi, marginal, lit = problem(noise, (0.3, 1.5, 0.0), 1, shape)
    few = {"chains": 64, "iterations": 32, "burn_in": 10, "warm_up": 40, "transitions": 3}
    settings = Settings(**few, stop_when_converged=False)
    (found,) = gibbs(
        y,
        noise,
        denoiser,
        settings=settings,
        sampler=partial(few_step, calls=1),
        start=phi.expand(1, 64, -1),
        observation=marginal.observation,
    )
    draws = found.phi.flatten(0, 1)
    law = MultivariateNormal(draws.mean(0), 4 * torch.cov(draws.T))
    factor = torch.linalg.cholesky(law.covariance_matrix)
    tried = law.mean + Streams.batch(3, 4000).normal(3) @ factor.T
    tried = tried[torch.isfinite(noise.log_prior(tried))]
    log_p = torch.cat([denoiser.log_evidence(y, lit, part) for part in tried.split(500)])
    p = torch.softmax(log_p + noise.log_prior(tried) - law.log_prob(tried), 0)
    mean = p @ tried
    sd = (p @ (tried - mean).square()).sqrt()
    assert float(1 / p.square().sum()) > 400
    by_chain = found.phi.mean(1)
    error = by_chain.var(0) / len(by_chain) + sd.square() * p.square().sum()
    assert bool(((draws.mean(0) - mean).abs() < 4 * error.sqrt()).all())
    assert torch.allclose(draws.std(0), sd, rtol=0.15)
