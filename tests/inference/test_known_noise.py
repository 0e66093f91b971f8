"""Noise with known parameters: the family itself, on a slice of its parameters."""

import pytest
import torch

from gibbsdiff.errors import InputError
from gibbsdiff.noise import BandedNoise, PartlyKnownNoise, PowerLawNoise, SpectralNoise
from gibbsdiff.noise.fixed import completed
from gibbsdiff.streams import Streams

SHAPE = (24, 20)


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
]


def row(values):
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize(("family", "known", "free", "whole"), SLICES, ids=str)
def test_a_slice_has_the_laws_of_the_whole(family, known, free, whole):
    part = PartlyKnownNoise(family, known)
    assert part.names == tuple(n for n in family.names if n not in known)
    assert torch.equal(part.whole(row(free)), row(whole))
    here, there = part.covariance(SHAPE, row(free)), family.covariance(SHAPE, row(whole))
    for name in ("power", "descriptor"):
        assert torch.equal(getattr(here, name), getattr(there, name)), name
    eps = part.draw(SHAPE, free, Streams.batch(0, 2), 3)
    assert torch.equal(eps, family.draw(SHAPE, whole, Streams.batch(0, 2), 3))
    a, b = part.statistic(eps), family.statistic(eps)
    here = part.log_likelihood(row(free).expand(2, -1), a)
    assert torch.equal(here, family.log_likelihood(row(whole).expand(2, -1), b))


@pytest.mark.parametrize(("family", "known", "free", "whole"), SLICES, ids=str)
def test_the_score_is_the_free_part_of_the_family_score(family, known, free, whole):
    part = PartlyKnownNoise(family, known)
    eps = family.draw(SHAPE, whole, Streams.batch(1, 1))
    x, y = row(free).requires_grad_(), row(whole).requires_grad_()
    (own,) = torch.autograd.grad(part.log_likelihood(x, part.statistic(eps)).sum(), x)
    (full,) = torch.autograd.grad(family.log_likelihood(y, family.statistic(eps)).sum(), y)
    places = [family.names.index(name) for name in part.names]
    assert torch.allclose(own, full[:, places], rtol=1e-12)


def test_a_prior_is_sliced_too():
    """p(σ | φ = 0.5) for p(σ, φ) ∝ σ^(4φ) on the box is ∝ σ²: its mean is 3/4."""
    family = PowerLawNoise(prior=lambda phi: 4 * phi[..., 1] * torch.log(phi[..., 0]))
    part = PartlyKnownNoise(family, {"phi": 0.5})
    at = row([0.3])
    assert float(part.log_prior(at)) == pytest.approx(float(family.log_prior(row([0.3, 0.5]))))
    assert float(part.log_prior(row([1.1]))) == -float("inf")
    draws = part.draw_prior(Streams.batch(2, 2000))[:, 0]
    assert float(draws.mean()) == pytest.approx(0.75, abs=4 * float(draws.std()) / 2000**0.5)


def test_what_is_not_known_is_in_the_middle():
    assert completed(PowerLawNoise(), {"phi": 0.5}).tolist() == [0.505, 0.5]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"gamma": 1.0}, "has no parameter 'gamma'"),
        ({"phi": 3.0}, r"phi = 3 is outside its prior range \[-1, 1\]"),
        ({"sigma": float("nan")}, "sigma = nan is outside"),
        ({"sigma": 0.1, "phi": 0.0}, "needs at least one parameter"),
    ],
)
def test_bad_values_are_one_clear_line(known, words):
    with pytest.raises(InputError, match=words):
        PartlyKnownNoise(PowerLawNoise(), known)
