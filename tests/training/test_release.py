"""Calibrating a trained model and writing its card."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from PIL import Image

from gibbsdiff.data.images import Folder
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.networks.unet import UNet
from gibbsdiff.pretrained import load_model, read_card, save_model
from gibbsdiff.training.config import (
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    TrainingConfig,
    read_config,
)
from gibbsdiff.training.objective import objective_of
from gibbsdiff.training.release import calibrate_file, release
from gibbsdiff.training.torch_state import seeded

TOML = """
[[data.folders]]
path = "a"
hold_out_every = 2
[[data.folders]]
path = "b"
hold_out_every = 2
rest = "calibration"
[evaluation]
sigma = [0.1]
phi = [0.0]
side = 32
"""
CONFIG = TrainingConfig(
    data=DataConfig((Folder("a", 2, rest="test"), Folder("b", 2, rest="calibration"))),
    evaluation=EvaluationConfig(sigma=(0.1,), phi=(0.0,), side=32),
)


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(3):
            rough = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
            rough.resize((40, 40), Image.Resampling.BICUBIC).save(tmp_path / name / f"{i}.png")
    torch.manual_seed(0)
    network = UNet(3, (8, 8), (1, 1), embedding=8)
    card = {
        "steps": 5,
        "minutes": 1.5,
        "budget": {"minutes": 1.5, "steps": None},
        "config": asdict(CONFIG),
    }
    save_model(SpectralDenoiser(network, NATURAL), tmp_path / "raw.safetensors", card)
    return tmp_path / "raw.safetensors"


def test_a_release_carries_its_table_and_its_figures(model, tmp_path):
    out = tmp_path / "out.safetensors"
    card = release(model, CONFIG, tmp_path, out, name="c.toml", test_folders=[tmp_path / "a"])
    assert read_card(out) == card
    assert card["steps"] == 5
    assert card["command"] == "gibbsdiff train c.toml --data DIR --out OUT --minutes 1.5"
    assert card["calibration"]["images"] == 8
    assert card["psnr"].keys() == {"test", "a"}
    page = (tmp_path / "out.md").read_text()
    assert f"mean over the cells {card['psnr']['a']['mean']:.2f} dB" in page
    for row in card["calibration"]["check"]:
        assert f"| {row['sigma']:g} | {row['phi']:g} | {row['median']:.3f} |" in page
    shipped = load_model(out)
    assert shipped.calibration.log_c.abs().max() > 0
    again = load_model(model).network.state_dict()
    assert all(torch.equal(v, again[k]) for k, v in shipped.network.state_dict().items())


def test_the_table_alone(model, tmp_path):
    out = tmp_path / "table.safetensors"
    made = calibrate_file(model, CONFIG, tmp_path, out)
    assert torch.allclose(load_model(out).calibration.log_c, made.calibration.log_c, atol=1e-6)


def test_held_out_images_are_needed(model, tmp_path):
    for folders, missing in (
        ((Folder("a"), Folder("b", 2, rest="calibration")), "no test images"),
        ((Folder("a", 2), Folder("b")), "no calibration images"),
    ):
        config = replace(CONFIG, data=DataConfig(folders))
        with pytest.raises(InputError, match=missing):
            release(model, config, tmp_path, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_the_command_writes_the_table_and_on_request_the_card(model, tmp_path, command):
    (tmp_path / "c.toml").write_text(TOML)
    assert read_config(tmp_path / "c.toml") == CONFIG
    out = tmp_path / "made" / "out.safetensors"
    paths = ("calibrate", model, tmp_path / "c.toml", "--data", tmp_path, "-o", out)
    result = command(*paths, "--device", "cpu")
    assert (result.code, result.stdout) == (0, ""), result.stderr
    assert [p.name for p in out.parent.iterdir()] == ["out.safetensors"]
    assert "--card" in command(*paths, "--table", tmp_path / "a").refusal()
    assert "device gpu" in command(*paths, "--device", "gpu").refusal()
    assert command(*paths, "--card", "--table", tmp_path / "a").code == 0
    assert "## PSNR" in (out.parent / "out.md").read_text()


def test_the_papers_networks_have_a_card_and_no_error_model(model, tmp_path):
    config = replace(CONFIG, model=ModelConfig("resunet", width=8, levels=1))
    objective = objective_of(config)
    paper, out = tmp_path / "paper.safetensors", tmp_path / "out.safetensors"
    facts = {**read_card(model), "config": asdict(config)}
    with seeded(0):
        objective.save(objective.model(), paper, facts)
    with pytest.raises(InputError, match="kind 'resunet' has no error model to calibrate"):
        calibrate_file(paper, config, tmp_path, out)
    card = release(paper, config, tmp_path, out, name="c.toml", test_folders=[tmp_path / "a"])
    assert read_card(out) == card
    assert card["psnr"].keys() == {"test", "a"}
    page = (tmp_path / "out.md").read_text()
    assert "the paper's U-Net (resunet), width 8, ε-prediction, β from 0.1 to 20" in page
    cell = card["psnr"]["test"]["cells"][0]
    assert f"| {cell[0]:g} | {cell[2]:.2f} |" in page
    assert "Error model" not in page
    assert load_model(out).digest() == load_model(paper).digest()
