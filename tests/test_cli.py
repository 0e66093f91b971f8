"""The command, as a user meets it."""

import pickle
import sys
from typing import NamedTuple

import numpy as np
import pytest
from matplotlib import pyplot

import gibbsdiff
from gibbsdiff.cli import main
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.streams import Streams


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `gibbsdiff …` in this process: the entry point, its exit code and what it printed."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gibbsdiff", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        return Result(stop.value.code or 0, *capsys.readouterr())

    return run


def refused(result):
    """Exit code 2, one line, no traceback."""
    assert result.returncode == 2, result.stderr
    assert result.stderr.strip().count("\n") == 0
    assert "Traceback" not in result.stderr
    return result.stderr


def test_version(command):
    assert command("--version").stdout.strip() == f"gibbsdiff {gibbsdiff.__version__}"


def test_demo_infers_the_noise_and_draws_a_figure(command, tmp_path):
    result = command("demo", "--size", 48, "--sigma", 0.2, "--phi", 0.5, "-o", tmp_path)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if "sigma" in line)
    _, truth, mean, sd, _, _, rhat, _ = [cell.strip() for cell in row.split("│") if cell.strip()]
    assert float(truth) == 0.2
    assert float(rhat) < 1.05
    assert abs(float(mean) - 0.2) < 5 * float(sd)
    assert pyplot.imread(tmp_path / "demo.png").std() > 0.05


def test_demo_on_a_noise_map_of_ones_own(command, tmp_path):
    eps = PowerLawNoise().draw((40, 56), (0.3, -0.5), Streams.batch(1, 1), 3)[0]
    np.save(tmp_path / "eps.npy", eps.numpy())
    result = command("demo", "--noise", tmp_path / "eps.npy", "-o", tmp_path)
    assert result.returncode == 0, result.stderr
    row = next(line for line in result.stdout.splitlines() if "phi" in line)
    _, mean, sd, *_ = [cell.strip() for cell in row.split("│") if cell.strip()]
    assert abs(float(mean) + 0.5) < 5 * float(sd)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sigma", 3], "sigma = 3 is outside its prior range"),
        (["--phi", -1.5], "phi = -1.5 is outside its prior range"),
        (["--size", 4], "size: 4 pixels"),
        (["--noise", "missing.npy"], "missing.npy: no such file"),
    ],
)
def test_bad_options_are_one_clear_line(command, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert words in refused(command("demo", *arguments))
    assert list(tmp_path.iterdir()) == []


class Trap:
    """A pickle that wants to run code."""

    def __reduce__(self):
        return (open, ("ran", "w"))


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("nan.npy", lambda f: np.save(f, np.full((9, 9), np.nan)), "81 of 81 pixels are NaN"),
        ("inf.npy", lambda f: np.save(f, np.full((9, 9), np.inf)), "NaN or infinite"),
        ("flat.npy", lambda f: np.save(f, np.zeros(81)), "not 1-D"),
        ("none.npy", lambda f: np.save(f, np.zeros((0, 9))), "the array is empty"),
        ("small.npy", lambda f: np.save(f, np.zeros((7, 9))), "7×9 pixels"),
        ("complex.npy", lambda f: np.save(f, np.zeros((9, 9), complex)), "dtype complex128"),
        ("object.npy", lambda f: np.save(f, np.full((9, 9), None)), "allow_pickle=False"),
        ("text.npy", lambda f: f.write_text("not an array"), "not a NumPy array"),
        ("empty.npy", lambda f: f.write_bytes(b""), "not a NumPy array"),
        ("trap.npy", lambda f: f.write_bytes(pickle.dumps(Trap())), "not a NumPy array"),
        ("pair.npz", lambda f: np.savez(f, a=1, b=2), "several arrays"),
        ("stack.npy", lambda f: np.save(f, np.zeros((2, 3, 9, 9))), r"need (H, W) or (C, H, W)"),
        ("folder.npy", lambda f: f.mkdir(), "folder.npy"),
    ],
)
def test_bad_noise_maps_are_one_clear_line(command, tmp_path, monkeypatch, name, make, words):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    error = refused(command("demo", "--noise", name, "-o", "out"))
    assert name in error
    assert words in error
    assert [p.name for p in tmp_path.iterdir()] == [name]
