"""The paper's warm-up, as its appendix has it, against the formulas written out again here."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from gibbsdiff.mcmc import OURS, PAPER, Adaptation, adaptation, run, warm_up
from gibbsdiff.streams import Streams

LOW, HIGH = torch.zeros(2).double(), torch.ones(2).double()
CENTRE = torch.tensor([0.4, 0.6]).double()
COVARIANCE = torch.tensor([[4e-3, 1.5e-3], [1.5e-3, 2e-3]]).double()


def gaussian(x):
    away = x - CENTRE
    return -0.5 * (away @ torch.linalg.inv(COVARIANCE) * away).sum(-1)


@pytest.fixture
def seen(monkeypatch):
    """Positions, acceptance, step and M⁻¹ of every transition of a warm-up."""
    found = []
    take = adaptation.transition

    def spy(evaluate, state, step, metric, chance):
        state, info = take(evaluate, state, step, metric, chance)
        found.append((state.position, info.accept, step, metric.inverse_mass, info.steps))
        return state, info

    monkeypatch.setattr(adaptation, "transition", spy)
    return found


def warmed(kind, rows=3, density=gaussian, iterations=300):
    rng = Streams.batch(5, rows)
    start = LOW + (HIGH - LOW) * rng.uniform(2)
    return start, warm_up(density, start, LOW, HIGH, rng, iterations=iterations, adaptation=kind)


def test_the_metric_is_the_raw_covariance_of_what_follows_a_quarter(seen):
    _, (_, tuning) = warmed(PAPER)
    assert len(seen) == 300
    identity = torch.eye(2).double().expand(3, 2, 2)
    assert all(torch.equal(metric, identity) for _, _, _, metric, _ in seen[:225])
    kept = torch.stack([position for position, *_ in seen[75:225]], 1)
    for chain in range(3):
        expected = torch.cov(kept[chain].T)  # unbiased: divided by n - 1
        torch.testing.assert_close(tuning.inverse_mass[chain], expected, rtol=1e-10, atol=0)
        for _, _, _, metric, _ in seen[225:]:
            torch.testing.assert_close(metric[chain], expected, rtol=1e-10, atol=0)
    steps = torch.stack([steps for *_, steps in seen])
    assert (int(steps.min()), int(steps.max())) == (5, 15)


def test_the_step_follows_dual_averaging_with_one_gamma(seen):
    """δ = 0.65, γ = 0.05, T₀ = 10, κ = 0.75; begun again where the metric changes."""
    _, (_, tuning) = warmed(PAPER)
    for begin, end in ((0, 225), (225, 300)):
        widest = seen[begin][3].diagonal(dim1=1, dim2=2).amax(1).sqrt()
        limit = (adaptation.STRIDE / widest).clamp(max=adaptation.STABLE).log()
        first = seen[begin][2].log()
        error, mean = torch.zeros(3).double(), first
        for n, (_, accept, step, _, _) in enumerate(seen[begin:end], 1):
            if n > 1:
                expected = first + math.log(10) - math.sqrt(n - 1) / 0.05 * error
                torch.testing.assert_close(step.log(), torch.minimum(expected, limit))
            error = (1 - 1 / (n + 10)) * error + (0.65 - accept) / (n + 10)
            after = torch.minimum(first + math.log(10) - math.sqrt(n) / 0.05 * error, limit)
            mean = n**-0.75 * after + (1 - n**-0.75) * mean
    torch.testing.assert_close(tuning.step, mean.exp())


def test_the_target_is_reached_from_starts_anywhere():
    """Dual averaging with γ = 0.05 alone lands near its target, and draws have the law."""
    _, (position, tuning) = warmed(PAPER, rows=256)
    draws, info = run(gaussian, position, tuning, Streams.batch(6, 256), transitions=60, keep=6)
    assert 0.5 < float(info.accept.mean()) < 0.95
    flat = draws[1:].flatten(0, 1)
    error = (COVARIANCE.diagonal() / 256).sqrt()
    assert float(((flat.mean(0) - CENTRE) / error).abs().max()) < 4
    ratio = torch.cov(flat.T) / COVARIANCE
    assert float((ratio - 1).abs().max()) < 4 * math.sqrt(2 / 256)


def test_each_part_is_a_switch_of_its_own(seen, monkeypatch):
    climbs = []
    climb = adaptation.climb
    monkeypatch.setattr(adaptation, "climb", lambda *a: climbs.append(1) or climb(*a))

    def metrics():
        changes = sum(not torch.equal(a[3], b[3]) for a, b in pairwise(seen))
        seen.clear()
        return changes

    results = {}
    for part in ("climb", "provisional", "fine", "shrink"):
        warmed(replace(PAPER, **{part: True}), iterations=80)
        results[part] = (len(climbs), metrics())
        climbs.clear()
    assert results == {"climb": (1, 1), "provisional": (0, 2), "fine": (0, 1), "shrink": (0, 1)}
    steps = [warmed(kind, iterations=80)[1][1].step for kind in (PAPER, replace(PAPER, fine=True))]
    assert not torch.equal(*steps)
    assert Adaptation() == OURS
    assert Adaptation(*[False] * 5) == PAPER


def test_a_chain_that_did_not_move_keeps_its_metric():
    still = torch.full((1, 2, 40), 0.3).double()
    line = torch.linspace(0.1, 0.9, 40).double().expand(1, 2, 40)  # one direction of two
    free = torch.rand(1, 2, 40, generator=torch.Generator().manual_seed(0)).double()
    had = 3 * torch.eye(2).double().expand(3, 2, 2)
    found = adaptation.sample_covariance(torch.cat([still, line, free]), had)
    assert torch.equal(found[:2], had[:2])
    torch.testing.assert_close(found[2], torch.cov(free[0]))
