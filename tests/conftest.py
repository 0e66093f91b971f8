"""Shared ground: one thread, and closed-form problems."""

import contextlib
import os
import resource
import sys
from typing import NamedTuple

import pytest
import torch

from gibbsdiff.cli import main
from gibbsdiff.inference.posterior import arviz
from gibbsdiff.streams import Streams

torch.set_num_threads(1)
# With numba, arviz.mcse fails on NumPy 2.4; rhat and ess, which the package uses, do not.
arviz.Numba.disable_numba()


@pytest.fixture
def rng():
    """Streams of any number of rows under one seed: rng(rows)."""
    return lambda rows, seed=0: Streams.batch(seed, rows)


class Result(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    stdout: str
    stderr: str

    def refusal(self):
        """Exit code 2, one line, no traceback: the line."""
        assert self.code == 2, self
        assert self.stderr.startswith("gibbsdiff: "), self
        assert self.stderr.strip().count("\n") == 0, self
        return self.stderr.strip()


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `gibbsdiff …` in this process, by its entry point."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gibbsdiff", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Result(stop.value.code or 0, *capsys.readouterr())

    return run


@contextlib.contextmanager
def _nobody():
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def nobody():
    """Root may write everywhere: `with nobody():` is someone else for a while."""
    return _nobody


@contextlib.contextmanager
def _no_room(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def no_room():
    """`with no_room(size):` files may not grow beyond it: the system's own refusal."""
    return _no_room
