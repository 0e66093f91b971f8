"""The loop: resuming, budgets, files."""

import csv
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.checks import InputError
from gibbsdiff.data.images import Folder, RandomCrops
from gibbsdiff.pretrained import load_model
from gibbsdiff.training.config import (
    DataConfig,
    EvaluationConfig,
    NetworkConfig,
    StepConfig,
    TrainingConfig,
)
from gibbsdiff.training.loop import train
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.trainer import Budget, Trainer

TINY = TrainingConfig(
    data=DataConfig((Folder("images", 4, selection=1),), also_at=(24,)),
    network=NetworkConfig(widths=(8, 16), blocks=(1, 1), embedding=8),
    step=StepConfig(batch=4, crop=16, later_crop=24),
    evaluation=EvaluationConfig(sigma=(0.1,), phi=(0.0,), side=24),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "images").mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        rough = rng.integers(0, 256, (6, 7, 3), dtype=np.uint8)
        smooth = Image.fromarray(rough).resize((42, 36), Image.Resampling.BICUBIC)
        smooth.save(root / "images" / f"{i}.png")
    return root


def same(a, b):
    """Whether two nested states are equal bit by bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def column(path, name):
    with open(path, newline="") as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def test_20_steps_are_10_and_10_resumed(data, tmp_path, monkeypatch):
    train(TINY, data, tmp_path / "whole", steps=20)

    class StopError(Exception):
        pass

    step = Trainer.step

    def stopping(self, done):
        if self.step_count == 10:
            raise StopError
        return step(self, done)

    # Saved before every step, and killed at the eleventh.
    often = replace(TINY, checkpoint_every=0.0)
    monkeypatch.setattr(Trainer, "step", stopping)
    with pytest.raises(StopError):
        train(often, data, tmp_path / "parts", steps=20)
    monkeypatch.undo()
    torch.rand(3)
    train(often, data, tmp_path / "parts", steps=20, resume=True)

    states = [
        torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)
        for name in ("whole", "parts")
    ]
    for state in states:
        assert state["step"] == 20
        del state["seconds"]
    assert same(*states)
    for name in ("relative", "pixel", "spectral"):
        scores = [column(tmp_path / n / "selection.csv", name) for n in ("whole", "parts")]
        assert scores[0] == scores[1]


def test_a_run_leaves_its_files(data, tmp_path):
    average = train(TINY, data, tmp_path, steps=4)
    loaded = load_model(tmp_path / "model.safetensors")
    for key, value in average.network.state_dict().items():
        assert torch.allclose(loaded.network.state_dict()[key], value, atol=1e-3, rtol=1e-3)
    kept = load_model(tmp_path / "before-decay.safetensors")
    checkpoint = torch.load(tmp_path / "before-decay.pt", weights_only=True)
    assert checkpoint["step"] == 3
    assert same(dict(kept.network.state_dict()), dict(checkpoint["network"]))
    assert len(column(tmp_path / "steps.csv", "relative")) == 1
    assert column(tmp_path / "selection.csv", "psnr")[-1] > 10


def test_init_takes_the_weights_and_refuses_another_network(data, tmp_path):
    train(TINY, data, tmp_path / "one", steps=2)
    model = tmp_path / "one" / "model.safetensors"
    crops = RandomCrops([torch.zeros(3, 24, 24)])
    trainer = Trainer(TINY, crops, Processes())
    trainer.begin_from(model)
    assert same(
        dict(trainer.denoiser.network.state_dict()), dict(load_model(model).network.state_dict())
    )
    other = replace(TINY, network=replace(TINY.network, widths=(8, 8)))
    with pytest.raises(InputError, match=r"model\.safetensors"):
        Trainer(other, crops, Processes()).begin_from(model)


def test_resuming_needs_a_checkpoint(data, tmp_path):
    with pytest.raises(InputError, match=r"checkpoint\.pt: there is no checkpoint"):
        train(TINY, data, tmp_path, steps=2, resume=True)
    (tmp_path / "checkpoint.pt").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"checkpoint\.pt: not a checkpoint"):
        train(TINY, data, tmp_path, steps=2, resume=True)


def test_a_budget_is_minutes_or_steps():
    assert Budget(minutes=2).done(7, 60) == 0.5
    assert Budget(steps=10).done(7, 60) == 0.7
    for wrong in ({}, {"minutes": 1, "steps": 1}, {"minutes": -1}):
        with pytest.raises(InputError, match="budget"):
            Budget(**wrong)


def test_a_gradient_that_is_not_finite_is_skipped_and_counted():
    trainer = Trainer(TINY, RandomCrops([torch.full((3, 24, 24), torch.nan)]), Processes())
    before = {k: v.clone() for k, v in trainer.denoiser.network.state_dict().items()}
    trainer.step(0.5)
    assert trainer.skipped == trainer.step_count == 1
    assert same(before, dict(trainer.denoiser.network.state_dict()))


def test_the_loss_falls(data, tmp_path):
    config = replace(TINY, step=replace(TINY.step, batch=8))
    crops = RandomCrops([torch.randint(0, 2, (3, 24, 24)) * 255])
    trainer = Trainer(config, crops, Processes())
    losses = [float(trainer.step(0.3)[0][0]) for _ in range(60)]
    assert sum(losses[-20:]) < 0.9 * sum(losses[:20])


SCRIPT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_loop import TINY
from gibbsdiff.training.loop import train
train(TINY, sys.argv[1], sys.argv[2], steps=6)
"""


def test_two_processes_reproduce_one(data, tmp_path):
    pytest.importorskip("lightning_fabric")
    script = tmp_path / "run.py"
    script.write_text(SCRIPT)
    train(TINY, data, tmp_path / "one", steps=6)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--master_addr", "127.0.0.1", "--master_port", str(port)]
    subprocess.run(
        [*command, str(script), str(data), str(tmp_path / "two")],
        check=True,
        capture_output=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    one, two = (column(tmp_path / n / "steps.csv", "relative") for n in ("one", "two"))
    assert two == pytest.approx(one, rel=1e-5)
    ends = [load_model(tmp_path / n / "before-decay.safetensors") for n in ("one", "two")]
    weights = [end.network.state_dict() for end in ends]
    for key, value in weights[0].items():
        assert torch.allclose(value, weights[1][key], atol=1e-4)
