"""Settings from TOML."""

from pathlib import Path

import pytest
import torch

from gibbsdiff.errors import InputError
from gibbsdiff.pretrained import load_spectral
from gibbsdiff.training.config import TrainingConfig, read_config
from gibbsdiff.training.objective import objective_of

CONFIGS = Path(__file__).parents[2] / "configs"


def test_the_shipped_configuration_is_the_recipe():
    config = read_config(CONFIGS / "natural-fast.toml")
    assert [f.path for f in config.data.folders] == ["imagenet", "bsds"]
    default = TrainingConfig()
    for part in ("network", "signal", "noise", "step", "schedule", "evaluation"):
        assert getattr(config, part) == getattr(default, part)


def test_the_configuration_of_natural_makes_its_network():
    config = read_config(CONFIGS / "natural.toml")
    law = config.noise
    assert (law.camera_part, law.together_part, law.gain_part, law.jpeg_part) == (
        0.4,
        0.5,
        0.4,
        0.25,
    )
    assert (config.data.zoom, config.data.zoom_by, config.data.dark) == (0.3, (1.2, 3.2), 0.15)
    with torch.device("meta"):
        made = objective_of(config).model().network.state_dict()
    shipped = load_spectral("natural").network.state_dict()
    assert {k: v.shape for k, v in made.items()} == {k: v.shape for k, v in shipped.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seeed = 1", "unknown key 'seeed'"),
        ("[network]\nwidths = 3", "widths: 3 is not"),
        ("[network]\npadding = 'mirror'", "padding: 'mirror' is not"),
        ("[model]\nkind = 'other'", "kind: 'other' is not"),
        ("optimizer = 'sgd'", "optimizer: 'sgd' is not"),
        ("[step]\nbatch = 1.5", "batch: 1.5 is not of type int"),
        ("[[data.folders]]\nhold_out_every = 2", "path"),
        ("seed = ", "not TOML"),
        ("step = 1", "needs a table"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_config(file)
    assert str(caught.value).startswith(str(file))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml"):
        read_config(tmp_path / "none.toml")


def test_batches_keep_their_pixels():
    step = TrainingConfig().step
    assert step.size(0.0) == step.size(0.59) == (16, 96)
    assert step.size(0.6) == (9, 128)
