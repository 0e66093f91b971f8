"""Shared ground: one thread, and closed-form problems."""

import pytest
import torch

from gibbsdiff.streams import Streams

torch.set_num_threads(1)


@pytest.fixture
def rng():
    """Streams of any number of rows under one seed: rng(rows)."""
    return lambda rows, seed=0: Streams.batch(seed, rows)
