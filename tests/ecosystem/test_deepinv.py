"""With the real package; without it one line says what is missing."""

import pytest
import torch
from skimage import data

from gibbsdiff import InputError, PowerLawNoise, WhiteNoise, denoise, load_model
from gibbsdiff.ecosystem import optional

try:
    from gibbsdiff.ecosystem.deepinv import (
        GibbsdiffDenoiser,
        GibbsdiffNoiseEstimator,
        deepinv_models,
        from_deepinv,
    )
except InputError as trouble:
    pytest.skip(f"the extra is not installed: {trouble}", allow_module_level=True)

SIDE = 64


@pytest.fixture(scope="module")
def clean():
    crop = data.astronaut()[:SIDE, 190 : 190 + SIDE] / 255.0
    return torch.from_numpy(crop).permute(2, 0, 1)[None].float()


@pytest.fixture(scope="module")
def noisy(clean):
    return clean + WhiteNoise().draw((SIDE, SIDE), (0.1,), channels=3, seed=0).float()


@pytest.fixture(scope="module")
def ours():
    return GibbsdiffDenoiser("natural-fast")


def mse(a, b):
    return float((a - b).square().mean())


def test_our_network_is_one_of_their_denoisers(ours, clean, noisy):
    assert isinstance(ours, deepinv_models.Denoiser)
    network = load_model("natural-fast")
    noise = WhiteNoise().covariance((SIDE, SIDE), torch.tensor([[0.1]]), torch.float32)
    assert torch.allclose(ours(noisy, 0.1), network(noisy, noise).mean, atol=1e-5)
    assert mse(ours(noisy, 0.1), clean) < 0.25 * mse(noisy, clean)
    pair = torch.cat([noisy, clean])
    both = ours(pair, torch.tensor([0.1, 0.02]))
    assert torch.allclose(both[:1], ours(noisy, 0.1), atol=1e-5)
    assert torch.allclose(both[1:], ours(clean, 0.02), atol=1e-5)


def test_grey_pictures_are_shown_as_denoise_shows_them(ours, noisy):
    grey = noisy.mean(1, keepdim=True)
    known = {"known": {"sigma": 0.0577}, "noise": "white", "boundary": "periodic"}
    want = denoise(grey[0], model="natural-fast", check=False, **known)
    # The chroma noise beside it is another draw.
    assert mse(ours(grey, 0.0577)[0], want.mean) < 0.02 * 0.0577**2


def test_it_is_a_prior_in_their_plug_and_play(ours, noisy):
    from deepinv.optim.prior import PnP

    assert torch.equal(PnP(denoiser=ours).prox(noisy, 0.1), ours(noisy, 0.1))
    wanted = noisy.clone().requires_grad_()
    ours(wanted, 0.1).square().sum().backward()  # so that their losses can be trained through it
    assert float(wanted.grad.abs().max()) > 0


def test_their_denoiser_is_one_of_ours_for_white_noise(ours, noisy):
    """Our own network through their interface, without its error: σ by Gibbs alone."""
    short = {"method": "gibbs", "chains": 2, "draws": 3, "burn_in": 2, "calls": 6, "check": False}
    small = noisy[0, :, :32, :32]
    found = denoise(small, model=from_deepinv(ours, 3), noise="white", boundary="periodic", **short)
    assert found.model_error is None
    assert abs(found.rows[0].mean / 0.1 - 1) < 0.2
    median = from_deepinv(deepinv_models.MedianFilter(kernel_size=3))
    noise = WhiteNoise().covariance((SIDE, SIDE), torch.tensor([[0.1]]), torch.float32)
    assert torch.equal(median(noisy, noise).mean, median.inner(noisy, torch.tensor([0.1])))
    with pytest.raises(InputError, match='give noise="white"'):
        median(noisy, PowerLawNoise().covariance((SIDE, SIDE), torch.tensor([[0.1, -1.0]])))


def test_our_estimate_is_one_of_their_estimators(clean):
    pictures = torch.cat([clean, clean.flip(-1)])
    truth = torch.tensor([0.05, 0.15])
    noise = WhiteNoise().draw((SIDE, SIDE), truth[:, None], channels=3, seed=1).float()
    found = GibbsdiffNoiseEstimator(noise="white", model="natural-fast")(pictures + noise)
    assert found.shape == (2,)
    assert bool(((found / truth - 1).abs() < 0.05).all())
    theirs = deepinv_models.PatchCovarianceNoiseEstimator()(pictures + noise)
    assert theirs.shape == found.shape


def test_a_missing_package_is_one_line(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(optional, "import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'gibbsdiff\[deepinv\]'"):
        optional.load_deepinv()
