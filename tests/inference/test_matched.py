"""Draws in many calls with the moments of one call: closed form, a wrong denoiser, real dust."""

from functools import partial

import numpy as np
import pytest
import torch

from gibbsdiff import GaussianDenoiser, Options, Streams, WhiteNoise, few_step
from gibbsdiff.cosmo.bands import bands
from gibbsdiff.cosmo.infer import dust_model, options_for
from gibbsdiff.cosmo.mock import SHIPPED, held_out
from gibbsdiff.diffusion.denoiser import Denoiser, Estimate
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.fourier import fft, half_plane
from gibbsdiff.inference.matched import Matched, lacking, matched
from gibbsdiff.noise.cmb import CMBNoise

SHAPE = (64, 64)
EXACT = GaussianDenoiser(PowerLawSignal((2e-3,), (2.0,), 0.4))
NOISE = WhiteNoise().covariance(SHAPE, torch.tensor([[0.2]], dtype=torch.float64))


class Timid(Denoiser):
    """The exact denoiser at the level of y, and below it one that keeps 3 % too little of z."""

    error_model = True

    def __call__(self, z, noise):
        mean, error = EXACT(z, noise)
        below = (noise.level < 0.199).to(z).view(-1, 1, 1, 1)
        return Estimate(mean - 0.03 * below * (mean - EXACT.signal.mean), error)


@pytest.fixture(scope="module")
def y():
    return EXACT.prior(SHAPE, Streams.batch(7, 1)) + NOISE.draw(Streams.batch(8, 1), 1)


def moments(draw, y, E):
    """E (x-D)* D, E (x-D)* (y-D) and E |x-D|², over Ê, for |k| above 1/12, and the modes."""
    k = half_plane(SHAPE).k.reshape(SHAPE[0], -1)
    weight = half_plane(SHAPE).weight.reshape(SHAPE[0], -1) * (k > 1 / 12)
    e, d, r = (fft(part)[:, 0] for part in (draw.x - draw.mean, draw.mean, y - draw.mean))
    count = float(weight.sum()) * len(draw.x)
    return [float(((e.conj() * f).real / E[0, 0] * weight).sum() / count) for f in (d, r, e)]


@pytest.mark.parametrize("calls", [1, 4, 12])
def test_exact_draws_keep_their_spectrum(y, calls):
    """Matched or not: what is corrected is nothing but the trials' own scatter."""
    sampler = partial(few_step, calls=calls)
    E = EXACT(y, NOISE).error.spectrum()
    rows = torch.zeros(40, dtype=torch.int64)
    found, made = matched(sampler, EXACT, y, NOISE, Streams.batch(20, 40))
    assert made == 40 * calls + 1
    for draw_x in (sampler, found):
        draw = draw_x(EXACT, y[rows], NOISE.rows(rows), Streams.batch(21, 40))
        power = moments(draw, y, E)[2]
        # Σ w = 4096 less the few below 1/12: a mode of weight 1 has the variance 2.
        assert power == pytest.approx(1, abs=4 * (2 * 2 / (40 * 4000)) ** 0.5)


def test_a_denoiser_that_loses_power_on_the_way_is_made_good(y):
    sampler, many = partial(few_step, calls=12), torch.zeros(40, dtype=torch.int64)
    E = EXACT(y, NOISE).error.spectrum()
    found, _ = matched(sampler, Timid(), y, NOISE, Streams.batch(20, 40))
    raw, right = (
        moments(draw_x(Timid(), y[many], NOISE.rows(many), Streams.batch(21, 40)), y, E)
        for draw_x in (sampler, found)
    )
    assert raw[2] < 0.95
    assert right[2] == pytest.approx(1, abs=0.02)
    assert abs(right[0]) < 0.2 * abs(raw[0])


def test_what_draws_lack_is_recovered(y):
    """Exact draws that were spoilt by hand come out as they were."""
    rows = torch.zeros(60, dtype=torch.int64)
    draw = few_step(EXACT, y[rows], NOISE.rows(rows), Streams.batch(5, 60), calls=1)
    D, x = draw.mean, draw.x
    centred = D - D.mean((-2, -1), keepdim=True)
    spoilt = draw._replace(x=D + 0.9 * (x - D) - 0.04 * centred + 0.02 * (y - D))
    table = lacking(spoilt.x, D, y, EXACT(y, NOISE).error.spectrum())
    mended = Matched(lambda *_: spoilt, table)(EXACT, y[rows], NOISE.rows(rows), Streams(0, []))
    off, left = ((part - x).std() / (x - D).std() for part in (spoilt.x, mended.x))
    assert off > 0.1
    assert left < 0.03


@pytest.mark.slow
def test_dust_has_the_spectrum_of_dust_and_its_quiet_places():
    """Six maps that no network was trained on, σ = 0.5. Of small increments Gaussian draws have too
    few: dust is smooth between its filaments.
    """
    found, noise = dust_model(128), CMBNoise()
    maps = held_out(SHIPPED, 128, found.card)[0]
    bins = bands((128, 128))
    sampler = options_for(found, noise, Options(calls=6)).draw_x(found.denoiser)
    phi = torch.tensor([[0.5, 67.4, 0.0224]], dtype=torch.float64)
    cmb = noise.covariance((128, 128), phi, torch.float32)

    def quiet(x):
        return float((x - x.roll(1, -1)).abs().quantile(0.1) / (x - x.roll(1, -1)).std())

    def power(x):
        return bins.sum(fft(x).abs().square()[:, 0]).sum(0)[1:] / len(x)

    ratio, few = {"one": [], "many": []}, {"one": [], "many": [], "truth": []}
    for i, x in enumerate(maps):
        y = x[None] + cmb.draw(Streams(3, [(i,)]), 1).float()
        own = found.denoiser.adapted(y, cmb)
        many = matched(sampler, own, y, cmb, Streams(4, [(i, j) for j in range(4)]))[0]
        assert isinstance(many, Matched)
        rows = torch.zeros(2, dtype=torch.int64)
        few["truth"].append(quiet(x))
        for name, draw_x in (("one", partial(few_step, calls=1)), ("many", many)):
            rng = Streams(5, [(i, j) for j in range(2)])
            drawn = draw_x(own, y[rows], cmb.rows(rows), rng).x
            ratio[name].append(power(drawn) / power(x[None]))
            few[name].append(quiet(drawn))
    means = {name: torch.stack(found).mean(0) for name, found in ratio.items()}
    # The prior's spectrum is not that of one snapshot: many calls are held against one.
    assert (means["many"] / means["one"] - 1).abs().mean() < 0.03
    assert (means["many"] - 1).abs().mean() < 0.06
    one, many, truth = (np.mean(few[name]) for name in ("one", "many", "truth"))
    assert abs(many - truth) < 0.6 * abs(one - truth)


def test_filters_of_zero_change_nothing(y):
    table = torch.zeros(3, 1, 8, dtype=torch.float64)
    sampler = partial(few_step, calls=2)
    plain = sampler(EXACT, y, NOISE, Streams.batch(1, 1))
    same = Matched(sampler, table)(EXACT, y, NOISE, Streams.batch(1, 1))
    np.testing.assert_allclose(same.x, plain.x, atol=1e-12)
    assert Matched(sampler, table).digest() != Matched(partial(few_step, calls=3), table).digest()
