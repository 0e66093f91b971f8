"""Weights of places in the score of φ, eq. (14): laws that hold for any weights that are given."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from skimage import data

from gibbsdiff import (
    GaussianDenoiser,
    InputError,
    ObservationModel,
    Options,
    PowerLawNoise,
    Problem,
    Streams,
    denoise,
    infer,
)
from gibbsdiff.diffusion.signal import NATURAL
from gibbsdiff.inference.first_stage import search
from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.observation import taper
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.inference.weights import (
    Sureness,
    check_maps,
    excess_of,
    independent_share,
    smoothed,
)

NOISE, PHI = PowerLawNoise(), (0.2, -0.4)


def random_map(shape, seed=0, rows=1):
    """Weights that differ by a factor e² and more from place to place, (rows, 1, H, W)."""
    field = smoothed(Streams.batch(seed, rows).normal(1, *shape), 3.0)
    w = torch.exp(0.7 * field / field.std())
    return w / w.amax((1, 2, 3), keepdim=True)


def photographs(count, shape, channels=1):
    """x and y of a Gaussian signal with the spectra of photographs, and its exact denoiser."""
    denoiser = GaussianDenoiser(
        NATURAL
        if channels == 3
        else replace(NATURAL, amplitude=NATURAL.amplitude[:1], slope=NATURAL.slope[:1])
    )
    x = denoiser.prior(shape, Streams.batch(1, count), channels)
    noise = NOISE.covariance(shape, torch.tensor([PHI]).double().expand(count, -1))
    return x, x + noise.draw(Streams.batch(2, count), channels), denoiser


def truth_of(marginal, count):
    return ((torch.tensor([PHI]).double() - NOISE.low) / marginal.width).expand(count, -1)


def test_weighted_noise_has_its_own_power():
    """E P = N in every mode, whatever the weights, if the noise is whitened by its own N."""
    shape, count = (24, 17), 4000
    noise = NOISE.covariance(shape, torch.tensor([PHI]).double())
    eps = noise.rows(torch.zeros(count, dtype=torch.int64)).draw(Streams.batch(0, count), 1)
    plain = ObservationModel(NOISE, shape)
    weighted = plain.weighted(random_map(shape), count)
    P = weighted.power(eps, torch.arange(count), noise.power)[:, 0] / noise.power[0, 0]
    error = P.std(0) / math.sqrt(count)
    assert float(((P.mean(0) - 1) / error).abs().max()) < 4.5
    # And it is another statistic than the plain one.
    assert float((P - plain.power(eps, torch.arange(count))[:, 0] / noise.power[0, 0]).std()) > 0.3


@pytest.mark.parametrize("channels", [1, 3])
def test_the_weighted_score_has_mean_zero_and_the_variance_that_it_says(channels):
    """At the truth, over 300 pictures: so coverage is nominal for any weights that are given."""
    shape, count = (32, 32), 300
    _, y, denoiser = photographs(count, shape, channels)
    for weights in (None, random_map(shape)):
        marginal = Marginal(y, NOISE, denoiser, weights=weights)
        score = marginal.score(truth_of(marginal, count))
        factor = torch.linalg.cholesky(score.information)
        z = torch.linalg.solve_triangular(factor, score.gradient[..., None], upper=False)[..., 0]
        assert float((z.mean(0) * math.sqrt(count)).abs().max()) < 4
        variance = z.T @ z / count - torch.eye(2)
        # 4 standard errors of a variance; that weights leave independent modes is to some per cent.
        assert float(variance.abs().max()) < 4 * math.sqrt(2 / count) + 0.05


def test_weights_cost_what_they_say():
    """The information is that of the share of modes, less what neighbours lose by leakage."""
    shape = (32, 32)
    _, y, denoiser = photographs(8, shape)
    w = random_map(shape)
    plain, weighted = (Marginal(y, NOISE, denoiser, weights=m) for m in (None, w))
    J, J_w = (m.score(truth_of(m, 8)).information for m in (plain, weighted))
    share = float(independent_share(w))
    assert 0.1 < share < 0.6
    ratio = (J_w.diagonal(dim1=1, dim2=2) / J.diagonal(dim1=1, dim2=2)) / share
    assert torch.allclose(ratio, torch.ones_like(ratio), rtol=0.1)


def test_constant_weights_are_no_weights():
    shape = (32, 24)
    _, y, denoiser = photographs(2, shape)
    plain = Marginal(y, NOISE, denoiser)
    flat = Marginal(y, NOISE, denoiser, weights=torch.full(shape, 0.3))
    u = truth_of(plain, 2) + 0.02
    one, other = plain.score(u), flat.score(u)
    assert torch.allclose(one.gradient, other.gradient, rtol=1e-8)
    assert torch.allclose(one.information, other.information, rtol=1e-8)


def test_modes_that_weights_leave():
    """(Σw²)²/Σw⁴ pixels; images that tell of one φ are weighted among each other too."""
    half = torch.zeros(2, 1, 8, 8)
    half[0, :, :, :4] = 1
    half[1] = 0.5
    assert independent_share(half).tolist() == [0.5, 1.0]
    # Σw² = 32 + 16, Σw⁴ = 32 + 4 pixels: 48²/36 = 64 in all, of 128.
    together = independent_share(half, together=True)
    assert float(together.sum()) == pytest.approx(48**2 / 36 / 64)
    assert float(together[0] / together[1]) == pytest.approx(2.0)


CASES = {
    "periodic": (1, None, "periodic"),
    "open": (1, None, "open"),
    "colour, open": (3, None, "open"),
    "missing": (1, (slice(10, 20), slice(5, 25)), "open"),
}


@pytest.mark.parametrize("name", CASES)
def test_truths_are_found_through_any_window(name):
    """z of 60 truths over pictures through the pipeline, a random map for each."""
    channels, gone, boundary = CASES[name]
    count, shape = 60, (48, 48)
    _, y, denoiser = photographs(count, shape, channels)
    if boundary == "open":  # cut from a larger picture: its borders do not match
        large, shape = y, (40, 40)
        y = large[..., :40, :40]
    window = taper(shape) if boundary == "open" else None
    if gone is not None:
        missing = torch.zeros(shape, dtype=torch.bool)
        missing[gone] = True
        window = taper(shape, missing)
    z = []
    for i in range(count):
        problem = Problem(
            y[i : i + 1], NOISE, denoiser, ObservationModel(NOISE, shape, window=window)
        )
        options = Options("marginal", 1, 4, samples=0, weights=random_map(shape, i)[0, 0])
        found = search(problem, options).mode
        sd = found.covariance[0].diagonal().sqrt()
        z.append((found.phi[0] - torch.tensor(PHI).double()) / sd)
    z = torch.stack(z)
    # φ = -0.4 is stated on the grid of the noise; on a cut of it σ is another by a little.
    assert float((z[:, 1].mean() * math.sqrt(count)).abs()) < 4
    assert float(z.std(0).max()) < 1 + 4 / math.sqrt(2 * count)
    assert float(z.std(0).min()) > 1 - 4 / math.sqrt(2 * count)


def test_a_grey_picture_is_weighted_as_it_is(natural):
    """Shown to a network for colour; the derivative is that of the grey picture."""
    rng = np.random.default_rng(3)
    ramp = np.linspace(0.2, 0.8, 64)[None] * np.ones((64, 1))
    y = torch.tensor(ramp + 0.1 * rng.standard_normal((64, 64)))[None].float()
    problem, _ = picture_problem(y, NOISE, {}, natural, "periodic")
    (p,) = infer(problem, Options("marginal", samples=0))
    assert "where the network is sure" in p.how
    for row, true in zip(p.rows, (0.1, 0.0), strict=True):
        assert abs(row.mean - true) < 4 * row.total_sd


def test_what_sure_places_lack_of_noise_is_seen_on_a_replicate(natural):
    """The network is surer where the noise happens to be weak; b of eq. (14) is by how much."""
    shape, count = (64, 64), 96
    phi = torch.tensor([(0.15, 0.0)]).double().expand(count, -1)
    noise = NOISE.covariance(shape, phi, torch.float32)
    eps = noise.draw(Streams.batch(0, count), 3)
    x = torch.tensor(data.coffee()[150:214, 250:314] / 255.0).permute(2, 0, 1).float()
    marginal = Marginal(x + eps, NOISE, natural)
    weights = listening(marginal, Sureness(1.0, 50.0, 2.0, 0.0), phi).observation.weights
    square = eps.double().square().mean(1, keepdim=True) / 0.15**2
    w2 = weights.maps.square()
    # Less the mean over the picture, which is no choice of places.
    chosen = (w2 * square).sum((1, 2, 3)) / w2.sum((1, 2, 3)) - square.mean((1, 2, 3))
    error = float(chosen.std()) / math.sqrt(count)
    assert float(chosen.mean()) < -4 * error
    left = chosen - weights.excess
    assert abs(float(left.mean())) < 4 * float(left.std()) / math.sqrt(count)
    assert abs(float(left.mean())) < 0.5 * abs(float(chosen.mean()))


def test_excess_is_that_of_places_that_know_the_noise():
    """Windows on the weaker half of white noise, against its truncated second moment."""
    white = Streams.batch(0, 3).normal(1, 200, 200)
    own = (white.square() < white.square().median()).double()
    other = torch.ones_like(own)
    # The mean square of a normal variable below its median size, 0.6745: 1 - 2 c φ(c)/½.
    c = 0.67448975
    exact = 1 - 2 * c * math.exp(-(c**2) / 2) / math.sqrt(2 * math.pi) / 0.5 - 1
    assert torch.allclose(excess_of(own, other, white), torch.tensor(exact).double(), atol=0.03)
    together = excess_of(own, other, white, together=True)
    assert float(together.std()) < 1e-12


def test_the_weighted_likelihood_of_known_noise_is_unbiased_and_as_wide_as_its_share():
    """What weighted chains draw φ from, on a grid of σ; whitened by noise 20 % too strong."""
    shape, count = (32, 32), 200
    noise = PowerLawNoise()
    phi = torch.tensor([PHI]).double()
    eps = noise.covariance(shape, phi.expand(count, -1)).draw(Streams.batch(5, count), 1)
    w = random_map(shape)
    observation = ObservationModel(noise, shape).weighted(w, 1)
    other = noise.covariance(shape, torch.tensor([[0.22, -0.3]]).double()).power
    own = observation.weights
    share, excess = (part.expand(count) for part in (own.share, own.excess))
    weights = own._replace(N=other, share=share, excess=excess)
    statistic = replace(observation, weights=weights).statistic(eps)
    sigma = torch.linspace(0.1, 0.3, 400).double()
    grid = torch.stack([sigma, torch.full_like(sigma, PHI[1])], 1)
    log_p = torch.stack(
        [noise.log_likelihood(one[None].expand(count, -1), statistic) for one in grid], 1
    )
    p = torch.softmax(log_p, 1)
    mean = p @ sigma
    sd = (p @ sigma.square() - mean.square()).sqrt()
    z = (mean - PHI[0]) / sd
    assert abs(float(z.mean())) < 4 / math.sqrt(count) + 0.1
    assert float(z.std()) == pytest.approx(1, abs=4 / math.sqrt(2 * count))
    exact = PHI[0] / math.sqrt(2 * 32 * 32 * float(independent_share(w)))
    assert float(sd.mean()) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        (torch.ones(8, 9), "does not fit"),
        (torch.ones(2, 8, 8), "does not fit"),
        (-torch.ones(8, 8), "not negative"),
        (torch.full((8, 8), math.nan), "finite"),
        (torch.zeros(8, 8), "above zero"),
    ],
)
def test_bad_maps_are_refused(maps, words):
    with pytest.raises(InputError, match=words):
        check_maps(maps, 1, (8, 8))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"weights": "loud"}, "there are sure"),
        ({"weights": None, "weighted_chains": True, "method": "gibbs"}, "no weights"),
        ({"weights": np.ones((8, 8)), "known": {"sigma": 0.1, "phi": 0.0}}, "is known"),
        ({"weights": np.ones((600, 600)), "method": "marginal", "side": 600}, "up to 512²"),
        ({"weights": np.ones((8, 8)), "method": "marginal"}, "does not fit"),
    ],
    ids=str,
)
def test_weights_that_cannot_be_heeded_are_refused(how, words, truth):
    side = how.pop("side", 32) if "side" in how else 32
    _, y = truth.observe((side, side), 0.2, -0.4)
    with pytest.raises(InputError, match=words):
        denoise(y, model=truth.GAUSSIAN, samples=0, **how)


def test_smoothing_keeps_the_mean_and_spreads_by_its_sd():
    x = torch.zeros(1, 1, 64, 64).double()
    x[..., 32, 32] = 1
    y = smoothed(x, 3.0)[0, 0]
    place = torch.arange(64) - 32.0
    assert float(y.sum()) == pytest.approx(1)
    assert float((y.sum(0) * place.square()).sum()) == pytest.approx(9, rel=1e-3)


def test_weights_are_part_of_a_run():
    shape = (8, 8)
    plain = ObservationModel(NOISE, shape)
    maps = [random_map(shape, seed) for seed in (0, 1)]
    names = {plain.digest(), *(plain.weighted(m, 1).digest() for m in maps)}
    assert len(names) == 3
    # By a rule they are named by the rule: maps differ by rounding from machine to machine.
    ruled = [replace(o, weights=o.weights._replace(name="sure 25 4")) for o in
             (plain.weighted(m, 1) for m in maps)]  # fmt: skip
    assert ruled[0].digest() == ruled[1].digest()
