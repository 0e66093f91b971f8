"""A model of dust maps of 32² that has learnt nothing, as a file."""

import math
from dataclasses import asdict

import pytest
import torch

from gibbsdiff.data.maps import Blocks
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.networks.unet import UNet
from gibbsdiff.pretrained import save_model
from gibbsdiff.training.config import DataConfig, TrainingConfig

SIGNAL = TabulatedSignal(
    tuple(math.log(k) for k in (1 / 128, 4 / 128, 16 / 128, 64 / 128)),
    (tuple(math.log(s) for s in (400.0, 30.0, 0.7, 0.006)),),
)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    torch.manual_seed(0)
    network = UNet(1, (8, 8), (1, 1), embedding=8, padding="circular")
    blocks = Blocks(train=(0, 0), selection=(1, 1), calibration=(1, 1), test=(1, 2))
    config = TrainingConfig(data=DataConfig(maps="maps.npz", blocks=blocks, halved=1))
    facts = {"mean": 1.0, "sd": 0.75, "side": 32, "train": 2}
    save_model(SpectralDenoiser(network, SIGNAL), path, {"config": asdict(config), "maps": facts})
    return path
