"""HMC against exact draws, and what its warm-up arrives at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from gibbsdiff.mcmc import run, warm_up
from gibbsdiff.streams import Streams


def smallest_p(draws, exact, density):
    """Bonferroni-adjusted smallest KS p-value: marginals, 8 projections, log density.

    Some of the tests share information, which makes the adjustment strict on the null
    side only: the level of one call is at most that of its threshold.
    """
    d = draws.shape[1]
    g = torch.Generator().manual_seed(11)
    scale = exact.std(0)
    directions = [*torch.eye(d, dtype=torch.float64)]
    directions += [torch.randn(d, generator=g, dtype=torch.float64) / scale for _ in range(8)]
    pairs = [(draws @ a, exact @ a) for a in directions] + [(density(draws), density(exact))]
    p = [stats.ks_2samp(x.numpy(), y.numpy()).pvalue for x, y in pairs]
    return len(p) * min(p)


def test_matches_exact_draws(sampled):
    exact = sampled.target.exact(40_000)
    assert smallest_p(sampled.draws, exact, sampled.target.log_density) > 0.01


def test_the_comparison_has_power(sampled):
    """A shift by 0.15 standard deviations would be seen, and exact draws pass."""
    t = sampled.target
    exact = t.exact(40_000 + len(sampled.draws), seed=1)
    fresh, rest = exact[: len(sampled.draws)], exact[len(sampled.draws) :]
    assert smallest_p(fresh, rest, t.log_density) > 0.01
    assert smallest_p(fresh + 0.15 * rest.std(0), rest, t.log_density) < 0.01


def test_acceptance_after_adaptation(sampled):
    """0.65 is the aim; a single chain knows its own to 0.06 after 75 noisy iterations."""
    by_chain = sampled.info.accept.mean(0)
    assert 0.55 < float(by_chain.mean()) < 0.8
    assert float(((by_chain > 0.5) & (by_chain < 0.85)).double().mean()) > 0.9


def test_draws_are_inside(sampled):
    t = sampled.target
    assert ((sampled.draws >= t.low) & (sampled.draws <= t.high)).all()


@pytest.mark.parametrize("d", [1, 2, 8])
def test_gaussians_do_not_diverge_and_the_metric_is_their_covariance(d):
    sd = torch.linspace(0.0005, 0.05, d, dtype=torch.float64)
    rng = Streams.batch(5, 32)

    def density(x):
        return -0.5 * ((x - 0.4) / sd).square().sum(1)

    position, tuning = warm_up(density, rng.uniform(d), [0.0] * d, [1.0] * d, rng)
    _, info = run(density, position, tuning, rng, transitions=100)
    assert int(info.diverged.sum()) == 0
    assert 0.55 < float(info.accept.mean()) < 0.8
    ratio = tuning.inverse_mass.diagonal(dim1=1, dim2=2).sqrt() / sd
    assert (ratio.median(0).values.log().abs() < 0.25).all()


def test_mass_on_the_wall_is_exponential():
    rng = Streams.batch(2, 256)
    start = torch.full((256, 1), 0.5, dtype=torch.float64)
    position, tuning = warm_up(lambda x: -20 * x.sum(1), start, [0.0], [1.0], rng, iterations=100)
    draws, _ = run(lambda x: -20 * x.sum(1), position, tuning, rng, transitions=160, keep=4)
    law = stats.truncexpon(b=20, scale=1 / 20)
    assert stats.kstest(draws.flatten().numpy(), law.cdf).pvalue > 0.01


def test_flat_density_is_uniform_and_its_step_is_capped():
    rng = Streams.batch(3, 256)
    start = torch.full((256, 2), 0.1, dtype=torch.float64)

    def flat(x):
        return torch.zeros(len(x), dtype=torch.float64)

    position, tuning = warm_up(flat, start, [0.0, 0.0], [1.0, 1.0], rng, iterations=100)
    draws, info = run(flat, position, tuning, rng, transitions=40, keep=4)
    assert float(info.accept.min()) > 1 - 1e-9
    velocity = tuning.step * tuning.inverse_mass.diagonal(dim1=1, dim2=2).amax(1).sqrt()
    assert float(velocity.max()) <= 0.5 + 1e-12
    p = [stats.kstest(draws[..., i].flatten().numpy(), "uniform").pvalue for i in range(2)]
    assert 2 * min(p) > 0.01


def test_undefined_region_is_avoided_counted_and_harmless():
    """NaN above 0.55: the draws are those of the Gaussian cut there."""
    rng = Streams.batch(4, 256)
    start = torch.full((256, 1), 0.45, dtype=torch.float64)

    def density(x):
        x = x[:, 0]
        return -0.5 * ((x - 0.5) / 0.1) ** 2 + 0 * (0.55 - x).log()

    position, tuning = warm_up(density, start, [0.0], [1.0], rng, iterations=100)
    draws, info = run(density, position, tuning, rng, transitions=120, keep=4)
    assert int(info.diverged.sum()) > 100
    assert (info.accept[info.diverged] == 0).all()
    law = stats.truncnorm(-5, 0.5, 0.5, 0.1)
    assert stats.kstest(draws.flatten().numpy(), law.cdf).pvalue > 0.01


def test_funnel_diverges():
    """The neck of a funnel is narrower than any step that suits its mouth."""
    rng = Streams.batch(6, 16)

    def density(x):
        log_scale = 9 * (x[:, 0] - 0.5)
        spread = ((x[:, 1:] - 0.5) * 40 / log_scale.exp()[:, None]).square().sum(1)
        return -0.5 * (log_scale / 3) ** 2 - 4 * log_scale - 0.5 * spread

    start = torch.full((16, 5), 0.5, dtype=torch.float64)
    position, tuning = warm_up(density, start, [0.0] * 5, [1.0] * 5, rng, iterations=100)
    _, info = run(density, position, tuning, rng, transitions=50)
    assert int(info.diverged.sum()) > 0
    assert np.isfinite(info.accept.numpy()).all()
