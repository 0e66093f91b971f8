"""A noise model's digest: the same for the same noise, another for any other, or none."""

import pytest
import torch

from gibbsdiff.noise import (
    BandedNoise,
    CMBNoise,
    PixelNoise,
    PowerLawNoise,
    SpectralNoise,
    WhiteNoise,
    with_fixed,
)

MAP = torch.linspace(0.5, 2.0, 64).reshape(8, 8)


def spectrum(kx, ky, sigma):
    return 2 * sigma.log() - 0 * kx


def spectral(**options):
    return SpectralNoise(spectrum, {"sigma": (0.01, 1.0)}, **options)


#: Makers of noise that has a digest, no two alike.
NAMED = [
    WhiteNoise,
    lambda: WhiteNoise((0.02, 1.0)),
    PowerLawNoise,
    lambda: PowerLawNoise(phi=(-2, 2)),
    lambda: PowerLawNoise(prior=lambda phi: phi[..., 0], digest="mine"),
    lambda: PowerLawNoise(prior=lambda phi: phi[..., 0], digest="mine, again"),
    BandedNoise,
    lambda: BandedNoise((0.2, 0.4, 0.5, 0.6, 0.65, 0.68, 0.7)),
    CMBNoise,
    lambda: CMBNoise(lensed=False),
    lambda: CMBNoise(beam=10.0),
    lambda: CMBNoise(white=0.03),
    lambda: CMBNoise(pixel=9.0),
    lambda: spectral(digest="flat"),
    lambda: spectral(digest="flat, second version"),
    lambda: PixelNoise.affine(MAP),
    lambda: PixelNoise.affine(2 * MAP),
    lambda: PixelNoise.weighted(MAP),
    lambda: PixelNoise.weighted(MAP, digest="mine"),
    lambda: with_fixed(PowerLawNoise(), {"phi": 0.0}),
    lambda: with_fixed(PowerLawNoise(), {"phi": 0.1}),
    lambda: with_fixed(PowerLawNoise(), {"sigma": 0.1}),
    lambda: with_fixed(PixelNoise.affine(MAP), {"alpha": 0.1}),
]

#: Makers of noise whose functions have no name.
NAMELESS = [
    spectral,
    lambda: WhiteNoise(prior=lambda phi: phi[..., 0]),
    lambda: PixelNoise.weighted(MAP, prior=lambda phi: phi[..., 0]),
    lambda: PixelNoise(lambda phi: phi[:, :, None] * MAP, list(WhiteNoise().parameters)),
    lambda: with_fixed(PowerLawNoise(prior=lambda phi: phi[..., 0]), {"phi": 0.1}),
]


def test_equal_noise_has_equal_digests_and_other_noise_others():
    first, second = ([make().digest() for make in NAMED] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(NAMED)


@pytest.mark.parametrize("make", NAMELESS)
def test_a_function_without_a_name_has_no_digest(make):
    assert make().digest() is None


def test_the_order_in_which_values_are_fixed_does_not_matter():
    a, b = ({"a0": 0.0, "a2": -1.0}, {"a2": -1.0, "a0": 0.0})
    assert with_fixed(BandedNoise(), a).digest() == with_fixed(BandedNoise(), b).digest()
