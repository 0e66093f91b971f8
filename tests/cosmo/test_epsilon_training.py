"""The paper's network for cosmology: ε-prediction under the CMB on float maps."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from astropy.io import fits

from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.data.maps import Blocks, read_maps
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import PowerLawSignal, TabulatedSignal
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane, power
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import read_card
from gibbsdiff.pretrained.epsilon import architecture, load_epsilon
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import (
    DataConfig,
    EvaluationConfig,
    ModelConfig,
    NetworkConfig,
    StepConfig,
    TrainingConfig,
)
from gibbsdiff.training.epsilon import EpsilonObjective
from gibbsdiff.training.loop import train
from gibbsdiff.training.maps import evaluate_maps, loss_6
from gibbsdiff.training.objective import objective_of
from gibbsdiff.training.optimizer import Schedule
from gibbsdiff.training.parallel import Processes
from gibbsdiff.training.release import release
from gibbsdiff.training.trainer import Trainer

SIDE = 32
BLOCKS = Blocks((0, 3), (5, 5), (5, 5), (7, 7))
TINY = TrainingConfig(
    optimizer="adamw",
    data=DataConfig(maps="maps.npz", blocks=BLOCKS, grey=0.0),
    # Levels up to 1.416: the prior has 1.387 at 32².
    model=ModelConfig("resunet", width=8, levels=2, beta_max=2.1, family="cmb"),
    network=NetworkConfig(1),
    step=StepConfig(batch=4, crop=SIDE, later_crop=SIDE, clip=math.inf, average=0.0),
    schedule=Schedule("inverse-sqrt", 3e-3, 0.1),
    evaluation=EvaluationConfig(sigma=(0.3, 1.0), side=SIDE),
)


@pytest.fixture(scope="module")
def maps():
    """Maps of two levels, 3 and 5: not Gaussian, and not on a scale of their own."""
    law = GaussianDenoiser(PowerLawSignal((1e-3,), (2.6,)))
    x = law.prior((SIDE, SIDE), Streams.batch(0, 16))
    return 3 + 2 * (x > 0).float().reshape(8, 2, SIDE, SIDE).numpy()


@pytest.fixture(scope="module")
def data(tmp_path_factory, maps):
    root = tmp_path_factory.mktemp("data")
    np.savez(root / "maps.npz", maps=maps)
    return root


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    return train(TINY, data, out, steps=2), out / "model.safetensors"


def noisy(objective, n, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return objective.noisy(torch.zeros(n, 1, SIDE, SIDE), torch.arange(n), n, rng)


def test_the_noise_is_the_cmb_at_uniform_times():
    objective, n = EpsilonObjective(TINY), 500
    z, noise = noisy(objective, n)
    t = objective.process.time(noise.level)
    assert isinstance(objective.process, VariancePreserving)
    assert abs(float(t.mean()) - 0.5) < 4 / (12 * n) ** 0.5
    assert torch.quantile(t, 0.9) == pytest.approx(0.9, abs=0.05)
    # The CMB of the cosmology that the network is told, at the level of the time: no power law.
    assert noise.shape_names == ("H0", "omega_b")
    phi = torch.cat([torch.ones(n, 1), noise.shape_parameters], 1).double()
    of_one = CMBNoise().covariance((SIDE, SIDE), phi)
    exact = of_one.power * (noise.level / of_one.level).square().view(-1, 1, 1, 1)
    assert torch.allclose(noise.power.double(), exact, rtol=1e-4)
    ratio = power(z.double()) / noise.power
    weight = half_plane((SIDE, SIDE)).weight.reshape(1, 1, SIDE, -1)
    assert abs(float((ratio * weight).sum() / (n * SIDE**2)) - 1) < 5 * (2 / (n * SIDE**2)) ** 0.5
    for column, (low, high) in enumerate(objective.ranges):
        u = (noise.shape_parameters[:, column] - low) / (high - low)
        assert abs(float(u.mean()) - 0.5) < 4 / (12 * n) ** 0.5


class Recorder(torch.nn.Module):
    """Predicts a given ε, and keeps what it was told."""

    def __init__(self, epsilon):
        super().__init__()
        self.epsilon = epsilon

    def forward(self, z, t, phi):
        self.told = z, t, phi
        return self.epsilon


def test_what_the_network_is_told_and_what_it_is_to_say():
    """Told z_t = a z, t and (H0, ω_b) on [-1, 1]; the target is (z - x)/σ, σ the noise's level."""
    objective = EpsilonObjective(TINY)
    process, noise = objective.process, CMBNoise()
    cosmologies = [[50.0, 0.0567], [70.0, 0.0321], [90.0, 0.0075]]
    phi = torch.tensor([[0.7, *c] for c in cosmologies], dtype=torch.float64)
    covariance = noise.covariance((SIDE, SIDE), phi)
    rng = Streams.batch(0, 3)
    x = rng.normal(1, SIDE, SIDE)
    z = x + covariance.draw(rng, 1)
    target = (z - x) / covariance.level.view(-1, 1, 1, 1)
    network = Recorder(target)
    model = EpsilonDenoiser(network, process, objective.ranges, objective.family.shape_names)
    assert torch.equal(model.losses(x, z, covariance), torch.zeros(3, dtype=torch.float64))
    assert torch.allclose(model(z, covariance).mean, x)
    z_t, t, told = network.told
    assert torch.allclose(told, torch.tensor([[-1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]).double())
    assert torch.allclose(process.level(t), covariance.level)
    # As printed: (z_t - √ᾱ x)/√(1-ᾱ), with a² = ᾱ.
    a, b = (f(t).view(-1, 1, 1, 1) for f in (process.a, process.b))
    assert torch.allclose((z_t - a * x) / b, target)
    assert torch.allclose(a**2 + b**2, torch.ones(3, 1, 1, 1).double())


def test_a_step_changes_all_weights_and_20_lower_the_loss(data):
    config = replace(TINY, model=replace(TINY.model, width=16))
    objective = objective_of(config, data)
    trainer = Trainer(objective, objective.crops(), Processes())
    before = {k: v.clone() for k, v in trainer.denoiser.network.named_parameters()}
    x = objective.crops().draw(8, torch.Generator().manual_seed(1))
    z, noise = objective.noisy(x, torch.arange(8), 8, torch.Generator().manual_seed(2))

    def loss():
        with torch.no_grad():
            return float(objective.losses(trainer.denoiser, x, z, noise)[0].mean())

    first = loss()
    trainer.step(0.1)
    after = dict(trainer.denoiser.network.named_parameters())
    still = [k for k, v in before.items() if torch.equal(v, after[k])]
    assert not still
    for _ in range(20):
        trainer.step(0.1)
    assert loss() < 0.9 * first


def test_fourier_features_are_a_switch(data, tmp_path):
    made = {}
    for fourier in (True, False):
        config = replace(TINY, model=replace(TINY.model, fourier=fourier))
        objective = objective_of(config, data)
        model = objective.model()
        made[fourier] = model.network.inputs.in_channels
        objective.save(model, tmp_path / "m.safetensors", {})
        loaded = load_epsilon(tmp_path / "m.safetensors")
        assert architecture(loaded.network) == architecture(model.network)
    assert made == {True: 9, False: 1}


def test_denoising_commutes_with_shifts(trained):
    """Circular padding: shifts by the multiple of the network's levels."""
    model, _ = trained
    phi = torch.tensor([[0.5, 70.0, 0.03]], dtype=torch.float64)
    noise = CMBNoise().covariance((SIDE, SIDE), phi, torch.float32)
    z = Streams.batch(3, 1).normal(1, SIDE, SIDE, dtype=torch.float32)
    shift = lambda image: image.roll((8, -4), (-2, -1))  # noqa: E731
    with torch.no_grad():
        assert torch.allclose(model(shift(z), noise).mean, shift(model(z, noise).mean), atol=1e-5)


def test_the_file_has_the_scale_and_the_spectrum_of_the_maps(data, trained):
    model, path = trained
    known = read_maps(data / "maps.npz", BLOCKS)
    card = read_card(path)["maps"]
    assert (card["mean"], card["sd"], card["side"]) == (known.mean, known.sd, SIDE)
    found = dust_model(SIDE, path)
    assert found.signal == TabulatedSignal.measured(known.train)
    assert not found.denoiser.error_model
    assert found.denoiser.names == ("H0", "omega_b")
    for key, value in model.network.state_dict().items():
        assert torch.allclose(found.denoiser.network.state_dict()[key], value, atol=1e-3, rtol=1e-3)
    heading, *rows = (path.parent / "selection.csv").read_text().splitlines()
    row = dict(zip(heading.split(","), rows[-1].split(","), strict=True))
    gains = [float(row[f"gain_{s}_67.4_0.0224"]) for s in ("0.3", "1")]
    assert float(row["gain"]) == pytest.approx(sum(gains) / 2, abs=1e-4)
    assert float(row["gain"]) == pytest.approx(float(row["psnr"]) - float(row["wiener"]), abs=1e-3)


def test_its_card_has_the_maps_and_the_scores(data, trained, tmp_path):
    card = release(trained[1], TINY, data, tmp_path / "out.safetensors")
    assert read_card(tmp_path / "out.safetensors") == card
    for s, *rest in card["dust"]["test"]:
        row = f"| {s:g} | 67.4 | 0.0224 | {rest[2]:.2f} | {rest[3]:.2f} |"
        assert row in (tmp_path / "out.md").read_text()


def test_the_wiener_filter_gains_nothing_over_itself(data):
    known = read_maps(data / "maps.npz", BLOCKS)
    signal = TabulatedSignal.measured(known.train)
    scores = loss_6(GaussianDenoiser(signal), signal)
    cells = evaluate_maps(
        scores, signal, known.train, CMBNoise(), (0.1, 1.0), ((67.4, 0.0224), (55.0, 0.045))
    )
    assert len(cells) == 4
    for cell in cells:
        assert cell.gain == pytest.approx(0, abs=1e-3)
        # On the maps whose spectrum it is, its error is V, by definition of S_x.
        assert cell.relative == pytest.approx(1, abs=0.15)


def test_it_trains_on_a_fits_cube_of_ones_own(tmp_path, maps):
    fits.PrimaryHDU(maps.reshape(16, SIDE, SIDE)).writeto(tmp_path / "own.fits")
    blocks = Blocks((0, 9), (10, 12), (10, 12), (13, 15))
    config = replace(TINY, data=replace(TINY.data, maps="own.fits", blocks=blocks))
    train(config, tmp_path, tmp_path / "out", steps=1)
    found = dust_model(SIDE, tmp_path / "out" / "model.safetensors")
    assert found.card["maps"]["train"] == 10
    assert found.card["maps"]["mean"] == pytest.approx(float(maps.reshape(16, -1)[:10].mean()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": replace(TINY.model, beta_max=2.0)}, r"beta_max = 2: .*1\.387 at 32²; 2\.05 is"),
        ({"model": replace(TINY.model, family="power-law")}, '"cmb" or "white" noise'),
        ({"network": NetworkConfig(3)}, "one channel"),
        ({"data": replace(TINY.data, maps="")}, "need a file"),
        ({"step": StepConfig(crop=16, later_crop=16)}, "must be 32"),
        ({"data": replace(TINY.data, maps="nan.npy")}, r"nan\.npy: NaN .* 1 of 8 snapshots"),
        ({"data": replace(TINY.data, maps="flat.npy")}, r"flat\.npy: all pixels .* are equal"),
        ({"data": replace(TINY.data, maps="oblong.fits")}, r"oblong\.fits: .*\(8, 1, 32, 16\)"),
        ({"data": replace(TINY.data, maps="bytes.npy")}, r"bytes\.npy: .* not uint8"),
        ({"data": replace(TINY.data, maps="bad.fits")}, r"bad\.fits: not a readable FITS"),
        ({"data": replace(TINY.data, maps="none.fits")}, r"none\.fits: no such file"),
    ],
)
def test_what_does_not_fit_is_one_line(data, tmp_path, maps, change, message):
    np.savez(tmp_path / "maps.npz", maps=maps)
    hole = maps.copy()
    hole[3, 1, 4, 5] = np.nan
    np.save(tmp_path / "nan.npy", hole)
    np.save(tmp_path / "flat.npy", np.ones_like(maps))
    np.save(tmp_path / "bytes.npy", maps.astype(np.uint8))
    fits.PrimaryHDU(maps[:, 0, :, :16]).writeto(tmp_path / "oblong.fits")
    (tmp_path / "bad.fits").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=message) as trouble:
        train(replace(TINY, **change), tmp_path, tmp_path / "out", steps=1)
    assert "\n" not in str(trouble.value)


