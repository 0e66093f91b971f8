"""The dust simulation: conservation, exact solutions, order of convergence, stationarity."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from gibbsdiff.data.dust import Forcing, Turbulence, simulate
from gibbsdiff.errors import InputError

hydro = pytest.importorskip("gibbsdiff.data.hydro", exc_type=ImportError)


def evolve(state, until, cfl=0.5):
    """Steps of equal length in all three axes to a time; the box has side 1 along the longest."""
    n = max(state.shape[1:])
    fastest = float(np.abs(state[1:] / state[0]).max())
    steps = 2 * math.ceil(until * n * (fastest + 1) / cfl / 2)
    for i in range(steps):
        for axis in (2, 1, 0) if i % 2 else (0, 1, 2):
            hydro.sweep(state, axis, until / steps * n)
    return state


def test_mass_and_momentum_are_conserved_without_forcing():
    """To the rounding of float32, in gas that shocks at Mach 3."""
    rng = np.random.default_rng(0)
    state = np.ones((4, 16, 16, 16), dtype=np.float32)
    state[0] = rng.uniform(0.5, 2, state[0].shape)
    state[1:] = state[0] * rng.normal(0, 3 / math.sqrt(3), state[1:].shape)
    before = state.sum((1, 2, 3), dtype=np.float64)
    evolve(state, 0.3)
    after = state.sum((1, 2, 3), dtype=np.float64)
    assert state[0].min() > 0
    assert np.abs(state[1:] / state[0]).max() < 4
    # 16³ cells and some 100 steps of rounding, relative to Σ|m| ≈ 2 Σρ
    assert np.abs(after - before).max() / before[0] < 1e-6


def riemann(xi):
    """Isothermal gas at rest, density 4 left of 0 and 1 right of it, at ξ = x/t: (ρ, u, v).

    A rarefaction, u + log ρ constant, then ρ*, then a shock, u* = (ρ* - 1)/√ρ*. The velocity
    across, v = ±1, changes sign at the contact.
    """
    star = brentq(lambda r: math.log(4 / r) - (r - 1) / math.sqrt(r), 1, 4)
    u = math.log(4 / star)
    shock = star * u / (star - 1)
    fan = np.clip(xi + 1, 0, u)
    behind = xi < shock
    return np.where(behind, 4 * np.exp(-fan), 1), np.where(behind, fan, 0), np.sign(u - xi)


def shock_tube_error(n, axis):
    """Mean error of (ρ, u, v) at t = 0.1 for a slab of dense gas in a periodic tube."""
    shape = [1, 1, 1]
    shape[axis] = n
    x = (np.arange(n) + 0.5) / n - 0.5
    dense = np.abs(x) < 0.25
    state = np.zeros((4, n), dtype=np.float32)
    state[0] = np.where(dense, 4, 1)
    across = 1 + (axis + 1) % 3
    state[across] = state[0] * np.where(dense, 1, -1)
    state = evolve(state.reshape(4, *shape), 0.1, cfl=0.8).reshape(4, n)
    rho, u, v = riemann((np.abs(x) - 0.25) / 0.1)
    exact = np.stack([rho, np.sign(x) * u, v])
    found = np.stack([state[0], state[1 + axis] / state[0], state[across] / state[0]])
    return np.abs(found - exact).mean(1)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_shock_tube_against_the_exact_solution(axis):
    coarse, fine = shock_tube_error(256, axis), shock_tube_error(512, axis)
    assert fine[0] < 0.01
    assert fine[1] < 0.004
    assert fine[2] < 0.02
    assert np.all(coarse / fine > 1.5)  # discontinuities converge at first order or a little less


def wave_error(n, until=0.25, amplitude=0.05):
    """Mean error of a simple wave that runs along the diagonal of a box.

    With u = log ρ along the wave, u_t + (1 + u) u_s = 0: u keeps its value at s - (1 + u) t.
    """
    x = (np.arange(n) + 0.5) / n
    s = (x[:, None] + x[None, :]) / math.sqrt(2)
    k = 2 * math.pi * math.sqrt(2)

    def speed(t):
        u = np.zeros_like(s)
        for _ in range(60):
            u = amplitude * np.sin(k * (s - (1 + u) * t))
        return u

    def gas(u):
        rho = np.exp(u)
        along = rho * u / math.sqrt(2)
        return np.stack([rho, along, along, 0 * rho])[..., None].astype(np.float32)

    state = evolve(gas(speed(0)), until)
    return float(np.abs(state - gas(speed(until))).mean())


def test_second_order_on_a_smooth_wave():
    errors = np.array([wave_error(n) for n in (32, 64, 128)])
    orders = np.log2(errors[:-1] / errors[1:])
    assert orders.min() > 1.8
    assert errors[-1] < 1e-4


def test_forcing_has_its_strength_its_scales_and_its_memory():
    n, draws = 12, 400
    forcing = Forcing(n, strength=3.0, turnover=0.2, seed=1)
    fields, shares = [], []
    k = np.stack(np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * 3, indexing="ij"))
    length = np.sqrt((k**2).sum(0))
    unit = k / np.where(length > 0, length, 1)
    for _ in range(draws):
        forcing.advance(0.2 * math.log(2))
        fields.append(forcing.field())
        f = np.fft.fftn(fields[-1], axes=(1, 2, 3))
        total = (np.abs(f) ** 2).sum(0)
        along = np.abs((unit * f).sum(0)) ** 2
        assert total[(length < 0.99) | (length > 3.01)].sum() < 1e-8 * total.sum()
        shares.append(along.sum() / total.sum())
    a = np.array(fields).reshape(draws, -1)
    # Neighbours share half of their memory: 400 fields are worth about 400 (1-¼)/(1+¼) in power.
    power = (a**2).mean(1) * 3
    error = power.std() / math.sqrt(draws * 0.6)
    assert abs(power.mean() - 9) < 4 * error
    assert np.mean(shares) == pytest.approx(1 / 3, abs=4 * np.std(shares) / math.sqrt(240))
    assert (a[1:] * a[:-1]).mean() / (a**2).mean() == pytest.approx(0.5, abs=0.03)


def test_stationary_mach_number():
    """Coarse (32³) and short, but the speed is where it was asked for, and mass is kept."""
    box = Turbulence(32, mach=4.0, seed=2)
    speeds = []
    for turnovers in np.arange(2, 6.1, 0.5):
        box.run(turnovers)
        speeds.append(box.rms_mach)
    assert np.mean(speeds) == pytest.approx(4, rel=0.2)
    assert box.state[0].mean(dtype=np.float64) == pytest.approx(1, abs=1e-5)
    maps = box.column_density()
    assert maps.mean((1, 2)).reshape(3, 2).mean(1) == pytest.approx(1, abs=1e-5)
    assert 0.2 < maps.std() < 2


def test_a_refined_box_is_the_same_gas(tmp_path):
    box = Turbulence(8, 2.0, seed=3)
    box.run(0.5)
    fine = box.refined()
    # Means over 2×2×2 cells are the old cells; so are those of the maps.
    means = fine.state.reshape(4, 8, 2, 8, 2, 8, 2).mean((2, 4, 6))
    assert np.array_equal(means, box.state)
    halved = fine.column_density().reshape(6, 8, 2, 8, 2).mean((2, 4))
    assert np.allclose(halved, box.column_density(), rtol=1e-6)
    # The forcing goes on where it was: the fine field at the old cells' corners is the old one.
    assert np.allclose(fine.acceleration[:, ::2, ::2, ::2], box.acceleration, rtol=1e-5, atol=1e-4)
    assert (fine.time, fine.forcing.updates) == (box.time, box.forcing.updates)
    simulate(tmp_path / "maps.npz", 6, size=16, mach=2.0, seed=3, coarse=2.5)
    with np.load(tmp_path / "maps.npz") as file:
        assert file["maps"].shape == (1, 6, 16, 16)
        assert file["maps"].mean() == pytest.approx(1, abs=0.2)
        assert file["times"][0] >= 3


def test_an_interrupted_simulation_goes_on_bit_by_bit(tmp_path):
    def stop_after_two(n):
        if n == 12:
            raise KeyboardInterrupt

    simulate(tmp_path / "whole.npz", 20, size=8, mach=2.0, seed=3)
    with pytest.raises(KeyboardInterrupt):
        simulate(tmp_path / "parts.npz", 20, size=8, mach=2.0, seed=3, tick=stop_after_two)
    with pytest.raises(InputError, match="is of another simulation"):
        simulate(tmp_path / "parts.npz", 20, size=8, mach=3.0, seed=3)
    simulate(tmp_path / "parts.npz", 20, size=8, mach=2.0, seed=3)
    with np.load(tmp_path / "whole.npz") as whole, np.load(tmp_path / "parts.npz") as parts:
        assert whole["maps"].shape == (4, 6, 8, 8)
        for key in ("maps", "times", "mach"):
            assert np.array_equal(whole[key], parts[key])
        assert np.all(np.diff(whole["times"]) > 0.4)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["parts.npz", "whole.npz"]


@pytest.mark.parametrize(
    ("settings", "words"), [({"size": 7}, "size: 7 cells"), ({"mach": -1.0}, "mach: -1 is not")]
)
def test_bad_settings_are_one_clear_line(tmp_path, settings, words):
    with pytest.raises(InputError, match=words):
        simulate(tmp_path / "maps.npz", 6, **settings)
    assert list(tmp_path.iterdir()) == []
