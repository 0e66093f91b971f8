"""Modes: Parseval, groupings, evenness, the opponent basis."""

import math

import pytest
import torch

from gibbsdiff import fourier
from gibbsdiff.fourier import REFERENCE, half_plane

SHAPES = [(8, 6), (7, 9), (16, 16), (15, 8), (1, 2), (33, 64)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_parseval(shape, rng):
    x = rng(1).normal(1, *shape)
    total = (half_plane(shape).weight.reshape(shape[0], -1) * fourier.power(x)).sum()
    assert float(total) == pytest.approx(float(x.square().sum()), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_count_every_mode_of_the_full_plane(shape):
    modes = half_plane(shape)
    assert float(modes.weight.sum()) == shape[0] * shape[1]
    # A radial function has the same mean on the half-plane as on the full one.
    ky = torch.fft.fftfreq(shape[0], dtype=torch.float64)[:, None]
    kx = torch.fft.fftfreq(shape[1], dtype=torch.float64)[None]
    full = torch.exp(-torch.hypot(kx, ky)).mean()
    assert float(modes.mean(torch.exp(-modes.k))) == pytest.approx(float(full), rel=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_exact_groups_hold_one_radius_each(shape):
    grouping = fourier.exact_groups(shape)
    k = half_plane(shape).k
    assert torch.allclose(grouping.k.k[grouping.index], k, rtol=1e-12, atol=0)
    # Distinct radii are distinct groups: as many as distinct integer keys.
    gaps = grouping.k.k.sort().values.diff()
    assert float(gaps.min()) > 1e-9


@pytest.mark.parametrize("shape", [*SHAPES, (256, 256), (200, 331)], ids=str)
@pytest.mark.parametrize("edges", [(), (0.25,), (1 / 64, 1 / 8, 0.3)], ids=str)
def test_radial_bins_are_few_keep_the_weight_and_respect_edges(shape, edges):
    grouping = fourier.radial_bins(shape, edges)
    k = half_plane(shape).k
    assert len(grouping.k.weight) <= 512
    assert float(grouping.k.weight.sum()) == shape[0] * shape[1]
    representative = grouping.k.k[grouping.index]
    assert torch.equal(representative == 0, k == 0)
    assert torch.equal(fourier.band_of(representative, edges), fourier.band_of(k, edges))


def test_bins_of_a_smooth_function_are_second_order():
    shape = (256, 256)
    k = half_plane(shape)

    def error(bins):
        grouped = fourier.radial_bins(shape, (), bins).k
        return abs(float(grouped.mean(grouped.k**1.5) / k.mean(k.k**1.5)) - 1)

    order = math.log2(error(16) / error(64)) / 2
    assert order == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_even_makes_a_filter_of_a_real_field(shape, rng):
    gain = fourier.even(rng(1).normal(shape[0], shape[1] // 2 + 1)[None], shape[1])
    x = rng(1, 1).normal(1, *shape)
    # The filtered field has exactly the filtered modes only if the gain is even.
    assert torch.allclose(fourier.fft(fourier.filtered(x, gain)), fourier.fft(x) * gain, atol=1e-12)


def test_opponent_basis_is_orthonormal_and_inverts(rng):
    assert torch.allclose(fourier.OPPONENT @ fourier.OPPONENT.T, torch.eye(3).double(), atol=1e-15)
    x = rng(2).normal(3, 5, 4)
    assert torch.allclose(fourier.from_opponent(fourier.to_opponent(x)), x, atol=1e-14)
    grey = torch.ones(1, 3, 2, 2).double()
    assert torch.allclose(
        fourier.to_opponent(grey)[0, 1:], torch.zeros(2, 2, 2).double(), atol=1e-15
    )


def test_interpolation_between_references_is_exact_for_power_laws():
    shape = (64, 48)
    weights = fourier.between_references(shape)
    k = half_plane(shape).k
    knots = torch.log(torch.tensor(REFERENCE, dtype=torch.float64))
    inside = (k >= REFERENCE[0]) & (k <= REFERENCE[-1])
    assert torch.allclose((knots @ weights)[inside], torch.log(k[inside]), atol=1e-12)
    assert torch.allclose(weights.sum(0), torch.ones(len(k)).double())


@pytest.mark.parametrize("shape", [*SHAPES, (9, 9), (2, 2)], ids=str)
def test_the_spectrum_of_a_turned_field_is_the_turned_spectrum(shape, rng):
    """|F(T x)|² = |x̂|² turned, for every symmetry that keeps the shape; T⁻¹ T = 1."""
    count = 8 if shape[0] == shape[1] else 4
    which = torch.arange(count)
    x = rng(count).normal(2, *shape)
    moved = fourier.turned(x, which)
    found = fourier.turned_spectrum(fourier.power(x), which, shape[1])
    assert torch.allclose(found, fourier.power(moved), atol=1e-12)
    assert torch.equal(fourier.turned(moved, which, back=True), x)
    # Eight different ones: the group has no more.
    one = fourier.turned(x[:1].expand(count, -1, -1, -1), which)
    if min(shape) > 2:
        assert len({tuple(row.flatten().tolist()) for row in one}) == count
