"""The weights in the package: they load, they denoise, and they know how well."""

import math
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
from gibbsdiff.pretrained import available, find, read_card


@pytest.fixture(scope="module")
def natural():
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


def test_its_card_says_how_it_was_made():
    card = read_card("natural")
    assert card["command"].startswith("gibbsdiff train configs/natural.toml")
    assert card["psnr"]["cbsd68"]["mean"] > 29
    folder = resources.files("gibbsdiff.pretrained")
    assert (folder / "natural.safetensors").stat().st_size < 20e6
    assert f"{card['psnr']['cbsd68']['mean']:.2f}" in (folder / "natural.md").read_text()
