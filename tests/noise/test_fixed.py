"""Noise with known parameters: the family itself, on a slice of its parameters."""

import operator

import pytest
import torch
from scipy import stats

from gibbsdiff.errors import InputError
from gibbsdiff.noise import (
    BandedNoise,
    PixelNoise,
    PowerLawNoise,
    SpectralNoise,
    WhiteNoise,
    with_fixed,
)
from gibbsdiff.noise.fixed import all_values
from gibbsdiff.streams import Streams

SHAPE = (24, 20)
INTENSITY = torch.rand(SHAPE, generator=torch.Generator().manual_seed(0))


def knee(kx, ky, sigma, knee):
    return 2 * torch.log(sigma) + torch.log(1 + knee**2 / (kx**2 + ky**2))


#: (family, what is known, the rest, all of φ)
SLICES = [
    (PowerLawNoise(), {"phi": -0.7}, [0.2], [0.2, -0.7]),
    (PowerLawNoise(), {"sigma": 0.2}, [-0.7], [0.2, -0.7]),
    (BandedNoise(edges=(0.2, 0.4)), {"a1": -2.0}, [-1.0, 0.5], [-1.0, -2.0, 0.5]),
    (
        SpectralNoise(knee, {"sigma": (0.01, 1), "knee": (0.01, 0.5)}, isotropic=True),
        {"knee": 0.2},
        [0.1],
        [0.1, 0.2],
    ),
    (PixelNoise.affine(INTENSITY), {"alpha": 0.03}, [0.4], [0.03, 0.4]),
    (PixelNoise.affine(INTENSITY), {"beta": 0.4}, [0.03], [0.03, 0.4]),
]
every_slice = pytest.mark.parametrize(("family", "known", "free", "whole"), SLICES, ids=str)


def row(values):
    return torch.tensor([values], dtype=torch.float64)


@every_slice
def test_a_slice_has_the_laws_of_the_whole(family, known, free, whole):
    part = with_fixed(family, known)
    assert part.names == tuple(n for n in family.names if n not in known)
    assert part.stationary == family.stationary
    here, there = part.covariance(SHAPE, row(free)), family.covariance(SHAPE, row(whole))
    for name, value in vars(there).items():
        same = torch.equal if torch.is_tensor(value) else operator.eq
        assert same(getattr(here, name), value), name
    eps = part.draw(SHAPE, free, Streams.batch(0, 2), 3)
    assert torch.equal(eps, family.draw(SHAPE, whole, Streams.batch(0, 2), 3))
    a, b = part.statistic(eps), family.statistic(eps)
    here = part.log_likelihood(row(free).expand(2, -1), a)
    assert torch.equal(here, family.log_likelihood(row(whole).expand(2, -1), b))


@every_slice
def test_the_score_is_the_free_part_of_the_family_score(family, known, free, whole):
    part = with_fixed(family, known)
    eps = family.draw(SHAPE, whole, Streams.batch(1, 1))
    x, y = row(free).requires_grad_(), row(whole).requires_grad_()
    (own,) = torch.autograd.grad(part.log_likelihood(x, part.statistic(eps)).sum(), x)
    (full,) = torch.autograd.grad(family.log_likelihood(y, family.statistic(eps)).sum(), y)
    places = [family.names.index(name) for name in part.names]
    assert torch.allclose(own, full[:, places], rtol=1e-12)


def test_missing_pixels_leave_the_likelihood_of_a_slice_too():
    family = PixelNoise.affine(INTENSITY)
    part = with_fixed(family, {"alpha": 0.03})
    observed = INTENSITY > 0.3
    eps = family.draw(SHAPE, [0.03, 0.4], seed=4)
    here = part.log_likelihood(row([0.4]), part.statistic(eps, observed))
    there = family.log_likelihood(row([0.03, 0.4]), family.statistic(eps, observed))
    assert torch.equal(here, there)


def test_a_prior_is_sliced_too():
    """p(σ | φ = 0.5) for p(σ, φ) ∝ σ^(4φ) on the box is ∝ σ²: its mean is 3/4."""
    family = PowerLawNoise(prior=lambda phi: 4 * phi[..., 1] * torch.log(phi[..., 0]))
    part = with_fixed(family, {"phi": 0.5})
    at = row([0.3])
    assert float(part.log_prior(at)) == pytest.approx(float(family.log_prior(row([0.3, 0.5]))))
    assert float(part.log_prior(row([1.1]))) == -float("inf")
    draws = part.draw_prior(Streams.batch(2, 2000))[:, 0]
    assert float(draws.mean()) == pytest.approx(0.75, abs=4 * float(draws.std()) / 2000**0.5)


def test_the_free_amplitude_is_drawn_exactly_beside_a_known_shape():
    """The power law at φ = 0 is white: the same σ, by the same uniforms, and the right law."""
    part, white = with_fixed(PowerLawNoise(), {"phi": 0.0}), WhiteNoise()
    eps = white.draw((8, 8), [0.3], seed=3).expand(500, -1, -1, -1)
    start = torch.full((500, 1), 0.5, dtype=torch.float64)
    ours = part.redraw_amplitude(start, part.statistic(eps), Streams.batch(0, 500))
    theirs = white.redraw_amplitude(start, white.statistic(eps), Streams.batch(0, 500))
    assert torch.allclose(ours, theirs, rtol=1e-9)
    # σ uniform: v = σ² ~ InvGamma((n - 1)/2, Q/2), and the box holds all of it.
    law = stats.invgamma((64 - 1) / 2, scale=float(eps[0].square().sum()) / 2)
    assert stats.kstest(ours[:, 0].square().numpy(), law.cdf).pvalue > 1e-3


def test_a_known_amplitude_is_not_redrawn():
    part = with_fixed(PowerLawNoise(), {"sigma": 0.2})
    eps = part.draw(SHAPE, [0.1])
    with pytest.raises(InputError, match="has no exact draw of its amplitude"):
        part.redraw_amplitude(row([0.1]), part.statistic(eps), Streams.batch(0, 1))


def test_what_is_not_known_is_in_the_middle():
    assert all_values(PowerLawNoise(), {"phi": 0.5}).tolist() == [0.505, 0.5]


def test_nothing_known_is_the_family_itself():
    family = PowerLawNoise()
    assert with_fixed(family, {}) is family


def test_it_says_what_is_known():
    assert str(with_fixed(PowerLawNoise(), {"phi": 0.5})) == "PowerLawNoise(sigma; phi = 0.5)"


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"gamma": 1.0}, "has no parameter 'gamma'"),
        ({"phi": 3.0}, r"phi = 3 is outside its prior range \[-1, 1\]"),
        ({"sigma": float("nan")}, "sigma = nan is outside"),
        ({"sigma": 0.1, "phi": 0.0}, "all parameters are fixed"),
    ],
)
def test_bad_values_are_one_clear_line(known, words):
    with pytest.raises(InputError, match=words):
        with_fixed(PowerLawNoise(), known)
