"""Shared ground: one thread, and closed-form problems."""

import pytest
import torch

from gibbsdiff.posterior import arviz
from gibbsdiff.streams import Streams

torch.set_num_threads(1)
# With numba, arviz.mcse fails on NumPy 2.4; rhat and ess, which the package uses, do not.
arviz.Numba.disable_numba()


@pytest.fixture
def rng():
    """Streams of any number of rows under one seed: rng(rows)."""
    return lambda rows, seed=0: Streams.batch(seed, rows)
