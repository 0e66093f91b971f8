"""What single families promise beyond the contract."""

import math

import pytest
import torch
from scipy import integrate, stats

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane
from gibbsdiff.noise import (
    BandedNoise,
    Parameter,
    PixelNoise,
    PowerLawNoise,
    SpectralNoise,
    WhiteNoise,
)
from gibbsdiff.noise.conjugate import truncated_inverse_gamma
from gibbsdiff.streams import Streams


def test_power_law_has_pixel_std_sigma_and_slope_phi():
    k = half_plane((31, 44))
    phi = torch.tensor([[0.2, -0.8]], dtype=torch.float64)
    log_n = PowerLawNoise().log_power(k, phi)[0]
    assert float(k.mean(torch.exp(log_n))) == pytest.approx(0.04, rel=1e-12)
    away = k.k > 0
    slope = torch.diff(log_n[away]) / torch.diff(torch.log(k.k[away]))
    assert torch.allclose(slope[torch.isfinite(slope)], torch.tensor(-0.8).double())
    # The zero mode counts as |k| = 1.
    at_one = k.with_frequencies(torch.ones(1).double(), torch.zeros(1).double())
    assert float(log_n[0]) == pytest.approx(float(PowerLawNoise().log_power(at_one, phi)[0, -1]))


def test_binning_shifts_the_posterior_by_less_than_a_hundredth_of_its_width():
    """Mean and sd of φ on a grid, binned against exact groups, 3×256×256."""
    noise = PowerLawNoise()
    for truth in [(0.1, -1.0), (0.1, 0.0), (0.3, 0.9)]:
        eps = noise.draw((256, 256), truth, Streams.batch(0, 1), 3)
        moments = []
        for exact in (False, True):
            statistic = noise.statistic(eps, exact=exact)
            s = truth[0] * (1 + torch.linspace(-0.012, 0.012, 61).double())
            f = truth[1] + torch.linspace(-0.05, 0.05, 61).double()
            grid = torch.cartesian_prod(s, f)
            log_p = torch.cat([noise.log_likelihood(g, statistic) for g in grid.split(512)])
            p = torch.softmax(log_p, 0)
            mean = p @ grid
            moments.append((mean, (p @ (grid - mean) ** 2).sqrt()))
        (binned, _), (reference, sd) = moments
        assert float(((binned - reference) / sd).abs().max()) < 0.01
        assert float((moments[0][1] / sd - 1).abs().max()) < 0.01


@pytest.mark.parametrize(
    ("shape", "rate", "low", "high"),
    [(3.0, 2.0, 0.2, 1.5), (500.0, 5.0, 0.0095, 0.0102), (500.0, 5.0, 0.011, 0.02)],
)
def test_truncated_inverse_gamma_has_its_density(shape, rate, low, high):
    one = [torch.tensor(v, dtype=torch.float64) for v in (shape, rate, low, high)]
    v = truncated_inverse_gamma(*one, Streams.batch(0, 1).uniform(4000)[0])

    def density(t):
        return math.exp(-(shape + 1) * math.log(t / low) - rate / t + rate / low)

    total = integrate.quad(density, low, high)[0]
    cdf = [integrate.quad(density, low, float(q))[0] / total for q in v[:500]]
    assert stats.kstest(cdf, "uniform").pvalue > 0.01


