"""Keyed randomness: rows do not know of each other."""

import pytest
import torch
from scipy import stats

from gibbsdiff.streams import Streams


def test_a_row_does_not_depend_on_its_batch():
    alone = Streams(3, [(4, 1)])
    batch = Streams(3, [(0, 0), (4, 1), (9, 2)])
    assert torch.equal(alone.normal(5), batch.normal(5)[1:2])
    assert torch.equal(alone.uniform(5), batch.rows([1]).uniform(5))


def test_rows_share_their_state_with_the_batch():
    batch, same = Streams.batch(0, 2), Streams.batch(0, 2)
    batch.rows([1]).normal(3)
    drawn = batch.normal(3)
    assert torch.equal(drawn[0], same.normal(3)[0])
    assert torch.equal(drawn[1], same.normal(3)[1])


def test_keys_seeds_and_folds_differ():
    streams = [
        Streams(0, [(1,)]),
        Streams(1, [(1,)]),
        Streams(0, [(1, 0)]),
        Streams(0, [(1,)]).fold(1),
        Streams(0, [(0, 1)]),
    ]
    first = {float(s.normal()) for s in streams}
    assert len(first) == len(streams)


def test_laws():
    rng = Streams.batch(1, 4)
    assert stats.kstest(rng.normal(5000).flatten().numpy(), "norm").pvalue > 0.01
    assert stats.kstest(rng.uniform(5000).flatten().numpy(), "uniform").pvalue > 0.01
    steps = torch.cat([Streams.batch(s, 50).integers(5, 15) for s in range(100)])
    assert stats.chisquare(torch.bincount(steps)[5:].numpy()).pvalue > 0.01
    assert int(steps.min()) == 5
    assert int(steps.max()) == 15


def test_negative_keys_are_refused():
    with pytest.raises(ValueError, match="non-negative"):
        Streams(-1, [(0,)])
