"""Gibbs against the closed form: a Gaussian signal, p(φ | y) integrated on a grid, eq. (10)."""

import warnings
from functools import partial

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.diffusion.solvers import ddpm, few_step
from gibbsdiff.errors import InputError
from gibbsdiff.inference.gibbs import Gibbs, Settings, gibbs
from gibbsdiff.inference.starts import spread
from gibbsdiff.noise import PowerLawNoise, WhiteNoise
from gibbsdiff.streams import Streams

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

DENOISER = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
ONE_CALL = partial(few_step, calls=1)


def observe(noise, phi, shape, seed=0, channels=1):
    x = DENOISER.prior(shape, Streams(seed, [(0,)]), channels)
    return x, x + noise.draw(shape, phi, Streams(seed, [(1,)]), channels)


CASES = [
    (PowerLawNoise(), (0.3, -0.4), (32, 32)),
    (WhiteNoise(), (0.2,), (48, 64)),
]
SETTINGS = Settings(
    chains=24, iterations=130, burn_in=30, transitions=2, warm_up=60, stop_when_converged=False
)


@pytest.mark.parametrize(("noise", "phi", "shape"), CASES, ids=["power law 32²", "white 48×64"])
def test_gibbs_matches_the_closed_form(truth, noise, phi, shape):
    """Means and standard deviations within 4 of their own Monte-Carlo errors."""
    _, y = truth.observe(shape, *phi, *[0.0] * (2 - len(phi)))
    exact = truth.posterior(y, phi=(-1, 1) if len(phi) == 2 else (0, 0))
    d = len(phi)
    mean, cov = torch.tensor(exact.mean)[:d], torch.tensor(exact.cov)[:d, :d]
    start = spread(mean, cov, noise, Streams.batch(1, SETTINGS.chains))[None]
    (posterior,) = gibbs(y, noise, DENOISER, settings=SETTINGS, sampler=ONE_CALL, start=start)
    for i in range(d):
        draws = posterior.phi[..., i].numpy()
        z_mean = (draws.mean() - exact.mean[i]) / float(arviz.mcse(draws, method="mean"))
        z_sd = (draws.std() - exact.sd[i]) / float(arviz.mcse(draws, method="sd"))
        assert abs(z_mean) < 4
        assert abs(z_sd) < 4
        assert float(arviz.mcse(draws, method="mean")) < 0.1 * exact.sd[i]


@pytest.mark.slow
def test_gibbs_by_ddpm_matches_the_closed_form(truth):
    """The paper's sampler, 32², with as many steps as make its bias small."""
    noise = WhiteNoise()
    _, y = truth.observe((32, 32), 0.3, 0.0, seed=2)
    settings = Settings(
        chains=6, iterations=120, burn_in=30, transitions=4, stop_when_converged=False
    )
    sampler = partial(ddpm, process=VariancePreserving(), steps=6000, variance="posterior")
    (posterior,) = gibbs(y, noise, DENOISER, settings=settings, sampler=sampler)
    exact = truth.posterior(y, phi=(0, 0))
    draws = posterior.phi[..., 0].numpy()
    assert abs(draws.mean() - exact.mean[0]) < 4 * float(arviz.mcse(draws, method="mean"))
    assert draws.std() == pytest.approx(exact.sd[0], rel=0.25)
    assert posterior.calls > 400 * 120 * 6


def test_moments_of_x_are_those_of_the_closed_form():
    """φ pinned by a narrow prior: E[x | y] and its sd are the Wiener filter's."""
    noise = WhiteNoise((0.2999, 0.3001))
    x, y = observe(noise, (0.3,), (24, 20), seed=3)
    settings = Settings(chains=8, iterations=130, burn_in=5, warm_up=20, transitions=1)
    (p,) = gibbs(y, noise, DENOISER, settings=settings, sampler=ONE_CALL)
    estimate = DENOISER(y, noise.covariance((24, 20), torch.tensor([[0.3]]).double()))
    sd = float(estimate.error.level)
    n = p.phi.shape[0] * p.phi.shape[1]
    assert torch.allclose(p.mean, estimate.mean[0], atol=1e-3 * sd)
    assert float((p.average - estimate.mean[0]).abs().max()) < 5 * sd / n**0.5
    assert float((p.sd / sd - 1).abs().max()) < 5 / (2 * n) ** 0.5
    error = (p.mean - x[0]).square().mean().sqrt()
    assert float(error) == pytest.approx(sd, rel=0.15)


