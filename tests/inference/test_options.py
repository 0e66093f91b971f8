"""What cannot be done as asked is refused in one line, before any work."""

from functools import partial

import pytest
import torch

from gibbsdiff import (
    GaussianDenoiser,
    InputError,
    Options,
    PowerLawSignal,
    conjugate_amplitude,
    denoise,
    few_step,
)
from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.inference.presets import with_preset
from gibbsdiff.networks import precision as precision_room
from gibbsdiff.networks.unet import UNet

GAUSSIAN = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
PICTURE = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"density": "gaussian"}, "density 'gaussian': there are laplace, polynomial"),
        ({"starts": "anywhere"}, "starts 'anywhere': there are marginal, prior, paper"),
        ({"method": "vb"}, "method 'vb': there are marginal, gibbs"),
        ({"calls": 0}, "calls must be at least 1"),
        ({"calls": 4, "sampler": partial(few_step, calls=4)}, "sampler of your own"),
        ({"density": "polynomial"}, "density is for the marginal method"),
        ({"method": "marginal", "burn_in": 3}, "burn_in is for Gibbs chains"),
        ({"turned": True, "sampler": "ddpm"}, "turned: only the few-step sampler"),
    ],
)
def test_options_that_do_not_fit(options, words):
    with pytest.raises(InputError, match=words):
        Options(**options)


def test_a_tile_for_a_denoiser_that_has_none():
    with pytest.raises(InputError, match="tile: this denoiser sees whole pictures only"):
        denoise(PICTURE, model=GAUSSIAN, tile=64)


def test_burn_in_is_counted_in_calls_and_left_out_of_the_draws():
    settings = {
        "model": GAUSSIAN,
        "method": "gibbs",
        "boundary": "periodic",
        "noise": "white",
        "phi_step": conjugate_amplitude,
        "chains": 2,
        "calls": 1,
    }
    short = denoise(PICTURE, draws=6, burn_in=1, **settings)
    assert short.phi.shape == (2, 6, 1)
    assert short.calls == 2 * (1 + 1 + 6) + calls_of_the_search()


def calls_of_the_search():
    """What the search before the chains took."""
    options = {"model": GAUSSIAN, "method": "marginal", "boundary": "periodic", "samples": 0}
    return denoise(PICTURE, noise="white", second_stage=False, **options).calls


@pytest.fixture
def network():
    """A small network, as if it were loaded as one of pictures."""
    torch.manual_seed(0)
    unet = UNet(3, (16, 24), (1, 1), embedding=16).requires_grad_(False)
    found = SpectralDenoiser(unet, NATURAL)
    found.pictures = True
    return on_device(found, "cpu")


def test_chains_on_pictures_turn_them_and_others_do_not(network):
    def turns(denoiser, **options):
        made = Options(**options)
        both = (made.draw_x(denoiser), made.draw_in_chains(denoiser))
        return {bool(draw.keywords.get("turned")) for draw in both}

    assert turns(network) == {True}
    assert turns(network.tiled(32).with_derivative_error()) == {True}
    assert turns(network, chain_calls=3, floor=0.01) == {True}
    assert turns(network, turned=False) == {False}
    assert turns(network, **with_preset("paper", {"sampler": "few-step"})) == {False}
    assert turns(network, method="marginal") == {False}
    assert turns(network, method="marginal", turned=True) == {True}
    network.pictures = False  # a network of maps, say
    assert turns(network) == {False}
    assert turns(network, turned=True) == {True}
    assert turns(GAUSSIAN) == {False}
    with pytest.raises(InputError, match="turned: this denoiser is not one for pictures turned"):
        turns(GAUSSIAN, turned=True)


def test_turning_changes_draws_of_chains_and_is_known_to_checkpoints(network, tmp_path):
    y = torch.rand(3, 24, 24, generator=torch.Generator().manual_seed(1))
    options = {"model": network, "noise": "white", "method": "gibbs", "boundary": "periodic"}
    options |= {"phi_step": conjugate_amplitude, "chains": 2, "draws": 4, "calls": 2}
    options |= {"starts": "prior", "weights": None, "check": False}
    usual, turned, upright = (denoise(y, **options, turned=t) for t in (None, True, False))
    assert torch.equal(usual.mean, turned.mean)
    assert torch.equal(usual.phi, turned.phi)
    assert not torch.allclose(upright.mean, turned.mean, atol=1e-6)
    assert "pictures upright" in upright.how
    assert "pictures upright" not in usual.how
    file = tmp_path / "chains"
    kept = denoise(y, **options, checkpoint=file)
    assert torch.equal(kept.phi, usual.phi)
    assert torch.equal(denoise(y, **options, turned=True, checkpoint=file).phi, usual.phi)
    with pytest.raises(InputError, match="chains"):
        denoise(y, **options, turned=False, checkpoint=file)


@pytest.mark.parametrize(
    "how", [{"method": "marginal"}, {"method": "gibbs", "chains": 2, "draws": 4, "calls": 2}]
)
def test_precision_changes_results_by_rounding_and_auto_not_at_all_without_bfloat16(
    network, monkeypatch, how
):
    """φ stays in double precision; D is off by a few parts of 2⁻⁸ of the network's correction."""
    monkeypatch.setattr(precision_room, "has_bfloat16", lambda: False)
    y = 0.5 + 0.2 * torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(1))
    options = {"model": network, "noise": "white", "boundary": "periodic", "check": False} | how
    exact = denoise(y, **options, precision="float32")
    usual = denoise(y, **options)
    assert torch.equal(usual.mean, exact.mean)
    assert torch.equal(usual.phi, exact.phi)
    rough = denoise(y, **options, precision="bfloat16")
    assert rough.phi.dtype == torch.float64
    assert rough.mean.dtype == torch.float32
    assert float((rough.mean - exact.mean).abs().max()) < 0.01
    assert float((rough.phi.mean((0, 1)) - exact.phi.mean((0, 1))).abs().max()) < 0.01
    if how["method"] == "gibbs":  # the search's last step has derivatives, all in single precision
        assert not torch.equal(rough.mean, exact.mean)
