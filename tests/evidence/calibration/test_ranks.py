"""Ranks, the tests of their uniformity and the simultaneous band, against what is known."""

import numpy as np
import pytest
from scipy import stats

from gibbsdiff.evidence.calibration.ranks import (
    coverage,
    ecdf_band,
    rank_fraction,
    thinned,
    uniformity,
)
from gibbsdiff.inference.summary import load_arviz


def ranks(n, rng, shift=0.0, scale=1.0):
    """u of n runs whose posterior draws are off by `shift` sd and `scale` times too wide."""
    sizes = rng.integers(1, 120, n)
    truth = rng.standard_normal(n)
    return np.array(
        [
            rank_fraction(t, shift + scale * rng.standard_normal(size), rng.random())
            for t, size in zip(truth, sizes, strict=True)
        ]
    )


def test_ranks_of_exact_draws_are_uniform_whatever_their_number():
    u = ranks(6000, np.random.default_rng(0))
    assert min(vars(uniformity(u)).values()) > 0.01
    assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(u))
    assert abs(u.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / len(u))
    for share, level in zip(coverage(u), (0.5, 0.8, 0.95), strict=True):
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / len(u))


def test_equal_values_share_their_places():
    draws = np.array([1.0, 2.0, 2.0, 3.0])
    assert rank_fraction(2.0, draws, 0.0) == 1 / 5
    assert rank_fraction(2.0, draws, 0.999999) == pytest.approx(4 / 5, abs=1e-5)


def test_miscalibration_is_found_and_coverage_says_which_way():
    rng = np.random.default_rng(1)
    assert uniformity(ranks(300, rng, shift=0.4)).ks < 1e-3
    narrow = ranks(3000, rng, scale=0.6)
    assert uniformity(narrow).chi2 < 1e-6
    # Of 100 draws and more the finite-L correction is small: an interval of mass c of N(0, s²).
    wide = np.array(
        [rank_fraction(t, 1.5 * rng.standard_normal(400), 0.5) for t in rng.standard_normal(3000)]
    )
    for level, share in zip((0.5, 0.8, 0.95), coverage(wide), strict=True):
        expected = 2 * stats.norm.cdf(1.5 * stats.norm.ppf(0.5 + level / 2)) - 1
        assert share == pytest.approx(expected, abs=0.03)
    assert coverage(narrow)[1] < 0.8


def test_p_values_are_uniform_when_all_is_well():
    rng = np.random.default_rng(2)
    p = [uniformity(rng.random(300)) for _ in range(400)]
    assert stats.kstest([q.chi2 for q in p], "uniform").pvalue > 0.01
    assert stats.kstest([q.ks for q in p], "uniform").pvalue > 0.01


@pytest.mark.parametrize("n", [40, 300])
def test_the_band_holds_the_whole_curve_as_often_as_it_says(n):
    """Not each point of it: a pointwise band would fail in one curve of three or so."""
    rng = np.random.default_rng(3)
    band = ecdf_band(rng.random(n), 0.95)
    curves = np.sort(rng.random((4000, n)), 1)
    difference = np.stack([(curves <= z).mean(1) - z for z in band.z], 1)
    inside = ((band.low <= difference) & (difference <= band.high)).all(1).mean()
    # Counts are discrete, and the quantile comes from 4,000 simulated curves.
    assert 0.935 < inside < 0.985
    pointwise = [stats.binom.ppf(q, n, band.z) / n - band.z for q in (0.025, 0.975)]
    held = ((pointwise[0] <= difference) & (difference <= pointwise[1])).all(1).mean()
    assert held < 0.85


def test_the_curve_leaves_the_band_when_draws_are_off():
    rng = np.random.default_rng(4)
    assert not ecdf_band(ranks(300, rng, shift=0.4)).inside
    assert not ecdf_band(ranks(300, rng, scale=0.5)).inside


def test_thinning_by_ess_leaves_draws_nearly_independent():
    rng = np.random.default_rng(5)
    chains = np.empty((4, 4000))
    chains[:, 0] = rng.standard_normal(4)
    for i in range(1, 4000):
        chains[:, i] = 0.9 * chains[:, i - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(4)
    kept = thinned(chains, int(load_arviz().ess(chains)))
    # For AR(1), ρ^τ at τ = (1 + ρ)/(1 - ρ) is near e⁻²; the rest is Monte Carlo.
    assert np.corrcoef(kept[:-1], kept[1:])[0, 1] == pytest.approx(0.135, abs=0.12)
    assert len(kept) > 400
    with pytest.raises(ValueError, match="cannot keep 0"):
        thinned(chains, 0)
