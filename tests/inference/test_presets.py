"""The paper's algorithm by one name: every part of it, on a signal whose posterior is known."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from gibbsdiff import InputError, PowerLawNoise, ddpm, denoise
from gibbsdiff.diffusion.denoiser import Denoiser, without_error
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.inference import gibbs
from gibbsdiff.inference.fit import corners
from gibbsdiff.inference.presets import with_preset
from gibbsdiff.inference.problem import Options

PAPER = ("preset paper", "starts as the paper", "ddpm", "warm-up as the paper")
AVERAGE = "mean of the draws of x"


class Recorder(Denoiser):
    """The exact denoiser on a chain of few steps; it notes the level of every call."""

    error_model = True

    def __init__(self, exact, process):
        self.exact, self.process, self.levels = exact, process, []

    def __call__(self, z, noise):
        self.levels.append(noise.level.double())
        return self.exact(z, noise)


@pytest.fixture
def recorder(truth):
    return Recorder(truth.GAUSSIAN, DiscreteVariancePreserving(60))


@pytest.fixture(scope="module")
def y(truth):
    return truth.observe((16, 16), 0.4, 0.3, seed=2)[1]


def levels_of_a_draw(process, sigma):
    """Levels of a chain's calls: steps of about 1/T of the unit of time from t*(σ), unsnapped."""
    t = float(process.time(torch.tensor(sigma, dtype=torch.float64)))
    n = max(1, round(t * process.steps))
    times = torch.tensor([t * (1 - i / n) for i in range(n)], dtype=torch.float64)
    return process.level(times).tolist()


def test_every_call_is_at_the_level_of_its_own_chains_current_sigma(recorder, y):
    p = denoise(
        y, model=recorder, boundary="periodic", preset="paper", chains=3, draws=4, burn_in=0
    )
    first = recorder.levels[0].tolist()  # of the starts
    sigmas = [first, *p.phi[..., 0].T.tolist()]
    assert len({round(s, 9) for row in sigmas for s in row}) > 10  # none is the true one
    left = iter(recorder.levels)
    for row in sigmas:
        paths = [levels_of_a_draw(recorder.process, s) for s in row]
        for i in range(max(map(len, paths))):
            expected = torch.tensor([path[i] for path in paths if len(path) > i])
            torch.testing.assert_close(next(left).float(), expected, rtol=1e-5, atol=0)
    assert next(left, None) is None
    assert p.calls == sum(map(len, recorder.levels))


@pytest.mark.slow
def test_the_preset_has_the_exact_posterior(truth):
    """σ, φ and x against the integral on a grid, in Monte-Carlo errors."""
    _, seen = truth.observe((16, 20), 0.6, 0.3)
    exact = truth.posterior(seen)
    model = Recorder(truth.GAUSSIAN, DiscreteVariancePreserving(600))
    p = denoise(seen, model=model, boundary="periodic", preset="paper", chains=24, draws=40)
    for i, row in enumerate(p.rows):
        assert row.ess_bulk > 150
        assert abs(row.mean - exact.mean[i]) < 4 * float(exact.sd[i]) / math.sqrt(row.ess_bulk)
        assert abs(row.sd / exact.sd[i] - 1) < 4 / math.sqrt(2 * row.ess_bulk)
    assert torch.equal(p.mean, p.average)
    assert np.abs(p.mean.numpy() - exact.x).max() < 5 * exact.x_sd.mean() / math.sqrt(960)
    assert p.sd.mean() == pytest.approx(exact.x_sd.mean(), rel=0.05)
    assert p.how == (*PAPER, AVERAGE)


def test_the_table():
    """The paper: 16 chains of 40 with 20 discarded; 4 of 60 with 30 for calibration."""
    options = Options(**with_preset("paper", {}))
    assert (options.chains, options.draws, options.burn_in) == (16, 20, 20)
    assert (options.warm_up, options.transitions, options.adaptation) == (300, 10, "paper")
    assert (options.sampler, options.starts, options.mean) == ("ddpm", "paper", "average")
    assert not options.stop_when_converged
    calibrated = Options(**with_preset("paper", {}, "sbc"))
    assert (calibrated.chains, calibrated.draws, calibrated.burn_in) == (4, 30, 30)
    chain = options.draw_x(without_error(lambda z, noise: z)).keywords
    assert chain == {"process": DiscreteVariancePreserving(5000, 0.1, 20.0), "steps": 5000}
    continuous = without_error(lambda z, noise: z)
    continuous.process = VariancePreserving(0.1, 2.0)
    assert options.draw_x(continuous).keywords["steps"] == 5000


