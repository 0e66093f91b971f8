from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gibbsdiff.mcmc.hmc import Metric, State, in_unit_cube, leapfrog

ROWS, D, TIME = 128, 3, 2.4


def smooth(x):
    """Hilly, with a gradient that vanishes at every wall."""
    return 1.5 * torch.sin(math.pi * x).square().prod(1) * torch.cos(2 * math.pi * x).sum(1)


def tilted(x):
    """A slope that pushes at the walls."""
    return x @ torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)


def trajectory(density, metric, count, state=None, momentum=None):
    zero, one = torch.zeros(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64)
    evaluate = in_unit_cube(density, zero, one)
    if state is None:
        g = torch.Generator().manual_seed(3)
        position = torch.rand(ROWS, D, generator=g, dtype=torch.float64)
        momentum = 1.5 * torch.randn(ROWS, D, generator=g, dtype=torch.float64)
        state = State(position, *evaluate(position))
    step = torch.full((ROWS,), TIME / count, dtype=torch.float64)
    steps = torch.full((ROWS,), count)
    end, last, alive = leapfrog(evaluate, state, momentum, step, metric, steps=steps)
    assert alive.all()
    error = metric.kinetic(last) - end.value - metric.kinetic(momentum) + state.value
    return state, momentum, end, last, error


@pytest.mark.parametrize(
    ("density", "order"), [(smooth, 2), (tilted, 1)], ids=["smooth", "pushing-at-the-wall"]
)
def test_order_of_the_energy_error_through_reflections(density, order, dense_metric):
    """Order 2, but order 1 where the gradient does not vanish at the wall it pushes at.

    A kick cannot know at which moment of the step the wall was hit: a reflection after a
    fraction f of it leaves an error ε g·v (1 - 2f), of no preferred sign.
    """
    metric = Metric.of(dense_metric(ROWS, D))
    counts = np.array([60, 120, 240, 480, 960])
    errors = [trajectory(density, metric, int(n))[-1].abs().mean() for n in counts]
    slope = np.polyfit(np.log(TIME / counts), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.15


def test_the_wall_error_has_no_sign(dense_metric):
    metric = Metric.of(dense_metric(ROWS, D))
    error = trajectory(tilted, metric, 60)[-1]
    assert error.mean().abs() < 3 * error.std() / ROWS**0.5


@pytest.mark.parametrize("density", [smooth, tilted])
def test_reversible_through_reflections(density, dense_metric):
    metric = Metric.of(dense_metric(ROWS, D))
    state, momentum, end, last, _ = trajectory(density, metric, 40)
    _, _, back, again, _ = trajectory(density, metric, 40, end, -last)
    assert (back.position - state.position).abs().max() < 1e-9
    assert (again + momentum).abs().max() < 1e-9


def test_volume_is_preserved_through_reflections(dense_metric):
    """|det ∂(q', p')/∂(q, p)| = 1, by central differences."""
    metric_one = dense_metric(1, D, seed=5)
    metric = Metric.of(metric_one.expand(4 * D, D, D))
    unit = torch.eye(2 * D, dtype=torch.float64)
    shift = 1e-6 * torch.cat([unit, -unit])
    q = torch.tensor([0.2, 0.9, 0.4], dtype=torch.float64) + shift[:, :D]
    p = torch.tensor([-1.0, 1.2, 0.5], dtype=torch.float64) + shift[:, D:]
    zero, one = torch.zeros(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64)
    evaluate = in_unit_cube(tilted, zero, one)
    step = torch.full((4 * D,), 0.2, dtype=torch.float64)
    steps = torch.full((4 * D,), 7)
    end, last, _ = leapfrog(evaluate, State(q, *evaluate(q)), p, step, metric, steps=steps)
    image = torch.cat([end.position, last], 1)
    jacobian = (image[: 2 * D] - image[2 * D :]) / 2e-6
    assert abs(abs(float(torch.linalg.det(jacobian))) - 1) < 1e-6


def test_chains_stop_after_their_own_number_of_steps(dense_metric):
    metric = Metric.of(dense_metric(ROWS, D))
    state, momentum, *_ = trajectory(smooth, metric, 40)
    evaluate = in_unit_cube(
        smooth, torch.zeros(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64)
    )
    step = torch.full((ROWS,), 0.05, dtype=torch.float64)
    steps = 5 + torch.arange(ROWS) % 11
    mixed, last, _ = leapfrog(evaluate, state, momentum, step, metric, steps=steps)
    for n in (5, 9, 15):
        alone, end, _ = leapfrog(
            evaluate, state, momentum, step, metric, steps=torch.full((ROWS,), n)
        )
        rows = steps == n
        torch.testing.assert_close(mixed.position[rows], alone.position[rows], rtol=0, atol=1e-14)
        torch.testing.assert_close(last[rows], end[rows], rtol=0, atol=1e-14)
