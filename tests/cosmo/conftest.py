"""Models of dust maps of 32² that have learnt nothing."""

import math
from dataclasses import asdict

import pytest
import torch

from gibbsdiff.cosmo.calibration import DUST
from gibbsdiff.data.maps import Blocks
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import TabulatedSignal
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise.cmb import CMBNoise
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


@pytest.fixture(scope="session")
def tiny():
    """Makes a network of the paper's kind, and its card."""

    def make(side=32, beta_max=2.1):
        torch.manual_seed(0)
        process = VariancePreserving(0.1, beta_max)
        ranges = [(p.low, p.high) for p in CMBNoise().parameters[1:]]
        maps = {"mean": 1.0, "sd": 0.75, "side": side, "train": 2, "spectrum": asdict(DUST)}
        card = {"maps": maps, "config": {"data": {"blocks": {"test": [1, 2]}}}}
        return EpsilonDenoiser(ResUNet(1, 2, (8, 16)), process, ranges, ("H0", "omega_b")), card

    return make
