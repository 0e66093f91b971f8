"""Settings of torch that hold for the whole process, changed for a while and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(count: int) -> Iterator[None]:
    """`with threads(n):` torch computes with n threads; afterwards with as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """`with seeded(s):` the generator that new weights are drawn from starts at a seed; afterwards
    it goes on as if nothing had been drawn.
    """
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed, which would also seed every GPU: weights are drawn on the CPU.
        torch.default_generator.manual_seed(seed)
        yield