def test_truncated_inverse_gamma_far_from_its_range_stays_at_the_wall():
    one = [torch.tensor(v, dtype=torch.float64) for v in (5e4, 5e4, 4.0, 9.0, 0.5)]
    assert float(truncated_inverse_gamma(*one)) == pytest.approx(4.0, rel=1e-3)
    one = [torch.tensor(v, dtype=torch.float64) for v in (5e4, 5e4, 0.01, 0.02, 0.5)]
    assert float(truncated_inverse_gamma(*one)) == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize(
    ("noise", "phi", "column"),
    [
        (WhiteNoise(), (0.3,), 0),
        (PowerLawNoise(), (0.3, -0.5), 0),
        (BandedNoise((0.3,)), (-1, -2), 1),
    ],
    ids=["white", "power law", "bands"],
)
def test_redrawn_amplitudes_follow_the_likelihood(noise, phi, column):
    statistic = noise.statistic(noise.draw((8, 8), phi, Streams.batch(1, 1)))
    n = 2000
    many = torch.tensor([phi], dtype=torch.float64).expand(n, -1)
    repeated = statistic.rows(torch.zeros(n, dtype=torch.int64))
    drawn = noise.redraw_amplitude(many, repeated, Streams.batch(2, n))[:, column].contiguous()
    grid = torch.linspace(float(noise.low[column]), float(noise.high[column]), 40001).double()
    at = torch.tensor([phi], dtype=torch.float64).repeat(len(grid), 1)
    at[:, column] = grid
    p = torch.softmax(noise.log_likelihood(at, statistic), 0)
    cdf = torch.cumsum(p, 0)[torch.searchsorted(grid, drawn).clamp(max=len(grid) - 1)]
    assert stats.kstest(cdf.numpy(), "uniform").pvalue > 0.01


def test_a_band_without_modes_keeps_its_prior():
    noise = BandedNoise(edges=(0.01, 0.02, 0.3))
    statistic = noise.statistic(torch.ones(8, 8).double())
    start = torch.zeros(1000, 4, dtype=torch.float64)
    many = statistic.rows(torch.zeros(1000, dtype=torch.int64))
    drawn = noise.redraw_amplitude(start, many, Streams.batch(0, 1000))
    u = (drawn[:, 1] - noise.low[1]) / (noise.high[1] - noise.low[1])
    assert stats.kstest(u.numpy(), "uniform").pvalue > 0.01


def test_prior_hook_shapes_the_prior_and_its_draws():
    """A triangular prior on σ: its draws have the triangle's distribution."""
    noise = WhiteNoise((0.1, 1.1), prior=lambda phi: torch.log(phi[..., 0] - 0.1))
    phi = torch.tensor([[0.6], [1.1]], dtype=torch.float64)
    assert torch.allclose(noise.log_prior(phi), torch.log(torch.tensor([0.5, 1.0])).double())
    drawn = noise.draw_prior(Streams.batch(0, 2000))[:, 0] - 0.1
    assert stats.kstest(drawn.numpy() ** 2, "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Parameter("sigma", 1.0, 0.5), "sigma.*low < high"),
        (lambda: WhiteNoise((0.5, 0.5)), "sigma.*low < high"),
        (lambda: PowerLawNoise((0.0, 1.0)), "sigma.*positive"),
        (lambda: PowerLawNoise(phi=(1, float("nan"))), "phi.*finite"),
        (lambda: BandedNoise((0.3, 0.2)), "band edges"),
        (lambda: SpectralNoise(lambda kx, ky: kx, {}), "at least one parameter"),
        (lambda: PixelNoise.weighted(torch.zeros(8, 8)), "above 0"),
        (lambda: PixelNoise.affine(-torch.ones(8, 8)), "negative"),
        (lambda: PixelNoise.affine(torch.ones(2, 8, 8)), "one plane"),
        (lambda: WhiteNoise().check([2.0]), r"sigma = 2 is outside its prior range \[0.01, 1\]"),
        (lambda: WhiteNoise().check([float("nan")]), "sigma = nan is outside"),
        (lambda: PowerLawNoise().check([[0.1, 0.2, 0.3]]), "needs 2 parameters"),
        (lambda: PowerLawNoise().draw((8, 8), (0.1, 1.5), Streams.batch(0, 1)), "phi = 1.5"),
        (lambda: WhiteNoise().statistic(torch.full((8, 8), math.inf)), "64 of 64 pixels"),
        (
            lambda: PixelNoise.affine(torch.ones(8, 8)).draw(
                (9, 9), (0.1, 0.1), Streams.batch(0, 1)
            ),
            "its map is 8×8, the image 9×9",
        ),
    ],
)
def test_bad_input_is_one_clear_line(make, words):
    with pytest.raises(InputError, match=words) as trouble:
        make()
    assert "\n" not in str(trouble.value)
