"""The weights in the package: they load, they denoise, and they know how well."""

import math
from dataclasses import replace
from importlib import resources

import pytest
import torch
from skimage import data

from gibbsdiff import PowerLawNoise, Streams, load_model
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving
from gibbsdiff.fourier import between_references, half_plane, power, to_opponent
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.search import find_mode
from gibbsdiff.noise import PhotoNoise
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.levelled import LevelledNoise
from gibbsdiff.pretrained import available, find, read_card


@pytest.fixture(scope="module", params=["natural", "natural-fast"])
def natural(request):
    return load_model(request.param)


@pytest.fixture(scope="module")
def with_cameras():
    return load_model("natural")


@pytest.fixture(scope="module")
def photographs():
    """Four crops of 128² from scikit-image's own photographs, half their size."""
    crops = []
    for picture in (data.astronaut(), data.coffee(), data.chelsea(), data.rocket()):
        x = torch.from_numpy(picture.copy()).permute(2, 0, 1)[None].float() / 255
        x = torch.nn.functional.avg_pool2d(x, 2)
        top, left = (x.shape[-2] - 128) // 2, (x.shape[-1] - 128) // 2
        crops.append(x[:, :, top : top + 128, left : left + 128])
    return torch.cat(crops)


def psnr(estimate, x):
    return -10 * torch.log10((estimate - x).square().mean((1, 2, 3)))


def observe(x, sigma, phi):
    noise = PowerLawNoise()
    truth = torch.tensor([[sigma, phi]], dtype=torch.float64).expand(len(x), -1)
    covariance = noise.covariance((128, 128), truth, torch.float32)
    return x + covariance.draw(Streams.batch(0, len(x)), 3), covariance


@pytest.mark.parametrize(("sigma", "phi"), [(0.06, 0.0), (0.1, -1.0), (0.2, 1.0)])
def test_it_beats_the_wiener_filter_and_states_its_error(natural, photographs, sigma, phi):
    y, noise = observe(photographs, sigma, phi)
    mean, error = natural(y, noise)
    linear = GaussianDenoiser(natural.signal)(y, noise).mean
    assert float((psnr(mean, photographs) - psnr(linear, photographs)).mean()) > 0.8
    weight = half_plane((128, 128)).weight.reshape(128, -1)
    true = (power(to_opponent(photographs - mean)) * weight).sum((1, 2, 3))
    predicted = (error.spectrum() * weight).sum((1, 2, 3))
    # Image by image the error model may be off by a factor; on average by less.
    assert abs(float(torch.log(true / predicted).mean())) < math.log(1.5)


def test_blind_costs_next_to_nothing(natural, photographs):
    """The marginal mode's mean against that at the true parameters."""
    y, noise = observe(photographs, 0.1, -0.5)
    mode = find_mode(Marginal(y, PowerLawNoise(), natural), start=(0.2, 0.0))
    best = psnr(natural(y, noise).mean, photographs)
    assert bool(mode.ended.all())
    assert float((best - psnr(mode.mean, photographs)).mean()) < 0.1
    assert float((mode.phi[:, 0] / 0.1 - 1).abs().max()) < 0.03
    assert float((mode.phi[:, 1] + 0.5).abs().max()) < 0.1


def test_the_derivative_knows_the_noise_that_is_left_better_than_the_heads(natural, photographs):
    """N̂ = |y-D|² + Ê against |y-x|², in bands of |k| and all colours together."""
    hats = (between_references((128, 128)) * half_plane((128, 128)).weight)[4:]
    off = {"heads": [], "derivative": []}
    for phi in (-0.7, 0.0, 0.7):
        y, noise = observe(photographs, 0.1, phi)
        true = power(to_opponent(y - photographs)).sum(1).flatten(1).double() @ hats.T
        for name, denoiser in (("heads", natural), ("derivative", natural.with_derivative_error())):
            mean, error = denoiser(y, noise)
            left = (power(to_opponent(y - mean)) + error.spectrum()).sum(1)
            off[name].append((left.flatten(1).double() @ hats.T / true).log())
    rms = {name: float(torch.cat(rows).square().mean().sqrt()) for name, rows in off.items()}
    assert rms["derivative"] < 0.6 * rms["heads"]


