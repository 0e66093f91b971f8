"""The loop: resuming, budgets, files."""

import csv
import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.data.images import Folder, RandomCrops
from gibbsdiff.errors import InputError
from gibbsdiff.pretrained import load_model
from gibbsdiff.training.checkpoint import TableLog
from gibbsdiff.training.config import (
    DataConfig,
    EvaluationConfig,
    NetworkConfig,
    StepConfig,
    TrainingConfig,
    read_config,
)
from gibbsdiff.training.loop import train
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.spectral import SpectralObjective
from gibbsdiff.training.trainer import Budget, Trainer

TOML = """
[data]
also_at = [24]
[[data.folders]]
path = "images"
hold_out_every = 4
selection = 1
[network]
widths = [8, 16]
blocks = [1, 1]
embedding = 8
[step]
batch = 4
crop = 16
later_crop = 24
[evaluation]
sigma = [0.1]
phi = [0.0]
side = 24
"""

TINY = TrainingConfig(
    data=DataConfig((Folder("images", 4, selection=1),), also_at=(24,)),
    network=NetworkConfig(widths=(8, 16), blocks=(1, 1), embedding=8),
    step=StepConfig(batch=4, crop=16, later_crop=24),
    evaluation=EvaluationConfig(sigma=(0.1,), phi=(0.0,), side=24),
)


IMAGE = [torch.zeros(3, 24, 24)]


class StopError(Exception):
    pass


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
    crops = RandomCrops(IMAGE)
    trainer = Trainer(SpectralObjective(TINY), crops, Processes())
    trainer.begin_from(model)
    assert same(
        dict(trainer.denoiser.network.state_dict()), dict(load_model(model).network.state_dict())
    )
    other = replace(TINY, network=replace(TINY.network, widths=(8, 8)))
    with pytest.raises(InputError, match=r"model\.safetensors"):
        Trainer(SpectralObjective(other), crops, Processes()).begin_from(model)


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
    trainer = Trainer(
        SpectralObjective(TINY), RandomCrops([torch.full((3, 24, 24), torch.nan)]), Processes()
    )
    before = {k: v.clone() for k, v in trainer.denoiser.network.state_dict().items()}
    trainer.step(0.5)
    assert trainer.skipped == trainer.step_count == 1
    assert same(before, dict(trainer.denoiser.network.state_dict()))


def test_the_loss_falls(data, tmp_path):
    config = replace(TINY, step=replace(TINY.step, batch=8))
    crops = RandomCrops([torch.randint(0, 2, (3, 24, 24)) * 255])
    trainer = Trainer(SpectralObjective(config), crops, Processes())
    losses = [float(trainer.step(0.3)[0][0]) for _ in range(60)]
    assert sum(losses[-20:]) < 0.9 * sum(losses[:20])


def torch_state():
    """What a library has no business changing."""
    return (
        torch.get_rng_state().tolist(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.get_default_dtype(),
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
    )


@pytest.mark.parametrize("loading", ["memory", "workers"])
def test_a_run_leaves_torch_as_it_was(data, tmp_path, monkeypatch, loading):
    in_use = replace(TINY.data, loading=loading, also_at=())
    config = replace(TINY, data=in_use, step=replace(TINY.step, later_crop=16), threads=2)
    before = torch_state()
    seen = []
    step = Trainer.step

    def stopping(self, done):
        seen.append(torch.get_num_threads())
        if self.step_count == 2:
            raise StopError
        return step(self, done)

    monkeypatch.setattr(Trainer, "step", stopping)
    train(config, data, tmp_path / "whole", steps=2)
    assert seen == [2, 2]
    assert torch_state() == before
    with pytest.raises(StopError):
        train(config, data, tmp_path / "stopped", steps=9)
    assert torch_state() == before
    trainers = [Trainer(SpectralObjective(TINY), RandomCrops(IMAGE), Processes()) for _ in "ab"]
    assert torch_state() == before
    first, second = (dict(t.denoiser.network.state_dict()) for t in trainers)
    assert same(first, second)  # and the weights come from the configuration's seed


def test_the_log_goes_where_it_is_asked_to(data, tmp_path, capfd):
    lines = []
    train(TINY, data, tmp_path / "quiet", steps=2)
    train(TINY, data, tmp_path / "heard", steps=2, report=lines.append)
    assert capfd.readouterr() == ("", "")
    assert [line.split()[0] for line in lines] == ["2", "2"]
    assert "selection: PSNR" in lines[1]


def test_a_killed_run_drops_the_rows_after_its_checkpoint(tmp_path):
    log = TableLog(tmp_path / "steps.csv", 0)
    for step in (1, 2, 3):
        log.write({"step": step, "loss": 1 / step})
    TableLog(tmp_path / "steps.csv", 2).write({"step": 3, "loss": 0.5})
    assert column(tmp_path / "steps.csv", "loss") == [1, 0.5, 0.5]
    TableLog(tmp_path / "steps.csv", 0).write({"step": 1, "loss": 2.0})
    assert column(tmp_path / "steps.csv", "loss") == [2.0]


@pytest.mark.parametrize(
    ("device", "words"), [("gpu", "device gpu: cannot be used"), ("cuda:77", "device cuda:77")]
)
def test_a_device_that_is_not_there_is_one_line(command, data, tmp_path, device, words):
    (tmp_path / "tiny.toml").write_text(TOML)
    paths = (tmp_path / "tiny.toml", "--data", data, "--out", tmp_path / "out")
    assert words in command("train", *paths, "--steps", 1, "--device", device).refusal()
    assert not (tmp_path / "out").exists()


def test_two_processes_of_the_command_reproduce_one(command, data, tmp_path):
    pytest.importorskip("lightning_fabric")
    (tmp_path / "tiny.toml").write_text(TOML)
    assert read_config(tmp_path / "tiny.toml") == TINY

    def arguments(name):
        paths = (tmp_path / "tiny.toml", "--data", data, "--out", tmp_path / name)
        return [str(a) for a in ("train", *paths, "--steps", 6, "--device", "cpu")]

    result = command(*arguments("one"))
    assert result.code == 0, result.stderr
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    subprocess.run(
        [*launcher, "--nproc_per_node", "2", "-m", "gibbsdiff.cli", *arguments("two")],
        check=True,
        capture_output=True,
        timeout=3600,  # against a hang; how long it takes does not matter
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    one, two = (column(tmp_path / n / "steps.csv", "relative") for n in ("one", "two"))
    assert two == pytest.approx(one, rel=1e-5)
    ends = [load_model(tmp_path / n / "before-decay.safetensors") for n in ("one", "two")]
    weights = [end.network.state_dict() for end in ends]
    for key, value in weights[0].items():
        assert torch.allclose(value, weights[1][key], atol=1e-4)
