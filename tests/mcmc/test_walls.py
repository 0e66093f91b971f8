from __future__ import annotations

import pytest
import torch

from gibbsdiff.mcmc.walls import MAX_REACH, apply, drift

ROWS = 200


def start(metric, seed=1):
    """Positions, momenta, and a time that takes them across the box up to four times."""
    g = torch.Generator().manual_seed(seed)
    position = torch.rand(metric.shape[:2], generator=g, dtype=torch.float64)
    momentum = torch.randn(metric.shape[:2], generator=g, dtype=torch.float64)
    return position, momentum, 3.3 / twice_kinetic(metric, momentum).sqrt()


def twice_kinetic(inverse_mass, momentum):
    return (momentum * apply(inverse_mass, momentum)).sum(1)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_free_motion_conserves_energy_and_stays_inside(d, dense_metric):
    metric = dense_metric(ROWS, d)
    position, momentum, time = start(metric)
    end, after, ok = drift(position, momentum, metric, time)
    assert ok.all()
    assert ((end >= 0) & (end <= 1)).all()
    reflected = (after != momentum).any(1)
    assert reflected.double().mean() > 0.5
    before = twice_kinetic(metric, momentum)
    assert (twice_kinetic(metric, after) / before - 1).abs().max() < 1e-10


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_free_motion_is_reversible(d, dense_metric):
    metric = dense_metric(ROWS, d)
    position, momentum, time = start(metric)
    end, after, _ = drift(position, momentum, metric, time)
    back, flipped, ok = drift(end, -after, metric, time)
    assert ok.all()
    assert (back - position).abs().max() < 1e-9
    assert (flipped + momentum).abs().max() < 1e-9


def test_a_dense_metric_turns_every_velocity(dense_metric):
    metric = dense_metric(ROWS, 3)
    position = torch.full((ROWS, 3), 0.5, dtype=torch.float64)
    position[:, 0] = 0.0
    momentum = torch.linalg.solve(metric, torch.tensor([-1.0, 0.0, 0.0], dtype=torch.float64))
    tiny = torch.full((ROWS,), 1e-9, dtype=torch.float64)
    _, after, _ = drift(position, momentum, metric, tiny)
    velocity = apply(metric, after)
    # p ← p - 2 (n·M⁻¹p)/(n·M⁻¹n) n with n·M⁻¹p = -1
    expected = momentum[:, 0] + 2 / metric[:, 0, 0]
    torch.testing.assert_close(after[:, 0], expected)
    torch.testing.assert_close(after[:, 1:], momentum[:, 1:])
    assert (velocity[:, 0] > 0).all()
    assert (velocity[:, 1:].abs() > 1e-6).all()


def test_corners_reflect_both_ways():
    """Straight into corners, from afar and from on top of them."""
    rho = torch.linspace(-0.9, 0.9, ROWS, dtype=torch.float64)
    one = torch.ones_like(rho)
    metric = torch.stack([one, rho, rho, one], 1).unflatten(1, (2, 2))
    for begin in (0.3, 0.0):
        position = torch.full((ROWS, 2), begin, dtype=torch.float64)
        velocity = torch.tensor([[-1.0, -1.0]], dtype=torch.float64).expand(ROWS, 2)
        momentum = torch.linalg.solve(metric, velocity)
        time = torch.full((ROWS,), 0.8, dtype=torch.float64)
        end, after, ok = drift(position, momentum, metric, time)
        assert ok.all()
        assert ((end >= 0) & (end <= 1)).all()
        ratio = twice_kinetic(metric, after) / twice_kinetic(metric, momentum)
        assert (ratio - 1).abs().max() < 1e-10
    # Off the corner by a hair the motion is reversible; on it, the order is arbitrary.
    position = torch.tensor([[0.3, 0.3 + 1e-4]], dtype=torch.float64).expand(ROWS, 2)
    end, after, _ = drift(position, momentum, metric, time)
    back, _, _ = drift(end, -after, metric, time)
    assert (back - position).abs().max() < 1e-9


def test_narrow_corners_take_many_reflections():
    rho = 0.999
    metric = torch.tensor([[[1.0, -rho], [-rho, 1.0]]], dtype=torch.float64)
    position = torch.tensor([[0.02, 0.021]], dtype=torch.float64)
    momentum = torch.tensor([[-20.0, -19.0]], dtype=torch.float64)
    time = torch.tensor([1.5], dtype=torch.float64)
    end, after, ok = drift(position, momentum, metric, time)
    back, flipped, _ = drift(end, -after, metric, time)
    assert ok.all()
    assert (back - position).abs().max() < 1e-9
    assert (flipped + momentum).abs().max() < 1e-7


def test_folding_is_bouncing(dense_metric):
    metric = torch.diag_embed(dense_metric(ROWS, 3).diagonal(dim1=1, dim2=2))
    position, momentum, time = start(metric)
    slow = drift(position, momentum, metric, time, dense=True)
    fast = drift(position, momentum, metric, time, dense=False)
    for a, b in zip(slow, fast, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", [torch.inf, torch.nan, 100 * MAX_REACH])
@pytest.mark.parametrize("dense", [True, False])
def test_runaways_stop_and_leave_the_others_alone(bad, dense):
    metric = torch.eye(2, dtype=torch.float64).expand(2, 2, 2)
    position = torch.full((2, 2), 0.5, dtype=torch.float64)
    momentum = torch.tensor([[bad, 1.0], [0.7, 0.1]], dtype=torch.float64)
    time = torch.ones(2, dtype=torch.float64)
    end, after, ok = drift(position, momentum, metric, time, dense=dense)
    assert ok.tolist() == [False, True]
    assert end[0].tolist() == [0.5, 0.5]
    assert after[0].tolist() == [0.0, 0.0]
    torch.testing.assert_close(end[1], torch.tensor([0.8, 0.6], dtype=torch.float64))
    torch.testing.assert_close(after[1], torch.tensor([-0.7, 0.1], dtype=torch.float64))