@pytest.mark.parametrize(("sigma", "phi"), [(0.1, 0.0), (0.2, -0.5)])
def test_the_small_network_of_the_papers_kind_denoises(photographs, sigma, phi):
    """On the paper's own chain: better than the noise by far, and worse than ours."""
    denoiser = load_model("paper-natural-small")
    assert denoiser.process == DiscreteVariancePreserving(5000, 0.1, 20.0)
    assert not denoiser.error_model
    y, noise = observe(photographs, sigma, phi)
    gain = psnr(denoiser(y, noise).mean, photographs) - psnr(y, photographs)
    assert float(gain.mean()) > 3


@pytest.mark.parametrize("name", ["paper-natural-small", "paper-cosmo-small"])
def test_the_small_networks_are_small(name):
    assert name in available()
    assert find(name).stat().st_size < 10e6


@pytest.mark.parametrize(("name", "least"), [("natural", 30.85), ("natural-fast", 30.7)])
def test_its_card_says_how_it_was_made(name, least):
    card = read_card(name)
    assert card["command"].startswith(f"gibbsdiff train configs/{name}.toml")
    assert card["psnr"]["cbsd68"]["mean"] > least
    folder = resources.files("gibbsdiff.pretrained")
    assert (folder / f"{name}.safetensors").stat().st_size < 30e6
    page = (folder / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert f"{card['psnr']['cbsd68']['mean']:.2f}" in page


CHROMA_CUT = 0.1  # |k| of a strong roll-off in chroma


def camera_noise(light=None):
    """Luma white, of 0.05; chroma as strong at large scales, and 30 times weaker at small ones."""
    white = {"log_sigma": math.log(0.05), "slope": 0.0, "cut": 0.0, "power": 2.0, "floor": -8.0}
    chroma = {"log_ratio": 0.0, "log_ratio2": 0.0, "slope_c": 0.0, "cut_c": 1 / CHROMA_CUT}
    values = white | chroma | {"power_c": 2.0, "floor_c": -7.0, "a": 1.0, "b": 0.0}
    noise = PhotoNoise() if light is None else LevelledNoise(PhotoNoise(), light)
    phi = torch.tensor([[values[name] for name in noise.names]], dtype=torch.float64)
    return noise, phi


def test_told_the_spectra_of_all_channels_it_denoises_better(with_cameras, photographs):
    """Against being told one spectrum, of the same mean power in every mode."""
    noise, phi = camera_noise()
    told = noise.covariance((128, 128), phi.expand(4, -1), torch.float32)
    y = photographs + told.draw(Streams.batch(0, 4), 3)
    one = replace(
        told,
        power=told.power.mean(1, keepdim=True),
        descriptor=0.5 * torch.log(torch.exp(2 * told.descriptor).mean(1, keepdim=True)),
    )
    best, other = (psnr(with_cameras(y, n).mean, photographs) for n in (told, one))
    assert float((best - psnr(y, photographs)).mean()) > 4
    assert float((best - other).min()) > 0.3


def test_told_where_the_noise_is_it_denoises_better(with_cameras, photographs):
    gains = []
    for i, x in enumerate(photographs.split(1)):
        noise, phi = camera_noise(Light.of(brightness(x, 3)))
        told = noise.covariance((128, 128), phi, torch.float32)
        y = x + told.draw(Streams(0, [(i,)]), 3)
        flat = replace(told, level_map=None)
        gains.append(psnr(with_cameras(y, told).mean, x) - psnr(with_cameras(y, flat).mean, x))
    assert float(torch.cat(gains).mean()) > 0.02


def test_what_it_is_off_by_was_measured_on_camera_noise_too(with_cameras):
    known = with_cameras.calibration
    plain, camera = known.noise_error(False, False), known.noise_error(False, True)
    assert not torch.equal(plain.scatter, camera.scatter)
    assert camera.scatter.shape == (24, 24)
    assert torch.linalg.eigvalsh(camera.scatter).min() > -1e-6
