"""The installed command as a process: pipes, a terminal, and real signals."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

from gibbsdiff.inference.posterior import Posterior

COMMAND = str(Path(sys.executable).with_name("gibbsdiff"))
PICTURE = data.astronaut()[:128, 150:278]
PATIENCE = 300  # seconds until a test gives up, on a machine however busy
QUICK = ("--quick", "--samples", "0", "--no-figure")


def environment():
    wide = {"COLUMNS": "200", "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    kept = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return kept | wide


def save(path, side):
    noise = np.random.default_rng(0).normal(size=(side, side, 3))
    array = np.clip(PICTURE[:side, :side] + 25 * noise, 0, 255).astype(np.uint8)
    Image.fromarray(array).save(path)


def names(folder):
    return sorted(p.name for p in folder.iterdir())


class Terminal:
    """The command with its standard error on a terminal, and standard output in a pipe."""

    def __init__(self, folder, *arguments):
        self.master, slave = pty.openpty()
        self.shown = ""
        # A shell ignores signals for what it runs in the background, and children inherit that.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.process = subprocess.Popen(
            [COMMAND, "denoise", *arguments],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=slave,
        )
        signal.signal(signal.SIGINT, before)
        os.close(slave)

    def read(self, deadline):
        """More of what is shown; False at its end."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing more within {PATIENCE} s: {self.shown}"
        try:
            content = os.read(self.master, 4096)
        except OSError:  # how Linux says that the other side is closed
            return False
        text = content.decode(errors="replace")
        self.shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
        return bool(content)

    def until(self, found):
        """Wait until what is shown fits."""
        deadline = time.monotonic() + PATIENCE
        while not found(self.shown):
            assert self.read(deadline), f"it ended: {self.shown}"

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        """Exit code and standard output."""
        deadline = time.monotonic() + PATIENCE
        while self.read(deadline):
            pass
        out = self.process.communicate(timeout=PATIENCE)[0].decode()
        os.close(self.master)
        return self.process.returncode, out


def steps(shown, stage):
    """The last n of n/m that a stage has reached; -1 before it is shown."""
    found = re.findall(rf"{stage} [^\r\n]*?(\d+)/(\d+)", shown)
    return int(found[-1][0]) if found else -1


def test_pipes_are_clean(tmp_path):
    for name in ("a.png", "b.png"):
        save(tmp_path / name, 32)
    result = subprocess.run(
        [COMMAND, "denoise", "a.png", "b.png", *QUICK],
        cwd=tmp_path, env=environment(), capture_output=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    assert result.stderr == b""
    assert b"\x1b" not in result.stdout
    assert b"\r" not in result.stdout
    lines = result.stdout.decode().splitlines()
    assert lines[0] == "a.png"
    assert "b.png" in lines
    assert "  a.denoised.png" in lines


def test_from_standard_input_to_standard_output(tmp_path):
    save(tmp_path / "a.png", 32)
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "empty").mkdir()
    result = subprocess.run(
        [COMMAND, "denoise", "-", "--sigma", "0.1", "--phi", "0", "--samples", "0"],
        cwd=tmp_path / "empty", env=environment(), input=content, capture_output=True, check=True,
        timeout=PATIENCE,
    )  # fmt: skip
    with Image.open(io.BytesIO(result.stdout)) as image:
        assert image.format == "PNG"
        denoised = np.array(image).astype(float)
    truth, noisy = PICTURE[:32, :32].astype(float), np.array(Image.open(io.BytesIO(content)))
    assert np.abs(denoised - truth).mean() < 0.6 * np.abs(noisy - truth).mean()
    assert result.stderr.decode().startswith("stdin.png\nthe noise was given")
    assert b"\x1b" not in result.stderr
    assert names(tmp_path / "empty") == []


def test_with_nothing_there_yet_nothing_is_written(tmp_path):
    """In the search of the marginal method; also: file n of N and the stage are shown."""
    for name in ("a.png", "b.png"):
        save(tmp_path / name, 128)
    run = Terminal(tmp_path, "a.png", "b.png", "--method", "marginal")
    run.until(lambda shown: steps(shown, "1 of 2, a.png: searching for the noise") >= 0)
    run.interrupt()
    code, out = run.end()
    assert code == 130
    assert out == ""
    assert "ending with what is there" in run.shown
    assert "2 of 2" not in run.shown
    assert "Traceback" not in run.shown
    assert names(tmp_path) == ["a.png", "b.png"]


def test_what_is_there_is_written_and_marked_and_the_next_picture_is_left(tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        save(tmp_path / name, 32)
    few = ("--chains", "2", "--calls", "1", "--draws", "100", "--method", "gibbs")
    run = Terminal(tmp_path, "a.png", "b.png", "c.png", *few)
    run.until(lambda shown: steps(shown, "1 of 3, a.png: Gibbs chains") >= 22)  # 20 are burn-in
    run.interrupt()
    code, out = run.end()
    assert code == 130
    assert "2 of 3" not in run.shown
    results = ["a.denoised.png", "a.png", "a.posterior.nc", "a.report.png", "a.uncertainty.tiff"]
    assert names(tmp_path) == [*results, "b.png", "c.png"]
    posterior = Posterior.load(tmp_path / "a.posterior.nc")
    assert posterior.interrupted
    assert not posterior.good
    assert posterior.verdict.startswith("INTERRUPTED")
    assert 1 <= posterior.phi.shape[1] < 100
    assert out.splitlines()[1].startswith("INTERRUPTED")
    assert "\x1b" not in out


def test_before_chains_have_draws_the_marginal_result_is_there(tmp_path):
    save(tmp_path / "a.png", 32)
    few = ("--chains", "2", "--calls", "1", "--draws", "2000", "--method", "gibbs", "--no-figure")
    run = Terminal(tmp_path, "a.png", *few, "--no-posterior", "--checkpoint", "chains.pt")
    run.until(lambda shown: steps(shown, "a.png: Gibbs chains") >= 1)
    run.interrupt()
    code, out = run.end()
    assert code == 130
    assert out.splitlines()[1].startswith("INTERRUPTED, the search ended: marginal")
    assert "interrupted before the chains had draws" in out
    assert names(tmp_path) == ["a.denoised.png", "a.png", "a.uncertainty.tiff", "chains.pt"]
