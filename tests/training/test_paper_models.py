"""The paper's model of pictures, and what is common to both: settings, training, files."""

import os
import pickle
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
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.pretrained import load_model, load_spectral, read_card
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
    again = load_model(tmp_path / "model.safetensors")
    assert again.digest() == loaded.digest()
    assert read_card(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"model\.safetensors: a model of the paper's kind"):
        load_spectral(tmp_path / "model.safetensors")


@every_kind
def test_white_noise_on_pictures_has_no_colour_to_be_told(kind, data, tmp_path):
    config = small(kind)
    train(replace(config, model=replace(config.model, family="white")), data, tmp_path, steps=1)
    loaded = load_epsilon(tmp_path / "model.safetensors")
    assert loaded.ranges == ()
    heading, row = (tmp_path / "selection.csv").read_text().splitlines()
    scores = dict(zip(heading.split(","), row.split(","), strict=True))
    assert float(scores["psnr_0.1"]) == float(scores["psnr"])


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


def authors_file(path, **others):
    """A checkpoint as the authors' trainer writes it, of a narrow network."""
    torch.manual_seed(0)
    network = OriginalUNet(width=8)
    state = {f"model.{key}": value for key, value in network.state_dict().items()}
    known = {"epoch": 9, "state_dict": state, "hyper_parameters": {"diffusion_steps": 700}}
    torch.save(known | others, path)
    return network


@pytest.mark.parametrize("load", [load_authors, load_model])
def test_the_authors_checkpoints_are_denoisers_of_their_own_chain(load, tmp_path):
    """The file's own network, at the step of the noise's level: D = z - σ ε_θ(a z, i, φ)."""
    path = tmp_path / "theirs.ckpt"
    network = authors_file(path).eval()
    denoiser = load(path)
    assert denoiser.process.steps == 700
    assert denoiser.ranges == ((-1.0, 1.0),)
    assert not denoiser.training
    assert read_card(path) == {}
    step, phi = 200, 0.3
    ratio = 1 / float(denoiser.process.a(torch.tensor(step / 700.0).double())) ** 2 - 1
    noise = PowerLawNoise((0.01, 9.0)).covariance((16, 16), torch.tensor([[ratio**0.5, phi]]))
    z = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        epsilon = network(z / (1 + ratio) ** 0.5, torch.tensor([step - 1.0]), torch.tensor([[phi]]))
    expected = z - ratio**0.5 * epsilon
    torch.testing.assert_close(denoiser(z, noise).mean, expected, atol=2e-4, rtol=1e-3)


class Trap:
    def __reduce__(self):
        return os.mkdir, ("it ran",)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: f.write_bytes(b"nothing"), "not a PyTorch checkpoint"),
        (lambda f: torch.save({"weights": torch.ones(2)}, f), "not a checkpoint of the paper's"),
        (lambda f: authors_file(f, callbacks=Trap()), "asks to run posix.mkdir, refused"),
        (lambda f: f.write_bytes(pickle.dumps(Trap(), 2)), "asks to run posix.mkdir, refused"),
    ],
    ids=["bytes", "foreign", "objects", "old pickle"],
)
def test_what_is_no_checkpoint_is_one_line(make, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "foreign.ckpt")
    with pytest.raises(InputError, match=words) as trouble:
        load_model("foreign.ckpt")
    assert str(trouble.value).startswith("foreign.ckpt: ")
    assert "\n" not in str(trouble.value)
    assert [p.name for p in tmp_path.iterdir()] == ["foreign.ckpt"]
    with pytest.raises(InputError, match="a checkpoint of PyTorch; a model of this package"):
        load_spectral("foreign.ckpt")
