from __future__ import annotations

import pytest
import torch

from gibbsdiff.mcmc import State, Tuning, run, warm_up
from gibbsdiff.mcmc.adaptation import shrunk_covariance
from gibbsdiff.mcmc.hmc import Metric, chances, in_unit_cube, transition
from gibbsdiff.streams import Streams

LOW, HIGH = [0.0, -1.0], [1.0, 3.0]


def plain(x):
    return -0.5 * ((x - torch.tensor([0.3, 0.0], dtype=torch.float64)) / 0.1).square().sum(1)


def middle(rows):
    return torch.tensor([[0.4, 0.5]], dtype=torch.float64).expand(rows, 2)


def fixed_tuning(rows, d=2, step=0.2):
    return Tuning(
        torch.full((rows,), step, dtype=torch.float64),
        torch.eye(d, dtype=torch.float64).expand(rows, d, d),
        torch.tensor(LOW[:d], dtype=torch.float64),
        torch.tensor(HIGH[:d], dtype=torch.float64),
    )


def sample(keys, seed=0):
    rng = Streams(seed, keys)
    position, tuning = warm_up(plain, middle(len(keys)), LOW, HIGH, rng, iterations=60)
    draws, info = run(plain, position, tuning, rng, transitions=10, keep=10)
    return draws, tuning, info


def test_a_chain_does_not_depend_on_its_batch():
    together, tuning, _ = sample([(i,) for i in range(5)])
    for i in (0, 3):
        alone, alone_tuning, _ = sample([(i,)])
        assert (alone[:, 0] - together[:, i]).abs().max() < 1e-10
        assert (alone_tuning.step[0] / tuning.step[i] - 1).abs() < 1e-10
    assert (together[:, 0] - together[:, 1]).abs().max() > 0.01


def test_chains_with_their_own_densities_do_not_mix():
    centre = torch.tensor([[0.2, 0.0], [0.5, 1.0], [0.9, 2.9]], dtype=torch.float64)

    def density(x):
        return -0.5 * ((x - centre) / 0.01).square().sum(1)

    rng = Streams.batch(1, 3)
    position, tuning = warm_up(density, middle(3), LOW, HIGH, rng, iterations=150)
    draws, _ = run(density, position, tuning, rng, transitions=120, keep=120)
    assert (draws.mean(0) - centre).abs().max() < 0.005
    sd = draws.std(0) / 0.01
    assert (sd[:2].log().abs() < 0.3).all()


def test_same_seed_same_draws():
    first, second = sample([(0,), (1,)]), sample([(0,), (1,)])
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[0], sample([(0,), (1,)], seed=1)[0])


def test_one_evaluation_per_leapfrog_step():
    calls = []

    def counted(x):
        calls.append(len(x))
        return plain(x)

    _, info = run(counted, middle(6), fixed_tuning(6), Streams.batch(0, 6), transitions=8)
    assert len(calls) == 1 + int(info.steps.amax(1).sum())


def test_steps_are_uniform_on_5_to_15():
    _, info = run(plain, middle(50), fixed_tuning(50), Streams.batch(0, 50), transitions=80)
    counts = torch.bincount(info.steps.flatten(), minlength=16)
    assert int(counts[:5].sum()) == 0
    expected = info.steps.numel() / 11
    assert ((counts[5:] - expected).abs() < 4 * expected**0.5).all()


def test_keep_takes_evenly_spaced_draws():
    kwargs = {"transitions": 12, "keep": 12}
    every, _ = run(plain, middle(3), fixed_tuning(3), Streams.batch(0, 3), **kwargs)
    third, info = run(
        plain, middle(3), fixed_tuning(3), Streams.batch(0, 3), **kwargs | {"keep": 4}
    )
    assert torch.equal(third, every[2::3])
    assert info.accept.shape == (12, 3)


@pytest.mark.parametrize("dense", [True, False])
def test_energy_may_fall_by_any_amount_but_not_rise(dense):
    """A ledge of 5000 nats: down is always taken, up never."""

    def ledge(x):
        return torch.where(x[:, 0] > 0.5, 5000.0, 0.0).double()

    unit = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    evaluate = in_unit_cube(ledge, *unit)
    rows = 400
    inverse = torch.eye(1, dtype=torch.float64).expand(rows, 1, 1)
    metric = Metric(inverse, inverse, dense)
    position = torch.cat([torch.full((200, 1), 0.4), torch.full((200, 1), 0.6)]).double()
    state = State(position, *evaluate(position))
    step = torch.full((rows,), 0.05, dtype=torch.float64)
    (chance,) = chances(Streams.batch(0, rows), 1, 1)
    after, info = transition(evaluate, state, step, metric, chance)
    crossed = (after.position[:, 0] > 0.5) & (position[:, 0] < 0.5)
    assert int(crossed.sum()) > 20
    assert (info.accept[crossed] == 1).all()
    assert not info.diverged[crossed].any()
    assert (after.position[200:] > 0.5).all()
    assert int(info.diverged[200:].sum()) > 20
    assert not info.diverged[:200].any()


