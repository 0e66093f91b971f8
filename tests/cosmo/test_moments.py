"""The moment network of a dust model: where it lies, who uses it, and the command that makes it."""

import shutil

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.calibration import DUST
from gibbsdiff.cosmo.infer import MOMENTS, centre_of, dust_model, gaussian_start, start_of
from gibbsdiff.cosmo.moment_start import moments_bytes, new_moments, read_moments
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.search import find_mode
from gibbsdiff.networks.moment_cnn import MomentCNN
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import available
from gibbsdiff.streams import Streams

SIDE = 32
CONFIG = """
[model]
kind = "dust"
[data]
maps = "maps.npz"
halved = 1
[data.blocks]
train = [0, 1]
selection = [3, 3]
calibration = [3, 3]
test = [5, 5]
[network]
channels = 1
[noise]
family = "cmb"
level = [0.02, 1.2]
tail_part = 0.0
[step]
crop = 32
later_crop = 32
"""


@pytest.fixture
def data(tmp_path):
    x = GaussianDenoiser(DUST).prior((64, 64), Streams.batch(0, 12)).float()
    np.savez(tmp_path / "maps.npz", maps=x.reshape(6, 2, 64, 64).numpy())
    (tmp_path / "config.toml").write_text(CONFIG)
    return tmp_path


def test_the_command_trains_writes_and_compares(data, model, command):
    out = data / "tiny.moments.npz"
    arguments = ["cmb", "moments", data / "config.toml", "--data", data, "-o", out]
    first = command(*arguments, "--steps", 3, "--batch", 4, "--repeats", 1, "--model", model)
    assert first.code == 0, first.stderr
    assert read_moments(out).fits(CMBNoise())
    lines = [line.strip() for line in first.stdout.splitlines()]
    rows = [line.split()[-3:] for line in lines if line.startswith("moment network ")]
    assert len(rows) == 2  # selection and test
    assert all(0 < float(v) < 1 for row in rows for v in row)
    assert first.stdout.count("mode from the best of many prior draws") == 2
    old = out.read_bytes()
    again = command(*arguments, "--steps", 0, "--repeats", 1, "--model", model)
    assert again.code == 0, again.stderr
    assert again.stdout == first.stdout  # measured as it is in the file
    assert out.read_bytes() == old
    paper = data / "paper.moments.npz"
    arguments[-1] = paper
    other = command(*arguments, "--kind", "paper", "--steps", 2, "--batch", 4, "--repeats", 1)
    assert other.code == 0, other.stderr
    assert other.stdout.count("moment network ") == 2
    assert read_moments(paper).fits(CMBNoise())
    assert isinstance(read_moments(paper).network, MomentCNN)
    arguments[-1] = out
    line = command(*arguments, "--init", data / "config.toml").refusal()
    assert "config.toml: not a file of a moment network" in line
    assert out.read_bytes() == old


def test_a_models_moment_network_lies_beside_it(model, tmp_path):
    noise = CMBNoise()
    own = tmp_path / "own.safetensors"
    shutil.copy(model, own)
    assert dust_model(SIDE, own).moments is None
    beside = own.with_suffix(MOMENTS)
    beside.write_bytes(moments_bytes(new_moments(SIDE, noise)))
    found = dust_model(SIDE, own)
    y = torch.ones(1, 1, SIDE, SIDE)
    middle = start_of(y, found.denoiser.signal, noise, found.moments)
    assert torch.allclose(middle, (noise.low + noise.high)[None] / 2)  # it has learnt nothing
    # With another prior it does not know what it says.
    other = CMBNoise(sigma=(0.1, 1.0))
    start = start_of(y, found.denoiser.signal, other, found.moments)
    assert torch.equal(start, gaussian_start(y, found.denoiser.signal, other))
    mode = find_mode(Marginal(y, other, found.denoiser), start, most=1)
    mean, covariance = centre_of(y, mode, noise, found.moments)
    assert torch.equal(mean, middle)
    assert torch.allclose(covariance[0].diagonal().sqrt(), (noise.high - noise.low) / 4)
    assert centre_of(y, mode, other, found.moments) == (mode.phi, mode.covariance)
    beside.write_bytes(moments_bytes(new_moments(64, noise)))
    with pytest.raises(InputError, match="knows maps of side 64, not 32"):
        dust_model(SIDE, own)
    beside.write_bytes(b"")
    with pytest.raises(InputError, match="not a file of a moment network"):
        dust_model(SIDE, own)


def test_those_of_the_package_are_of_its_models():
    for name in available():
        if name.startswith("dust"):
            side = int(name.removeprefix("dust"))
            moments = dust_model(side).moments
            assert moments is None or moments.fits(CMBNoise())
