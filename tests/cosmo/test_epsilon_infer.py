"""Inference with the paper's network for cosmology: Gibbs without an error model."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from astropy.io import fits

from gibbsdiff.cosmo.infer import DustModel, dust_model, infer, options_for
from gibbsdiff.cosmo.mock import mock
from gibbsdiff.cosmo.moment_start import moments_bytes, new_moments
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import as_denoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.inference.problem import Options
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_spectral
from gibbsdiff.pretrained.epsilon import save_epsilon
from gibbsdiff.streams import Streams

SIDE = 32
SIGNAL = PowerLawSignal((1e-3,), (2.6,))
PROCESS = VariancePreserving(0.1, 2.1)  # levels up to 1.416: the prior has 1.387 at 32²
RANGES = [(p.low, p.high) for p in CMBNoise().parameters[1:]]
BRIEF = Options(chains=2, draws=3, burn_in=1, calls=3, samples=1, transitions=2, warm_up=20)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A network of maps of 32² that has learnt nothing, as a file."""
    file = tmp_path_factory.mktemp("model") / "model.safetensors"
    torch.manual_seed(0)
    denoiser = EpsilonDenoiser(ResUNet(1, 2, (8, 16)), PROCESS, RANGES, ("H0", "omega_b"))
    facts = {"mean": 3.0, "sd": 0.7, "side": SIDE, "train": 2, "spectrum": asdict(SIGNAL)}
    save_epsilon(denoiser, file, {"maps": facts})
    return file


def mixture():
    dust = GaussianDenoiser(SIGNAL).prior((SIDE, SIDE), Streams(1, [(0,)]))
    return mock((0.5, 70.0, 0.032), (dust / dust.std())[0].float(), CMBNoise(), seed=2)


def test_gibbs_runs_with_it_from_the_prior_and_from_the_moment_network(path):
    y, noise = mixture(), CMBNoise()
    found = dust_model(SIDE, path)
    from_prior = infer(y, found, noise, BRIEF)
    assert from_prior.how == ("starts from the prior",)
    assert from_prior.phi.shape == (2, 3, 3)
    assert bool(((from_prior.phi >= noise.low) & (from_prior.phi <= noise.high)).all())
    beside = path.with_suffix(".moments.npz")
    beside.write_bytes(moments_bytes(new_moments(SIDE, noise)))
    try:
        with_moments = infer(y, dust_model(SIDE, path), noise, BRIEF)
    finally:
        beside.unlink()
    assert with_moments.how == ("starts as the paper",)
    assert not torch.equal(with_moments.phi, from_prior.phi)
    # A draw is a map on the scale of the mixture, and the mean is one, too.
    assert with_moments.mean.shape == with_moments.samples[0].shape == y.y.shape
    assert torch.isfinite(with_moments.samples).all()


class WienerEpsilon(torch.nn.Module):
    """ε = (z - D)/σ by the Wiener filter of Gaussian dust, from what a network is told."""

    def __init__(self, exact, process, noise):
        super().__init__()
        self.exact, self.process, self.noise = exact, process, noise

    def forward(self, z_t, t, phi):
        low, high = self.noise.low[1:], self.noise.high[1:]
        cosmology = low + (phi + 1) * (high - low) / 2
        one = self.noise.covariance(
            z_t.shape[-2:], torch.cat([torch.ones(len(t), 1), cosmology], 1)
        )
        level = self.process.level(t)
        z = z_t / self.process.a(t).view(-1, 1, 1, 1)
        mean = self.exact(z, one.scaled(level / one.level)).mean
        return (z - mean) / level.view(-1, 1, 1, 1)


def test_draws_by_an_exact_epsilon_are_those_of_the_wiener_filter():
    """Level, scale and cosmology go to the network and come back, at every level of a draw."""
    exact, noise = GaussianDenoiser(SIGNAL), CMBNoise()
    network = WienerEpsilon(exact, PROCESS, noise)
    model = EpsilonDenoiser(network, PROCESS, RANGES, noise.shape_names)
    found = DustModel(model, {"maps": {"side": SIDE, "spectrum": asdict(SIGNAL)}})
    assert found.signal == exact.signal

    def mean(z, covariance):
        return exact(z, covariance).mean

    covariance = noise.covariance((SIDE, SIDE), noise.draw_prior(Streams.batch(0, 5)))
    y = mixture().y.double().expand(5, -1, -1, -1)
    draw = options_for(found, noise, Options(calls=6)).draw_x(found.denoiser)
    mine, same = (
        draw(as_denoiser(d), y, covariance, Streams.batch(1, 5)) for d in (found.denoiser, mean)
    )
    torch.testing.assert_close(mine.x, same.x, rtol=0, atol=1e-9)
    assert torch.equal(mine.calls, same.calls)
    assert int(mine.calls.min()) == 6


def test_models_of_the_wrong_kind(path, tmp_path):
    found, noise = dust_model(SIDE, path), CMBNoise()
    with pytest.raises(InputError, match="a model of the paper's kind"):
        load_spectral(path)
    with pytest.raises(InputError, match="knows maps of side 32, not 64"):
        dust_model(64, path)
    with pytest.raises(InputError, match="marginal method needs a denoiser that models its own"):
        infer(mixture(), found, noise, Options("marginal", calls=3))
    with pytest.raises(InputError, match="calls 1: "):
        infer(mixture(), found, noise, replace(BRIEF, calls=1))
    with pytest.raises(InputError, match=r"level .* 1\.618, above b\(1\)/a\(1\)"):
        infer(mixture(), found, CMBNoise(sigma=(0.05, 1.4)), BRIEF)
    save_epsilon(found.denoiser, tmp_path / "pictures.safetensors", {})
    with pytest.raises(InputError, match="not a model of dust maps"):
        dust_model(SIDE, tmp_path / "pictures.safetensors")


def test_the_command_infers_with_it_and_says_what_it_cannot(path, tmp_path, command):
    brief = ("--size", SIDE, "--chains", 1, "--draws", 4, "--samples", 1)
    made = ("cmb", "infer", "--mock", 70, 0.032, 0.5, "--model", path, *brief)
    result = command(*made, "--calls", 3, "-o", tmp_path / "out")
    assert result.code == 0, result.stderr
    with fits.open(tmp_path / "out" / "dust.fits") as file:
        assert np.isfinite(file["SAMPLES"].data).all()
    for other, trouble in (
        (("--calls", 1), "calls 1: a network without an error model"),
        (("--calls", 3, "--method", "marginal"), "needs a denoiser that models its own error"),
    ):
        assert trouble in command(*made, *other, "-o", tmp_path / "none").refusal()
    assert not (tmp_path / "none").exists()
