"""Rounded coefficients: moments by simulation, their limits, the inverse."""

import numpy as np
import pytest

from gibbsdiff.inference.jpeg_rounding import before, gain, noise_in, survived

DRAWS = 400_000


def drawn(s, d=0.0):
    """x and x + c of a coefficient."""
    x, c = np.random.default_rng(0).standard_normal((2, DRAWS))
    return d * x, d * x + s * c


def near(values, expected, errors=4):
    """The mean of independent values, within standard errors."""
    scatter = values.std() / np.sqrt(len(values))
    assert values.mean() == pytest.approx(expected, abs=errors * scatter + 1e-12)


@pytest.mark.parametrize("s", [0.25, 0.33, 0.5, 0.8, 1.19, 1.21, 3.0])
@pytest.mark.parametrize("q", [1.0, 14.0])
def test_moments_by_simulation(s, q):
    _, y = drawn(s * q)
    Q = q * np.rint(y / q)
    near(Q**2, survived(np.array(s * q), np.array(q)))
    near(Q * y, gain(np.array(s * q), np.array(q)) * (s * q) ** 2)


@pytest.mark.parametrize(("s", "d"), [(0.1, 0.5), (0.3, 0.4), (0.3, 5.0), (1.0, 1.0), (0.01, 20.0)])
def test_noise_of_a_spread_coefficient_by_simulation(s, d):
    x, y = drawn(s, d)
    Q, one = np.rint(y), np.array(1.0)
    expected = noise_in(survived(np.hypot(s, d) * one, one), s * one, one)
    near(Q * (Q - x), expected)
    if d >= 5:
        assert expected == pytest.approx(s**2 + 1 / 12, abs=1e-4)
        near((Q - x) ** 2, expected)


def test_limits():
    s = np.array([0.5, 2.0, 30.0])
    assert np.allclose(survived(s, np.full(3, 1e-3)), s**2, rtol=1e-5)
    assert survived(np.array(1.0), np.array(10.0)) < 1e-4
    assert survived(np.array(0.0), np.array(10.0)) < 1e-20
    # The sums go over into their integrals without a jump.
    below, above = (np.array([x]) for x in (1.2 - 1e-9, 1.2 + 1e-9))
    assert survived(below, 1.0) == pytest.approx(survived(above, 1.0), abs=1e-8)
    assert gain(below, 1.0) == pytest.approx(gain(above, 1.0), abs=1e-8)
    # A flat coefficient has the noise that is left of it.
    f = survived(s, np.ones(3))
    assert np.allclose(noise_in(f, s, np.ones(3)), f, rtol=1e-3)


def test_the_inverse():
    s = np.geomspace(0.1, 100, 200)
    for q in (1.0, 7.0):
        again = before(survived(s * q, np.full(200, q)), np.full(200, q))
        assert np.allclose(again, s * q, rtol=1e-4)
    assert before(np.array(0.0), np.array(10.0)) < 1