def test_far_starts_find_the_mode():
    """A million nats up the hill, as a posterior of width 0.0005 is from its prior."""
    rng = Streams.batch(9, 16)
    sd = torch.tensor([0.0005, 0.02], dtype=torch.float64)

    def density(x):
        return -0.5 * ((x - 0.5) / sd).square().sum(1)

    position, _ = warm_up(density, torch.zeros(16, 2), [0.0, 0.0], [1.0, 1.0], rng)
    assert ((position - 0.5).abs() < 5 * sd).all()


def test_adapting_again_starts_from_the_earlier_metric():
    rng = Streams.batch(0, 4)
    position, tuning = warm_up(plain, middle(4), LOW, HIGH, rng, iterations=100)
    _, again = warm_up(plain, position, LOW, HIGH, rng, tuning=tuning, iterations=60)
    ratio = again.inverse_mass.diagonal(dim1=1, dim2=2) / tuning.inverse_mass.diagonal(
        dim1=1, dim2=2
    )
    assert (ratio.log().abs() < 1.5).all()
    one = tuning.rows([2])
    assert torch.equal(one.step, tuning.step[2:3])
    assert torch.equal(one.inverse_mass, tuning.inverse_mass[2:3])


def test_covariance_is_positive_definite_whatever_the_chain_did():
    g = torch.Generator().manual_seed(0)
    eye = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    draws = torch.rand(150, 3, 4, generator=g, dtype=torch.float64)
    draws[:, 0] = draws[0, 0]  # never moved
    draws[75:, 1] = draws[75, 1]
    draws[:75, 1] = draws[0, 1]  # moved once
    covariance = shrunk_covariance(draws.permute(1, 2, 0).contiguous(), eye)
    assert torch.equal(covariance[0], eye[0])
    assert float(torch.linalg.eigvalsh(covariance).min()) > 0
    sample = torch.cov(draws[:, 2].T)
    assert (covariance[2] - sample).abs().max() < 0.01 * sample.max()


def test_works_without_grad_mode_and_leaves_no_graph():
    with torch.no_grad():
        draws, _ = run(plain, middle(2), fixed_tuning(2), Streams.batch(0, 2))
    assert not draws.requires_grad


NAN = torch.tensor([[torch.nan, 0.0]], dtype=torch.float64)
BAD = [
    ((plain, middle(2), [0.0, 3.0], HIGH), "parameter 1: low 3 is not below high 3"),
    ((plain, middle(2), [0.0, -torch.inf], HIGH), "parameter 1"),
    ((plain, middle(2) + 1, LOW, HIGH), "chain 0 starts outside the box: parameter 0"),
    ((plain, NAN.expand(2, 2), LOW, HIGH), "outside the box"),
    ((lambda x: x[:, 0] * torch.nan, middle(2), LOW, HIGH), "not finite where chain 0 starts"),
    ((plain, middle(2), [0.0], [1.0]), r"start must be \(B, d\)"),
    ((plain, middle(2)[0], LOW, HIGH), r"start must be \(B, d\)"),
    ((lambda x: x, middle(2), LOW, HIGH), r"has shape \(2, 2\), not \(2,\)"),
    ((plain, middle(3), LOW, HIGH), "rng has 2 rows for 3 chains"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        warm_up(*arguments, Streams.batch(0, 2))
    assert "\n" not in str(caught.value)


def test_bad_settings_are_named():
    rng = Streams.batch(0, 2)
    with pytest.raises(ValueError, match="at least 20"):
        warm_up(plain, middle(2), LOW, HIGH, rng, iterations=5)
    with pytest.raises(ValueError, match="divide"):
        run(plain, middle(2), fixed_tuning(2), rng, transitions=10, keep=3)
    with pytest.raises(ValueError, match="tuning of 3 chains"):
        run(plain, middle(2), fixed_tuning(3), rng)
    with pytest.raises(ValueError, match="tuning of 3 chains"):
        warm_up(plain, middle(2), LOW, HIGH, rng, tuning=fixed_tuning(3))
