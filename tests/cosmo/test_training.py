"""Training on maps with the CMB as noise, on tiny synthetic maps."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.training import DustObjective, evaluate_dust
from gibbsdiff.data.maps import Blocks, ShiftedMaps, read_maps
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal, TabulatedSignal, wiener
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.networks.unet import UNet
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_model, read_card
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import (
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    NetworkConfig,
    StepConfig,
    TrainingConfig,
    read_config,
)
from gibbsdiff.training.loop import train
from gibbsdiff.training.noise import NoiseLaw, add_noise
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.release import calibrate_file, release
from gibbsdiff.training.trainer import Trainer

TINY = TrainingConfig(
    model=ModelConfig("dust"),
    data=DataConfig(maps="dust/maps.npz", halved=1, blocks=Blocks((0, 3), (5, 5), (5, 5), (7, 7))),
    network=NetworkConfig(1, (8, 16), (1, 1), embedding=8, padding="circular"),
    noise=NoiseLaw(level=(0.02, 1.2), tail_part=0.0, family="cmb"),
    step=StepConfig(batch=4, crop=32, later_crop=32),
    evaluation=EvaluationConfig(sigma=(0.5,), side=32),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Maps of two levels: not Gaussian, so that a network has something to learn."""
    root = tmp_path_factory.mktemp("data")
    (root / "dust").mkdir()
    law = GaussianDenoiser(PowerLawSignal((1e-3,), (2.6,)))
    x = law.prior((64, 64), Streams.batch(0, 16))
    maps = (x > 0).float().reshape(8, 2, 64, 64)
    np.savez(root / "dust" / "maps.npz", maps=maps.numpy())
    return root


def state(path):
    return torch.load(path / "checkpoint.pt", weights_only=True)


def test_the_noise_has_the_covariance_that_the_network_is_given():
    law = NoiseLaw(level=(0.02, 1.2), tail_part=0.0, family="cmb")
    rng = torch.Generator().manual_seed(0)
    z, cmb = add_noise(torch.zeros(400, 1, 32, 32), rng, law)
    ratio = power(z.double()) / cmb.power
    weight = half_plane((32, 32)).weight.reshape(1, 1, 32, -1)
    mean = float((ratio * weight).sum() / (400 * 32**2))
    assert abs(mean - 1) < 5 * math.sqrt(2 / (400 * 32**2))
    # σ is log-uniform: the level is σ at the fiducial cosmology and near it elsewhere.
    log_level = torch.log(cmb.level)
    assert log_level.min() < math.log(0.03)
    assert log_level.max() > math.log(0.9)
    assert abs(float(log_level.mean()) - 0.5 * math.log(0.02 * 1.2)) < 0.3
    at = CMBNoise().descriptor((32, 32), torch.tensor([[0.3, 70.0, 0.03]], dtype=torch.float64))
    assert at.shape == cmb.descriptor[:1].shape


def test_6_steps_are_3_and_3_resumed_with_scale_and_spectrum_stored(data, tmp_path, monkeypatch):
    train(TINY, data, tmp_path / "whole", steps=6)

    class StopError(Exception):
        pass

    step = Trainer.step

    def stopping(self, done):
        if self.step_count == 3:
            raise StopError
        return step(self, done)

    often = replace(TINY, checkpoint_every=0.0)
    monkeypatch.setattr(Trainer, "step", stopping)
    with pytest.raises(StopError):
        train(often, data, tmp_path / "parts", steps=6)
    monkeypatch.undo()
    train(often, data, tmp_path / "parts", steps=6, resume=True)
    whole, parts = state(tmp_path / "whole"), state(tmp_path / "parts")
    assert torch.equal(whole["rng"], parts["rng"])
    for key in ("network", "average"):
        assert all(torch.equal(v, parts[key][name]) for name, v in whole[key].items())

    maps = read_maps(data / "dust" / "maps.npz", TINY.data.blocks, 1)
    for name in ("model", "before-decay", "before-decay-average"):
        path = tmp_path / "whole" / f"{name}.safetensors"
        assert load_model(path).signal == TabulatedSignal.measured(maps.train)
        card = read_card(path)
        assert (card["maps"]["mean"], card["maps"]["sd"]) == (maps.mean, maps.sd)


def test_an_untrained_network_scores_as_the_wiener_filter(data):
    torch.manual_seed(0)
    maps = read_maps(data / "dust" / "maps.npz", TINY.data.blocks, 1)
    network = UNet(1, (8, 16), (1, 1), embedding=8, padding="circular")
    torch.nn.init.zeros_(network.outputs.weight)
    denoiser = SpectralDenoiser(network, TabulatedSignal.measured(maps.train))
    noise = CMBNoise()
    (cell,) = evaluate_dust(denoiser, maps.train, noise, (0.5,), ((67.4, 0.0224),))
    assert cell.gain == pytest.approx(0, abs=1e-3)
    # On the maps whose spectrum it is, the Wiener filter's error is V, by definition of S_x.
    cmb = noise.covariance((32, 32), torch.tensor([[0.5, 67.4, 0.0224]], dtype=torch.float64))
    V = wiener(denoiser.signal.power((32, 32)), cmb.power).V
    expected = -10 * math.log10(float(half_plane((32, 32)).mean(V.flatten(2))))
    assert cell.wiener == pytest.approx(expected, abs=0.5)
    assert cell.relative == pytest.approx(1, abs=0.12)


