"""The configurations of the paper's network for cosmology, and the maps that they are given."""

import numpy as np
import pytest
import torch

from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import read_config
from gibbsdiff.training.objective import objective_of

SIDE = 32


@pytest.mark.parametrize(("name", "size"), [("paper-cosmo", 12.5e6), ("paper-cosmo-small", 1.34e6)])
def test_the_configurations_of_the_project(name, size, request):
    config = read_config(request.config.rootpath / "configs" / f"{name}.toml")
    side = 256 >> config.data.halved
    assert config.step.crop == config.step.later_crop == config.evaluation.side == side
    assert (config.model.kind, config.model.family) == ("resunet", "cmb")
    assert config.optimizer == "adamw"
    assert config.schedule.kind == "inverse-sqrt"
    objective = objective_of(config)
    # The paper's b(1)/a(1) = 1.363 of β_max = 2 does not cover the prior at 128².
    assert objective.family.highest_level((side, side)) < objective.process.highest < 1.38
    with torch.device("meta"):
        network = objective.model().network
    assert sum(p.numel() for p in network.parameters()) == pytest.approx(size, rel=0.01)
    assert network.multiple == 8


def test_the_loudest_noise_is_at_a_corner_of_the_prior():
    noise = CMBNoise()
    u = Streams(0, [(0,)]).uniform(500, 3)[0]
    phi = noise.low + u * (noise.high - noise.low)
    levels = noise.covariance((SIDE, SIDE), phi).level
    assert float(levels.max()) <= noise.highest_level((SIDE, SIDE))
    edge = torch.tensor([[1.2, 50.0, 0.0567]], dtype=torch.float64)
    corner = float(noise.covariance((SIDE, SIDE), edge).level)
    assert noise.highest_level((SIDE, SIDE)) == pytest.approx(corner)


def test_the_command_refuses_maps_with_holes(tmp_path, command, request):
    config = request.config.rootpath / "configs" / "paper-cosmo-small.toml"
    (tmp_path / "dust").mkdir()
    maps = np.zeros((24, 1, 16, 16), dtype=np.float32)
    maps[2, 0, 1, 1] = np.nan
    np.savez(tmp_path / "dust" / "maps.npz", maps=maps)
    result = command("train", config, "--data", tmp_path, "--out", tmp_path / "run", "--steps", 1)
    assert "maps.npz: NaN or infinite pixels in maps of 1 of 24" in result.refusal()
    assert not (tmp_path / "run").exists()