def test_a_chain_does_not_depend_on_its_batch_and_a_run_can_be_continued():
    noise = PowerLawNoise()
    ys = torch.cat([observe(noise, (0.3, f), (16, 16), seed=4)[1] for f in (-0.5, 0.5)])
    settings = Settings(chains=2, iterations=4, burn_in=0, warm_up=40, seed=5, keep_samples=3)
    together = gibbs(ys, noise, DENOISER, settings=settings, sampler=ONE_CALL)
    alone = gibbs(ys[:1], noise, DENOISER, settings=settings, sampler=ONE_CALL)[0]
    # Warm-up feeds rounding errors of 1e-16 back into the step size.
    assert torch.allclose(together[0].phi, alone.phi, atol=1e-5)
    assert torch.allclose(together[0].sd, alone.sd, atol=1e-5)
    assert torch.allclose(together[0].samples, alone.samples, atol=1e-5)
    in_chunks = Gibbs(ys, noise, DENOISER, Settings(**{**vars(settings), "memory": 1.0}), ONE_CALL)
    at_once = Gibbs(ys, noise, DENOISER, settings, ONE_CALL)
    assert torch.allclose(in_chunks.begin().x, at_once.begin().x, atol=1e-12)
    stepped = Gibbs(ys[:1], noise, DENOISER, settings, ONE_CALL)
    chains = stepped.begin()
    while not stepped.finished(chains):
        stepped.step(chains)
    assert torch.equal(stepped.posteriors(chains)[0].phi, alone.phi)


def test_stops_when_converged_and_says_so():
    noise = WhiteNoise()
    _, y = observe(noise, (0.5,), (16, 16), seed=6)
    (p,) = gibbs(
        y,
        noise,
        DENOISER,
        settings=Settings(iterations=2000, warm_up=60, transitions=2),
        sampler=ONE_CALL,
    )
    assert p.converged
    assert p.phi.shape[1] < 1000
    assert p.summary().startswith("converged")
    (short,) = gibbs(
        y,
        noise,
        DENOISER,
        settings=Settings(iterations=10, burn_in=2, warm_up=20),
        sampler=ONE_CALL,
    )
    assert short.summary().startswith("NOT CONVERGED")


def test_interruption_returns_what_is_there():
    noise = WhiteNoise()
    _, y = observe(noise, (0.5,), (16, 16), seed=7)
    calls = []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return ONE_CALL(*arguments)

    settings = Settings(iterations=100, burn_in=2, warm_up=20)
    (p,) = gibbs(y, noise, DENOISER, settings=settings, sampler=interrupted)
    assert p.phi.shape[1] == 8
    assert p.interrupted
    assert p.summary().startswith("INTERRUPTED")
    calls.clear()
    calls.extend([1] * 10)
    with pytest.raises(KeyboardInterrupt):
        gibbs(y, noise, DENOISER, settings=settings, sampler=interrupted)


def test_bad_input():
    noise = WhiteNoise()
    _, y = observe(noise, (0.5,), (16, 16))
    with pytest.raises(InputError, match="burn-in 9 must be shorter"):
        Settings(iterations=9, burn_in=9)
    with pytest.raises(InputError, match="starts need the shape"):
        gibbs(y, noise, DENOISER, start=torch.zeros(1, 2, 1))
    with pytest.raises(InputError, match="sigma = 5 is outside"):
        gibbs(y, noise, DENOISER, start=torch.full((1, 4, 1), 5.0))
    with pytest.raises(InputError, match=r"observation: .* NaN"):
        gibbs(torch.full((16, 16), torch.nan), noise, DENOISER)
