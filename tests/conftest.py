"""What all tests share: one thread, commands run in this process, and a machine that says no."""

import contextlib
import ctypes
import os
import random
import resource
import signal
import sys
from typing import NamedTuple

import pytest
import torch

from gibbsdiff.cli import main
from gibbsdiff.inference.summary import load_arviz
from gibbsdiff.networks import precision
from gibbsdiff.streams import Streams

torch.set_num_threads(1)
# What tests hold to many digits is the same on every processor; bfloat16 has tests of its own.
ASKED = precision.has_bfloat16
precision.has_bfloat16 = lambda: False
# With numba, arviz.mcse fails on NumPy 2.4; rhat and ess, which the package uses, do not.
load_arviz().Numba.disable_numba()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser):
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="files, and tests within them, in random order"
    )


def pytest_collection_modifyitems(config, items):
    """The same seed gives the same order, on every worker."""
    seed = config.getoption("--shuffle")
    if seed is not None:
        rng = random.Random(seed)
        place = {path: rng.random() for path in sorted({item.path for item in items})}
        rng.shuffle(items)
        items.sort(key=lambda item: place[item.path])


@pytest.fixture
def as_other_processes(monkeypatch):
    """The processor's own answer: what is compared with another process must ask it as well."""
    monkeypatch.setattr(precision, "has_bfloat16", ASKED)


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


WRITE, READ = 1 << 1, 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def _capabilities(new=None):
    """The effective capabilities of this thread (its lower 32), after setting them."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable, and their upper halves
    for call in ("capget",) if new is None else ("capget", "capset"):
        if call == "capset":
            sets[0] = new
        if getattr(libc, call)(header, sets):
            raise OSError(ctypes.get_errno(), call)
    return sets[0]


@contextlib.contextmanager
def _unprivileged(may_read=True):
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root's rights can be given up for a while on Linux alone")
    before = _capabilities()
    _capabilities(before & ~(WRITE if may_read else WRITE | READ))
    try:
        yield
    finally:
        _capabilities(before)


@pytest.fixture
def unprivileged():
    """`with unprivileged():` root, too, may not write where permissions forbid it.

    It may still read everything, so that late imports work wherever the package lies; with
    `may_read=False` it may not, and what the test imports must have been imported before.
    """
    return _unprivileged


@contextlib.contextmanager
def _no_room(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    # Python 3.11 keeps a compiled module that it could write only in part.
    compiles, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def no_room():
    """`with no_room(size):` files may not grow beyond it: the system's own refusal."""
    return _no_room
