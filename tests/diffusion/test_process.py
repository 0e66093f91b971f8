"""Processes: a, b, levels and their inverse against closed forms and each other."""

import math

import pytest
import torch

from gibbsdiff.diffusion.process import (
    AnySDE,
    DiscreteVariancePreserving,
    VarianceExploding,
    VariancePreserving,
)
from gibbsdiff.errors import InputError

T = torch.linspace(0, 1, 41, dtype=torch.float64)
VP = VariancePreserving()
PROCESSES = [
    VP,
    VariancePreserving(0.1, 2.0),
    DiscreteVariancePreserving(),
    DiscreteVariancePreserving(200),
    VarianceExploding(),
    AnySDE(lambda t: 0.5 * (0.1 + 19.9 * t), lambda t: torch.sqrt(0.1 + 19.9 * t)),
    AnySDE(lambda t: 1 + torch.sin(3 * t), lambda t: 0.2 + t**2),
]
every_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda p: type(p).__name__)


@every_process
def test_starts_at_the_signal_and_rises(process):
    assert float(process.a(T[0])) == pytest.approx(1, abs=1e-15)
    assert float(process.level(T[0])) == pytest.approx(0, abs=1e-15)
    assert bool((process.level(T).diff() > 0).all())
    assert bool((process.a(T).diff() <= 0).all())


@every_process
def test_time_inverts_the_level_continuously(process):
    sigma = torch.tensor([0.0, 1e-4, 0.0123, 0.1, 0.4567], dtype=torch.float64)
    t = process.time(sigma)
    assert torch.allclose(process.level(t), sigma, rtol=1e-9, atol=1e-12)
    highest = torch.tensor(process.highest, dtype=torch.float64)
    assert float(process.time(highest)) == pytest.approx(1, abs=1e-9)


@every_process
def test_a_level_beyond_the_process_is_one_clear_line(process):
    with pytest.raises(InputError, match=r"above b\(1\)/a\(1\) = .*the highest"):
        process.time(torch.tensor(process.highest * 1.01))
    with pytest.raises(InputError, match="0 or more"):
        process.time(torch.tensor(-0.1))
    with pytest.raises(InputError, match="0 or more"):
        process.time(torch.tensor(float("nan")))


@pytest.mark.parametrize("process", [p for p in PROCESSES if isinstance(p, AnySDE)])
def test_a_and_b_solve_the_sde_moment_equations(process):
    """With A = a and level² = L: dL/dt = (g/a)², d log a/dt = -f, for the given f and g."""
    h = 1e-5
    t = T[1:-1]
    f = -(torch.log(process.a(t + h)) - torch.log(process.a(t - h))) / (2 * h)
    g2 = (process.level(t + h) ** 2 - process.level(t - h) ** 2) / (2 * h) * process.a(t) ** 2
    assert torch.allclose(f, process.f(t), rtol=1e-7)
    assert torch.allclose(g2, process.g(t) ** 2, rtol=1e-6)


def test_given_functions_reproduce_the_closed_form():
    numeric = PROCESSES[5]
    assert torch.allclose(numeric.a(T), VP.a(T), rtol=1e-12)
    assert torch.allclose(numeric.level(T), VP.level(T), rtol=1e-10)
    sigma = torch.tensor([0.06, 0.1, 0.2, 3.0], dtype=torch.float64)
    assert torch.allclose(numeric.time(sigma), VP.time(sigma), rtol=1e-9)


def test_vp_keeps_the_variance():
    assert torch.allclose(VP.a(T) ** 2 + VP.b(T) ** 2, torch.ones_like(T))
    assert float(VP.a(T[-1])) == pytest.approx(math.exp(-0.25 * 20.1))


def test_discrete_chain_tends_to_the_sde_at_first_order():
    errors = []
    for steps in (500, 1000, 2000):
        chain = DiscreteVariancePreserving(steps)
        errors.append(float((chain.level(T[1:]) / VP.level(T[1:]) - 1).abs().max()))
    orders = [math.log2(errors[i] / errors[i + 1]) for i in range(2)]
    assert orders == pytest.approx([1, 1], abs=0.1)


@pytest.mark.parametrize(("sigma", "calls"), [(0.06, 73), (0.1, 135), (0.2, 290)])
def test_the_papers_chain_needs_its_known_number_of_calls(sigma, calls):
    t = DiscreteVariancePreserving().time(torch.tensor(sigma))
    assert round(float(t) * 5000) == pytest.approx(calls, abs=1)