def test_what_is_given_wins_over_the_preset(recorder, truth, y):
    length = {"boundary": "periodic", "chains": 2, "draws": 4, "burn_in": 1}
    own = {"sampler": "few-step", "calls": 2, "starts": "prior", "warm_up": "ours"}
    own |= {"mean": "tweedie"}
    p = denoise(y, model=recorder, preset="paper", **length, **own)
    assert p.how == ("preset paper", "starts from the prior")
    assert p.phi.shape == (2, 4, 2)
    same = denoise(y, model=without_error(truth.GAUSSIAN), **length, **own)
    assert same.how == ("starts from the prior",)
    assert torch.equal(p.phi, same.phi)
    assert torch.equal(p.mean, same.mean)


def test_each_part_is_an_option_of_its_own(recorder, y, monkeypatch):
    warmed = []
    adapt = gibbs.warm_up
    monkeypatch.setattr(gibbs, "warm_up", lambda *a, **k: warmed.append(1) or adapt(*a, **k))
    chains = partial(
        denoise,
        y,
        model=without_error(recorder),
        method="gibbs",
        boundary="periodic",
        chains=2,
        draws=4,
        burn_in=1,
    )
    usual = chains(calls=2)
    assert usual.how == ("starts from the prior",)
    assert len(warmed) == 2  # and again after the burn-in
    once = chains(calls=2, warm_up="paper")
    assert (once.how[1:], len(warmed)) == (("warm-up as the paper",), 3)
    averaged = chains(calls=2, mean="average")
    assert torch.equal(averaged.phi, usual.phi)
    assert torch.equal(averaged.mean, usual.average)
    assert not torch.equal(averaged.mean, usual.mean)
    named = chains(sampler="ddpm")
    bound = chains(sampler=partial(ddpm, process=recorder.process, steps=60))
    assert torch.equal(named.phi, bound.phi)
    assert torch.equal(named.mean, bound.mean)


def test_a_denoiser_without_its_error_is_d_alone(truth, y):
    exact, bare = truth.GAUSSIAN, without_error(truth.GAUSSIAN)
    noise = PowerLawNoise().covariance((16, 16), torch.tensor([[0.4, 0.3]]).double())
    z = torch.tensor(y)[None]
    assert torch.equal(bare(z, noise).mean, exact(z, noise).mean)
    assert bare(z, noise).error is None
    assert not bare.error_model
    assert without_error(bare) is bare
    assert bare.digest() not in (None, exact.digest())


GREY = {"preset": "paper", "boundary": "periodic"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"preset": "papre"}, "preset 'papre': there is paper"),
        ({**GREY, "method": "marginal"}, "preset paper: it is of Gibbs chains"),
        ({**GREY, "known": {"sigma": 0.1, "phi": 0}}, "preset: the noise is known"),
        ({**GREY, "calls": 3}, "calls: ddpm has its own number of them"),
        ({**GREY, "density": "polynomial"}, "density is for the marginal method"),
        ({"sampler": "euler"}, "sampler 'euler': there are few-step, ddpm, or a function"),
        ({"mean": "median", "method": "gibbs"}, "mean 'median': there are tweedie, average"),
        ({"warm_up": "none", "method": "gibbs"}, "adaptation 'none': there are ours, paper"),
        ({"mean": "average", "method": "marginal"}, "mean is for Gibbs chains"),
    ],
)
def test_what_does_not_fit_is_one_line_before_any_call(recorder, y, options, words):
    with pytest.raises(InputError, match=words):
        denoise(y, model=recorder, **options)
    assert not recorder.levels


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"noise": PowerLawNoise((0.01, 3.0))}, "may be by its prior 3, above .* = 1.363.*: cut"),
        ({"known": {"sigma": 2.0, "phi": 0}, "noise": PowerLawNoise((0.01, 3.0))}, "is 2, above"),
    ],
    ids=["prior", "known"],
)
def test_noise_beyond_the_end_of_the_process_is_refused_before_any_call(truth, y, options, words):
    """b(1)/a(1) = √(exp(1.05) - 1) = 1.363 for β from 0.1 to 2."""
    recorder = Recorder(truth.GAUSSIAN, VariancePreserving(0.1, 2.0))
    with pytest.raises(InputError, match=words):
        denoise(y, model=recorder, boundary="periodic", method="gibbs", **options)
    assert not recorder.levels


def test_a_grey_picture_shown_in_colours_has_a_higher_level(truth, y):
    """√3 σ: a prior up to 1 goes beyond 1.363."""
    recorder = Recorder(truth.GAUSSIAN, VariancePreserving(0.1, 2.0))
    recorder.channels = 3
    with pytest.raises(InputError, match=r"may be by its prior 1\.732, above"):
        denoise(y, model=recorder, preset="paper")


def test_corners_of_a_box():
    low, high = torch.zeros(2), torch.tensor([1.0, 2.0])
    assert corners(low, high).tolist() == [[0, 0], [0, 2], [1, 0], [1, 2]]
    assert corners(torch.zeros(9), torch.ones(9)).tolist() == [[0] * 9, [1] * 9]
