"""Objectives by name: those of the package, and one of another package."""

import math
import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch

from gibbsdiff.cosmo.training import DustObjective
from gibbsdiff.data.images import RandomCrops
from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.training.config import ModelConfig, NetworkConfig, StepConfig, TrainingConfig
from gibbsdiff.training.epsilon import EpsilonObjective
from gibbsdiff.training.loop import train
from gibbsdiff.training.objective import objective_of
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.spectral import SpectralObjective
from gibbsdiff.training.trainer import Trainer

TINY = TrainingConfig(
    network=NetworkConfig(widths=(8, 16), blocks=(1, 1), embedding=8),
    step=StepConfig(batch=4, crop=16, later_crop=16),
)
SIGMA = 0.25


class TwoLevels(SpectralObjective):
    """Pictures of black and white under white noise of one level: a class of another package."""

    headline = ("error", "rms")

    def crops(self):
        rng = torch.Generator().manual_seed(0)
        return RandomCrops([255 * torch.randint(0, 2, (3, 32, 32), generator=rng)])

    def selection(self):
        return self.crops().draw(8, 16, torch.Generator().manual_seed(1))

    def noisy(self, x, rows, count, rng):
        white = torch.randn(count, *x.shape[1:], generator=rng)[rows]
        return x + SIGMA * white, covariance(x)

    def evaluate(self, model, images):
        rng = torch.Generator().manual_seed(2)
        z = images + SIGMA * torch.randn(images.shape, generator=rng)
        with torch.no_grad():
            error = model(z, covariance(images)).mean - images
        return {"rms": float(error.square().mean().sqrt())}


def covariance(x):
    side = x.shape[-1]
    power = torch.full((len(x), 1, side, side // 2 + 1), SIGMA**2)
    return SpectralCovariance(power, (side, side), torch.full((len(x), 1, 8), math.log(SIGMA)))


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("spectral", SpectralObjective),
        ("original", EpsilonObjective),
        ("resunet", EpsilonObjective),
        ("dust", DustObjective),
    ],
)
def test_the_names_of_the_package(kind, made):
    assert type(objective_of(replace(TINY, model=ModelConfig(kind)))) is made
    with pytest.raises(InputError, match=r"no 'other' \(there are dust, "):
        objective_of(replace(TINY, model=ModelConfig("other")))


def test_an_objective_of_another_package_trains(tmp_path, monkeypatch):
    place = tmp_path / "site" / "theirs-1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    table = "[gibbsdiff.objectives]\ntwo-levels = theirs:TwoLevels\n"
    (place / "entry_points.txt").write_text(table)
    monkeypatch.syspath_prepend(tmp_path / "site")
    theirs = ModuleType("theirs")
    theirs.TwoLevels = TwoLevels
    monkeypatch.setitem(sys.modules, "theirs", theirs)
    config = replace(TINY, model=ModelConfig("two-levels"))
    lines = []
    found = train(config, tmp_path, tmp_path / "out", steps=3, report=lines.append)
    assert "selection: error 0." in lines[-1]
    # The same three steps, with the class in hand.
    objective = TwoLevels(config)
    trainer = Trainer(objective, objective.crops(), Processes())
    for i in range(3):
        trainer.step(i / 3)
    expected = trainer.average.network.state_dict()
    assert all(torch.equal(v, expected[k]) for k, v in found.network.state_dict().items())