WHITE = replace(TINY, model=replace(TINY.model, family="white", beta_max=20.0))


def test_under_white_noise_the_network_is_told_the_time_alone(data, tmp_path):
    objective, n = objective_of(WHITE, data), 200
    z, noise = noisy(objective, n)
    assert objective.ranges == []
    assert noise.shape_names == ()
    assert float(noise.power.std((1, 2, 3)).max()) == 0
    ratio = z.double().square().mean((1, 2, 3)) / noise.level.double().square()
    assert float((ratio - 1).abs().max()) < 6 * math.sqrt(2 / SIDE**2)
    t = objective.process.time(noise.level.double())
    assert abs(float(t.mean()) - 0.5) < 4 / (12 * n) ** 0.5
    network = Recorder(z)
    model = EpsilonDenoiser(network, objective.process, objective.ranges, ())
    model(z, noise)
    assert network.told[2].shape == (n, 0)
    cmb = CMBNoise().covariance((SIDE, SIDE), torch.tensor([[0.3, 70.0, 0.03]]).double())
    with pytest.raises(InputError, match="another family of noise: it takes 0 parameters"):
        model(z[:1], cmb)


def test_a_network_of_white_noise_on_maps_as_a_file(data, tmp_path):
    train(WHITE, data, tmp_path, steps=2)
    found = dust_model(SIDE, tmp_path / "model.safetensors")
    assert not found.denoiser.ranges
    heading, row = (tmp_path / "selection.csv").read_text().splitlines()[:2]
    scores = dict(zip(heading.split(","), row.split(","), strict=True))
    gain = (float(scores["gain_0.3"]) + float(scores["gain_1"])) / 2
    assert float(scores["gain"]) == pytest.approx(gain, abs=1e-4)
