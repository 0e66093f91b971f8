"""`preset="paper"` on dust under the CMB: the reverse SDE, its levels, its model, its command."""

import pytest
import torch

from gibbsdiff.cosmo.calibration import DUST
from gibbsdiff.cosmo.infer import (
    DustModel,
    dust_model,
    infer,
    model_digest,
    model_name,
    options_for,
    options_of,
    patch_problem,
    process_for,
)
from gibbsdiff.cosmo.mock import SHIPPED, dust_from_file, mock
from gibbsdiff.cosmo.moment_start import new_moments
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.solvers import ddpm_of, uniform_in_time
from gibbsdiff.errors import InputError
from gibbsdiff.inference import pipeline
from gibbsdiff.inference.problem import Options
from gibbsdiff.io.digest import file_digest
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import find, load_model
from gibbsdiff.streams import Streams

SIDE = 32
EXACT = GaussianDenoiser(DUST)
AVERAGE = "mean of the draws of x"


class Recorder(Denoiser):
    """The exact denoiser of Gaussian dust; it notes the level of every call."""

    error_model = True

    def __init__(self):
        self.levels = []

    def __call__(self, z, noise):
        self.levels.append(noise.level.double())
        return EXACT(z, noise)


def mixture(sigma=0.1, seed=1):
    dust = EXACT.prior((SIDE, SIDE), Streams(seed, [(0,)]))[0].float()
    return mock((sigma, 70.0, 0.032), dust, CMBNoise(), seed=2)


def test_the_table_of_options():
    """4 chains of 60, 30 discarded, HMC and mean as in the paper; what is given wins."""
    paper = options_of("paper")
    assert (paper.chains, paper.draws, paper.burn_in) == (4, 30, 30)
    assert (paper.sampler, paper.starts, paper.mean) == ("ddpm", "paper", "average")
    assert (paper.adaptation, paper.warm_up) == ("paper", 300)
    assert not paper.stop_when_converged
    ours = options_of()
    assert (ours.chains, ours.draws, ours.sampler, ours.mean) == (4, 400, None, "tweedie")
    own = options_of("paper", mean="tweedie", sampler="few-step", calls=3, starts=None)
    assert (own.mean, own.sampler, own.calls, own.starts) == ("tweedie", "few-step", 3, "paper")
    with pytest.raises(InputError, match="preset paper: it is of Gibbs chains"):
        options_of("paper", method="marginal")


@pytest.mark.parametrize(("side", "beta_max"), [(32, 2.05), (128, 2.02), (256, 2.02)])
def test_the_process_covers_the_prior_and_is_raised_no_more(side, beta_max):
    noise = CMBNoise()
    process = process_for(noise, (side, side))
    assert process == VariancePreserving(0.1, beta_max)
    assert process.highest > noise.highest_level((side, side))


def test_the_papers_own_process_ends_below_the_prior():
    """1.36296 against 1.36792 at 128²; at its own 256², 1.36268, it does not."""
    end, noise = VariancePreserving(0.1, 2.0).highest, CMBNoise()
    assert noise.highest_level((256, 256)) < end < noise.highest_level((128, 128))


def test_the_sde_is_5000_steps_to_the_unit_of_time_of_the_models_own_process():
    problem = patch_problem(mixture().y[None], EXACT, DUST, CMBNoise())
    options = options_of("paper")
    theirs = EpsilonDenoiser(ResUNet(1, 2, (8,)), VariancePreserving(0.1, 3.0))
    for denoiser, process in ((EXACT, problem.process), (theirs, theirs.process)):
        drawn = options.draw_x(denoiser, problem.process).keywords
        assert drawn == {"process": process, "steps": 5000}


def test_every_call_is_at_the_level_of_its_own_chains_current_sigma():
    """Steps of 1/5,000 of the unit of time from t*(σ) of the chain, unsnapped, in every draw."""
    noise, recorder, found = CMBNoise(sigma=(0.05, 0.07)), Recorder(), mixture(0.06)
    problem = patch_problem(found.y[None], recorder, DUST, noise)
    brief = {"draws": 3, "burn_in": 0, "samples": 0, "warm_up": 40, "transitions": 3}
    brief |= {"check": False}
    options = Options(chains=2, sampler="ddpm", starts="paper", adaptation="paper", **brief)
    (p,) = pipeline.infer(problem, options)
    begun = problem.paper_starts(found.y[None], Streams(0, [(0, 3, 0), (0, 3, 1)]))
    shape, process = (SIDE, SIDE), problem.process
    left = iter(recorder.levels)
    for phi in (begun, *p.phi.transpose(0, 1)):
        start = noise.covariance(shape, phi).level
        u = uniform_in_time(start, process, 5000, "beta").u
        paths = [row[row > 0] * level for row, level in zip(u, start, strict=True)]
        times = [process.time(path) for path in paths]
        for t in times:
            torch.testing.assert_close(-t.diff(), torch.full_like(t[1:], 2e-4), rtol=0.01, atol=0)
        for i in range(max(map(len, paths))):
            expected = torch.stack([path[i] for path in paths if len(path) > i])
            torch.testing.assert_close(next(left), expected, rtol=1e-5, atol=0)
    assert next(left, None) is None
    assert len(set(p.phi[..., 0].flatten().tolist())) > 4  # none is the true one
    assert p.how == ("starts as the paper", "ddpm", "warm-up as the paper")


