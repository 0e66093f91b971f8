"""The paper's model of pictures, and what is common to both: settings, training, files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.data.images import Folder
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import power
from gibbsdiff.networks import OriginalUNet
from gibbsdiff.pretrained import epsilon, load_model
from gibbsdiff.pretrained.epsilon import architecture, load_authors, load_epsilon
from gibbsdiff.training.config import read_config
from gibbsdiff.training.epsilon import EpsilonObjective
from gibbsdiff.training.loop import train
from gibbsdiff.training.objective import objective_of
from gibbsdiff.training.trainer import Trainer

CONFIGS = Path(__file__).parents[2] / "configs"
KINDS = {"original": DiscreteVariancePreserving, "resunet": VariancePreserving}
every_kind = pytest.mark.parametrize("kind", KINDS)


def small(kind="original", **data):
    """The shipped configuration, at an eighth of the width, on images of 16²."""
    config = read_config(CONFIGS / "paper-natural.toml")
    folder = Folder("images", 4, selection=1)
    return replace(
        config,
        data=replace(config.data, folders=(folder,), **{"workers": 0, **data}),
        model=replace(config.model, kind=kind, width=8, levels=2),
        step=replace(config.step, batch=4, crop=16, later_crop=16),
        evaluation=replace(config.evaluation, sigma=(0.1,), phi=(0.0,), side=16),
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "images").mkdir()
    rng = np.random.default_rng(0)
    for i in range(6):
        rough = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        rough.resize((24, 20), Image.Resampling.BICUBIC).save(root / "images" / f"{i}.png")
    return root


def weights_of(path):
    return torch.load(path / "checkpoint.pt", weights_only=True)


def test_the_network_has_the_papers_size():
    with torch.device("meta"):
        model = objective_of(read_config(CONFIGS / "paper-natural.toml")).model()
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(70e6, rel=0.05)


@every_kind
def test_two_steps_leave_a_model_that_denoises(kind, data, tmp_path):
    config = small(kind)
    trained = train(config, data, tmp_path, steps=2)
    loaded = load_epsilon(tmp_path / "model.safetensors")
    assert architecture(loaded.network) == architecture(trained.network)
    assert loaded.ranges == trained.ranges == ((-1.0, 1.0),)
    assert type(loaded.process) is type(trained.process) is KINDS[kind]
    assert loaded.process.highest == trained.process.highest
    for key, value in trained.network.state_dict().items():
        given = loaded.network.state_dict()[key]
        assert torch.allclose(given, value, atol=1e-3, rtol=1e-3)
        assert torch.equal(given, value) or not key.endswith("omega")
    for log, column in (("steps", "epsilon"), ("selection", "psnr")):
        heading, row = (tmp_path / f"{log}.csv").read_text().splitlines()
        value = dict(zip(heading.split(","), row.split(","), strict=True))[column]
        assert np.isfinite(float(value))
    # Without a decay there is nothing to keep from before it, without a memory no average.
    assert not (tmp_path / "before-decay.pt").exists()
    state = weights_of(tmp_path)
    assert all(torch.equal(v, state["average"][k]) for k, v in state["network"].items())
    with pytest.raises(InputError, match=r"model\.safetensors: .*not a model"):
        load_model(tmp_path / "model.safetensors")


def test_20_steps_are_10_and_10_resumed(data, tmp_path, monkeypatch):
    # With images by step and noise from the checkpoint's generator, both must come back.
    config = small("resunet", loading="workers")
    config = replace(config, model=replace(config.model, levels=1))
    train(config, data, tmp_path / "whole", steps=20)

    class StopError(Exception):
        pass

    step = Trainer.step

    def stopping(self, done):
        if self.step_count == 10:
            raise StopError
        return step(self, done)

    often = replace(config, checkpoint_every=0.0)
    monkeypatch.setattr(Trainer, "step", stopping)
    with pytest.raises(StopError):
        train(often, data, tmp_path / "parts", steps=20)
    monkeypatch.undo()
    train(often, data, tmp_path / "parts", steps=20, resume=True)
    whole, parts = weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts")
    assert whole["step"] == parts["step"] == 20
    assert all(torch.equal(v, parts["network"][k]) for k, v in whole["network"].items())
    assert torch.equal(whole["rng"], parts["rng"])


def test_init_continues_a_model(data, tmp_path):
    config = small("resunet")
    first = train(config, data, tmp_path / "one", steps=1)
    still = replace(config, schedule=replace(config.schedule, kind="constant", lr=0.0))
    model = tmp_path / "one" / "model.safetensors"
    second = train(still, data, tmp_path / "two", steps=1, init=model)
    for key, value in first.network.state_dict().items():
        assert torch.allclose(second.network.state_dict()[key], value, atol=1e-3, rtol=1e-3)


@every_kind
def test_training_noise_is_of_the_family_at_uniform_times(kind):
    objective = EpsilonObjective(small(kind))
    n = 600
    rows, rng = torch.arange(n), torch.Generator().manual_seed(0)
    x = torch.zeros(n, 1, 16, 16)
    z, noise = objective.noisy(x, rows, n, rng)
    t = objective.process.time(noise.level)
    assert abs(float(t.mean()) - 0.5) < 4 / (12 * n) ** 0.5
    assert torch.quantile(t, 0.9) == pytest.approx(0.9, abs=0.05)
    if kind == "original":
        steps = t * objective.process.steps
        assert torch.allclose(steps, steps.round(), atol=0.01)
    phi = noise.shape_parameters
    assert phi.shape == (n, 1)
    assert abs(float(phi.mean())) < 4 / (3 * n) ** 0.5
    exact = objective.family.power((16, 16), torch.cat([noise.level[:, None], phi.double()], 1))
    assert torch.allclose(noise.power.double(), exact, rtol=1e-4)
    ratio = (power(z) / noise.power).mean()
    assert float(ratio) == pytest.approx(1, abs=0.02)


@every_kind
def test_a_processs_rows_are_those_of_the_whole_batch(kind):
    objective = objective_of(small(kind))
    x = torch.rand(6, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    whole, one, other = (torch.Generator().manual_seed(1) for _ in range(3))
    z, noise = objective.noisy(x, torch.arange(6), 6, whole)
    for rng, start in ((one, 0), (other, 1)):
        rows = torch.arange(6)[start::2]
        part, covariance = objective.noisy(x[rows], rows, 6, rng)
        assert torch.equal(part, z[rows])
        assert torch.equal(covariance.power, noise.power[rows])
        assert torch.equal(rng.get_state(), whole.get_state())


def test_workers_and_resized_copies_exclude_each_other(data, tmp_path):
    config = small(also_at=(12,))
    with pytest.raises(InputError, match="also_at"):
        train(config, data, tmp_path, steps=1)


def test_the_authors_checkpoints_are_denoisers_of_their_own_chain(tmp_path, monkeypatch):
    monkeypatch.setattr(epsilon, "load_lightning", lambda _: OriginalUNet(steps=700, width=8))
    denoiser = load_authors("theirs.ckpt")
    assert denoiser.process.steps == 700
    assert denoiser.ranges == ((-1.0, 1.0),)
    assert not denoiser.training
    monkeypatch.undo()
    (tmp_path / "foreign.ckpt").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"foreign\.ckpt: not a PyTorch checkpoint"):
        load_authors(tmp_path / "foreign.ckpt")