def test_the_loss_falls_below_the_wiener_filters(data):
    maps = read_maps(data / "dust" / "maps.npz", TINY.data.blocks, 1)
    config = replace(
        TINY,
        noise=replace(TINY.noise, level=(0.4, 0.6)),
        network=replace(TINY.network, widths=(16, 32), embedding=16),
        step=replace(TINY.step, batch=8),
        schedule=replace(TINY.schedule, lr=6e-3),
    )
    one = ShiftedMaps(maps.finest[:1], 1)  # one map is learnt fast
    trainer = Trainer(DustObjective(config, data), one, Processes())
    losses = [float(trainer.step(0.3)[0][0]) for _ in range(80)]
    assert sum(losses[-20:]) / 20 < 0.85


def test_a_card_says_what_the_dust_is(data, tmp_path):
    train(TINY, data, tmp_path, steps=2)
    model, out = tmp_path / "model.safetensors", tmp_path / "out.safetensors"
    card = release(model, TINY, data, out, name="c.toml")
    assert read_card(out) == card
    page = (tmp_path / "out.md").read_text()
    assert "own simulation" in page
    assert "train 0-3, selection 5-5" in page
    assert len(card["calibration"]["check"]) == 12
    for row in card["dust"]["test"]:
        assert f"| {row[0]:g} | 67.4 | 0.0224 | {row[3]:.2f} | {row[4]:.2f} |" in page
    made = calibrate_file(model, TINY, data, tmp_path / "table.safetensors")
    assert torch.equal(load_model(out).calibration.log_c, made.calibration.log_c.float().double())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": StepConfig(crop=64, later_crop=64)}, "must be 32"),
        ({"noise": NoiseLaw()}, '"cmb" or "white" noise'),
        ({"model": ModelConfig("spectral")}, 'needs .model. kind = "dust"'),
        ({"data": replace(TINY.data, maps="nothing.npz")}, r"nothing\.npz"),
    ],
)
def test_configurations_that_do_not_fit_maps(data, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        train(replace(TINY, **change), data, tmp_path, steps=1)


@pytest.mark.parametrize(
    ("name", "family"), [("cosmo", "cmb"), ("cosmo128", "cmb"), ("white-small", "white")]
)
def test_the_configurations_of_the_project(name, family, request):
    config = read_config(request.config.rootpath / "configs" / f"{name}.toml")
    assert config.step.crop == config.step.later_crop == 256 >> config.data.halved
    assert config.model.kind == "dust"
    assert config.noise.family == family


WHITE = replace(TINY, noise=NoiseLaw(level=(0.01, 10.0), tail_part=0.0, family="white"))


def test_white_noise_has_the_level_that_the_network_is_given():
    rng, n = torch.Generator().manual_seed(0), 400
    z, noise = add_noise(torch.zeros(n, 1, 32, 32), rng, WHITE.noise)
    assert float(noise.power.std((1, 2, 3)).max()) == 0  # every mode alike
    ratio = z.double().square().mean((1, 2, 3)) / noise.level.double().square()
    assert float((ratio - 1).abs().max()) < 5 * math.sqrt(2 / 32**2)
    # Log-uniform on the ends of the law, whose middle is 0.316.
    u = torch.log(noise.level.double() / 0.01) / math.log(1000)
    assert abs(float(u.mean()) - 0.5) < 4 / (12 * n) ** 0.5
    assert 0 <= float(u.min()) < 0.02
    assert 0.98 < float(u.max()) <= 1
    # It is told as white noise: ½ log N = log level at all reference frequencies.
    told = noise.descriptor.double()
    assert torch.allclose(
        told, torch.log(noise.level.double())[:, None, None].expand_as(told), atol=1e-5
    )


def test_a_dust_network_is_trained_under_white_noise(data, tmp_path):
    train(WHITE, data, tmp_path, steps=2)
    heading = (tmp_path / "selection.csv").read_text().splitlines()[0].split(",")
    assert "gain_0.5" in heading
    card = release(tmp_path / "model.safetensors", WHITE, data, tmp_path / "out.safetensors")
    assert [row[0] for row in card["dust"]["test"]] == [0.5]
    page = (tmp_path / "out.md").read_text()
    assert "| σ | D | Wiener | gain | loss (6) |" in page
    assert f"| 0.5 | {card['dust']['test'][0][1]:.2f} |" in page