def test_draws_of_the_sde_on_gaussian_dust():
    """The mean is exact at any number of steps, the variance to 1/steps: a closed form for each
    mode, and draws that have it.
    """
    noise, process = CMBNoise(), VariancePreserving(0.1, 2.1)
    phi = torch.tensor([[0.3, 67.4, 0.0224]], dtype=torch.float64).expand(400, -1)
    covariance = noise.covariance((SIDE, SIDE), phi)
    N, S = covariance.power[0, 0], DUST.power((SIDE, SIDE))[0, 0]
    y = mixture(0.3).y.double().expand(400, -1, -1, -1)
    found = {}
    for steps in (40, 400, 4000):
        u, ancestral = uniform_in_time(covariance.level[:1], process, steps, "beta")
        factor, variance = torch.ones_like(N), torch.zeros_like(N)
        for t, s, v in zip(u[0, :-1], u[0, 1:], ancestral[0], strict=True):
            gain = (S + N * s**2) / (S + N * t**2)
            factor = factor * gain
            variance = gain**2 * variance + (1 - (s / t) ** 2) * v * N * t**2
        torch.testing.assert_close(factor, S / (S + N))
        found[steps] = variance * (S + N) / (S * N)
    off = {steps: float((ratio - 1).abs().max()) for steps, ratio in found.items()}
    assert off[400] == pytest.approx(10 * off[4000], rel=0.05)
    draw = ddpm_of(EXACT, process)
    draws = draw.func(EXACT, y, covariance, Streams.batch(3, 400), process=process, steps=40).x
    spread = torch.fft.rfft2(draws[:, 0], norm="ortho").var(0)[1:16, 1:16].real
    ratio = spread / (S * N / (S + N) * found[40])[1:16, 1:16]
    assert float((ratio - 1).abs().max()) < 5 / 400**0.5
    assert abs(float(ratio.mean()) - 1) < 4 / (400 * 225) ** 0.5


def test_chains_start_at_the_moment_networks_mean_inside_the_prior(tiny):
    noise = CMBNoise()
    denoiser, card = tiny()
    found = DustModel(denoiser, card, new_moments(SIDE, noise))
    options = options_of("paper", chains=3, draws=1, burn_in=0, warm_up=20, sampler="few-step",
                         calls=2, transitions=1, samples=0)  # fmt: skip
    problem = patch_problem(mixture().y[None], denoiser, found.signal, noise, found.moments)
    starts = problem.paper_starts(problem.y, Streams.batch(0, 3))
    middle = (noise.low + noise.high) / 2
    assert torch.equal(starts, middle.expand(3, -1))  # what an untrained one says
    p = infer(mixture(), found, noise, options)
    assert p.how == ("preset paper", "starts as the paper", "warm-up as the paper", AVERAGE)
    assert torch.equal(p.mean, p.average)


def test_samples_are_matched_where_there_is_an_error_model(tiny):
    """12 calls for a sample with one and without; the preset leaves it out."""
    exact, bare = dust_model(128), DustModel(*tiny())
    few = options_of("paper", sampler="few-step")
    for model, options, trials in ((exact, options_of(), 8), (exact, few, 0), (bare, few, 0)):
        chosen = options_for(model, CMBNoise(), options)
        assert (chosen.trials, chosen.floor) == (trials, 0.02)
        assert chosen.draw_x(model.denoiser).keywords["floor"] == 0.02


def test_the_models_of_the_preset():
    assert model_name(128, None, "paper") == "paper-cosmo-small"
    assert model_name(256) == "dust256"
    assert model_name(64, "mine", "paper") == "mine"
    with pytest.raises(InputError, match=r"of side 256 for the preset paper .* 128 \(paper-cosmo-"):
        model_name(256, None, "paper")
    with pytest.raises(InputError, match="of side 64 comes with the package: there is one for"):
        model_name(64)
    found = dust_model(128, "paper-cosmo-small")
    assert isinstance(found.denoiser, EpsilonDenoiser)
    noise = CMBNoise()
    assert found.denoiser.process.highest > noise.highest_level((128, 128))
    # It has the maps of dust128, and so its moment network.
    other = dust_model(128)
    assert {k: v for k, v in found.card["maps"].items() if k != "spectrum"} == other.card["maps"]
    assert found.moments is not None
    assert found.moments.fits(noise)
    moments = file_digest(find("paper-cosmo-small").with_suffix(".moments.npz"))
    assert model_digest(128, "paper-cosmo-small").endswith(f" {moments}")
    assert load_model("paper-cosmo-small").digest() == found.denoiser.digest()
    # Under a loud CMB it is better than nothing by far.
    covariance = noise.covariance((128, 128), torch.tensor([[1.0, 67.4, 0.0224]]))
    x = dust_from_file(SHIPPED, 128, found.card)[0][None]
    y = x + covariance.draw(Streams(1, [(0,)]), 1).float()
    error = (found.denoiser(y, covariance).mean - x).square().mean()
    assert error < 0.5 * (y - x).square().mean()
