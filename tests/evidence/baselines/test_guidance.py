"""DPS and ΠGDM: exact where theory says so, closed forms of a step, laws of a sampler."""

import math
from functools import partial

import pytest
import torch
from skimage import data

from gibbsdiff.diffusion.analytic import GaussianDenoiser, MixtureDenoiser
from gibbsdiff.diffusion.denoiser import Estimate
from gibbsdiff.diffusion.signal import FixedSignal, PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import dps, pigdm
from gibbsdiff.fourier import filtered
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.metrics import psnr
from gibbsdiff.noise import PixelNoise, PowerLawNoise, WhiteNoise
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams

SHAPE = (6, 5)
MEAN, VARIANCE = 0.4, 0.09
WHITE = GaussianDenoiser(FixedSignal(torch.full((1, 6, 3), VARIANCE).double(), MEAN))
RED = GaussianDenoiser(PowerLawSignal((0.02,), (2.0,), MEAN))
NOISE = PowerLawNoise().covariance(SHAPE, torch.tensor([[0.2, -0.9]]).double())
PIXEL = PixelNoise.affine(torch.linspace(0, 2, 30).reshape(SHAPE)).covariance(
    SHAPE, torch.tensor([[0.02, 0.05]]).double()
)
WIDE = {"highest": 10.0, "floor": 5e-3}


class Impulses(Streams):
    """Silence, but for row b the b-th draw, which is 1 in the pixel `at`."""

    def __init__(self, rows, at=(0, 0)):
        super().__init__(0, [(i,) for i in range(rows)])
        self.count, self.at = 0, at

    def rows(self, index):
        assert len(index) == len(self)
        return self

    def normal(self, *shape, dtype=torch.float64):
        out = torch.zeros(len(self), *shape, dtype=dtype)
        out[self.count : self.count + 1, ..., self.at[0], self.at[1]] = 1
        self.count += 1
        return out


def response(sampler, noise, at):
    """x = G y + Σ L_i ξ_i: the columns of pixel `at` of G (H, W) and of all L_i (i, H, W)."""

    def run(y, rng):
        rows = torch.zeros(len(rng), dtype=torch.int64)
        return sampler(WHITE, MEAN + y[rows], noise.rows(rows), rng).x[:, 0] - MEAN

    impulse = torch.zeros(1, 1, *SHAPE).double()
    impulse[..., at[0], at[1]] = 1
    quiet = Impulses(1, at)
    quiet.count = 1  # past the row: all of it silent
    gain = run(impulse, quiet)[0]
    return gain, run(torch.zeros_like(impulse), Impulses(quiet.count - 1, at))


@pytest.mark.parametrize("noise", [NOISE, PIXEL], ids=["coloured", "pixel"])
def test_pigdm_becomes_exact_for_a_white_signal_and_any_noise(noise):
    """Then r_t² = v t²/(v + t²) is the very covariance of x given z. First order in the steps."""
    at = (1, 2)
    errors = []
    for steps in (30, 60, 120):
        gain, columns = response(partial(pigdm, steps=steps, **WIDE), noise, at)
        if noise is NOISE:  # by modes, all of which an impulse holds alike
            N = noise.power[0, 0]
            gains, variances = torch.fft.rfft2(gain).abs(), torch.fft.rfft2(columns).abs()
        else:  # by pixels, which do not mix
            N = noise.variance[0, 0][at]
            gains, variances = gain[at], columns[:, at[0], at[1]]
            assert float(gain.abs().sum() - gain[at].abs()) < 1e-10
        # A step's mean is exact; what is left is the start, which knows nothing of y.
        assert torch.allclose(gains, VARIANCE / (VARIANCE + N), rtol=0.004)
        V = VARIANCE * N / (VARIANCE + N)
        errors.append(float((variances.square().sum(0) / V - 1).abs().max()))
    assert errors[-1] < 0.08
    for i in range(2):
        assert math.log2(errors[i] / errors[i + 1]) == pytest.approx(1, abs=0.25)


def test_dps_stays_overconfident_however_many_steps():
    """White x and ε: dz = -κ (z - …) dt + √(2t) dw towards t = 0, κ = 2t (1/(v+t²) + J²/N), so
    Var x = ∫ 2t exp(-2 ∫₀ᵗ κ) dt, by quadrature. The sampler is extrapolated to no step size.
    """
    N = 0.04
    noise = WhiteNoise().covariance(SHAPE, torch.tensor([[math.sqrt(N)]]).double())
    drawn = []
    for steps in (60, 120):
        _, columns = response(partial(dps, weight="score", steps=steps, **WIDE), noise, (0, 0))
        drawn.append(float(columns[:, 0, 0].square().sum()))
    t = torch.logspace(-5, math.log10(WIDE["highest"]), 100_001).double()
    T = VARIANCE + t**2
    kappa = 2 * t * (1 / T + (VARIANCE / T) ** 2 / N)
    inner = torch.cumulative_trapezoid(kappa, t)
    limit = float(torch.trapezoid(2 * t[1:] * torch.exp(-2 * inner), t[1:]))
    start = float(T[-1] * torch.exp(-2 * inner[-1]))
    assert 2 * drawn[1] - drawn[0] == pytest.approx(limit + start, rel=0.02)
    assert limit < 0.9 * VARIANCE * N / (VARIANCE + N)


def one_step(sampler, denoiser, highest, **options):
    """A single step from a silent start: x and the closed form's ingredients."""
    quiet = Impulses(1)
    quiet.count = 1
    y = RED.prior(SHAPE, Streams.batch(3, 1))
    return y, sampler(denoiser, y, NOISE, quiet, steps=1, highest=highest, **options).x


def test_one_step_of_each_weight_is_the_stated_one():
    highest = 0.7
    S = RED.signal.power(SHAPE)
    J = S / (S + highest**2)
    v = 0.25
    r2 = v * highest**2 / (v + highest**2)
    y, _ = one_step(dps, RED, highest)
    residual = y - MEAN  # a silent start is z = m, where D = m too
    pull = filtered(residual, J / NOISE.power)
    norm = filtered(residual, NOISE.power.rsqrt()).square().sum().sqrt()
    cases = [
        (dps, {"strength": 0.3}, 0.3 * pull / norm),
        (dps, {"weight": "score"}, highest**2 * pull),
        (pigdm, {"variance": v}, highest**2 * filtered(residual, J / (r2 + NOISE.power))),
        (
            pigdm,
            {"variance": v, "weight": "adaptive", "strength": 0.5},
            0.5 * r2 * filtered(residual, J / (r2 + NOISE.power)),
        ),
        (
            pigdm,
            {"variance": v, "regularisation": "constant"},
            highest**2 * filtered(residual, J / (v + NOISE.power)),
        ),
    ]
    for sampler, options, added in cases:
        _, x = one_step(sampler, RED, highest, **options)
        assert torch.allclose(x, MEAN + added, rtol=1e-10, atol=1e-12)


def test_the_drift_is_the_gradient_of_the_guessed_likelihood_for_a_mixture():
    """D of a mixture is not linear: its Jacobian against central differences."""
    means = [torch.full((1, *SHAPE), m).double() for m in (-0.2, 0.5)]
    spectra = [torch.full((1, 6, 3), s).double() for s in (0.02, 0.05)]
    mixture = MixtureDenoiser([0.4, 0.6], means, spectra)
    highest, v = 0.5, 0.1
    r2 = v * highest**2 / (v + highest**2)
    white = WhiteNoise().covariance(SHAPE, torch.tensor([[highest]]).double())
    y = mixture.prior(SHAPE, Streams.batch(4, 1))
    rng = Streams.batch(5, 1)
    z = mixture.prior(SHAPE, rng, 1) + highest * rng.normal(1, *SHAPE)
    x = pigdm(
        mixture, y, NOISE, Streams.batch(5, 1), steps=1, highest=highest, variance=v
    ).x  # the same start
    drift = (x - mixture(z, white).mean) / highest**2
    direction = Streams.batch(6, 1).normal(1, *SHAPE)

    def guessed(at):
        d = mixture(at, white).mean
        # The covariance of the guess is held fixed: it does not depend on z.
        return -0.5 * float(((y - d) * filtered(y - d, 1 / (r2 + NOISE.power))).sum())

    h = 1e-4
    slope = (guessed(z + h * direction) - guessed(z - h * direction)) / (2 * h)
    assert float((drift * direction).sum()) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("sampler", [dps, pigdm])
def test_rows_do_not_know_their_batch_and_calls_are_counted(sampler):
    phi = torch.tensor([[0.05, 0.5], [0.3, -1.0]]).double()
    noise = PowerLawNoise().covariance(SHAPE, phi)
    y = RED.prior(SHAPE, Streams.batch(7, 2))
    seen = []

    def counting(z, here):
        seen.append(len(z))
        return RED(z, here)

    run = partial(sampler, steps=7, highest=2.0, signal=RED.signal, strength=0.1)
    together = run(counting, y, noise, Streams.batch(8, 2))
    assert together.calls.tolist() == [7, 7]
    assert seen == [2] * 7
    for i in range(2):
        one = torch.tensor([i])
        alone = run(RED, y[one], noise.rows(one), Streams(8, [(i,)]))
        assert torch.allclose(alone.x, together.x[one], rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_pigdm_inside_gibbs_finds_sigma_where_it_is_exact():
    """White signal, white noise: p(σ | y) on a grid against the chains."""
    shape = (16, 16)
    denoiser = GaussianDenoiser(FixedSignal(torch.full((1, 16, 9), 0.09).double(), 0.4))
    noise = WhiteNoise((0.05, 1.0))
    y = denoiser.prior(shape, Streams.batch(9, 1)) + 0.4 * Streams.batch(10, 1).normal(1, *shape)
    grid = torch.linspace(0.25, 0.6, 501).double()[:, None]
    many = y.expand(len(grid), -1, -1, -1)
    p = torch.softmax(denoiser.log_evidence(many, noise.covariance(shape, grid)), 0)
    mean = float(p @ grid[:, 0])
    sd = float((p @ (grid[:, 0] - mean) ** 2).sqrt())
    settings = Settings(chains=8, iterations=50, burn_in=15, stop_when_converged=False)
    sampler = partial(pigdm, steps=240, highest=3.0, floor=0.02)
    draws = gibbs(y, noise, denoiser, settings=settings, sampler=sampler)[0].phi[..., 0]
    chains = draws.mean(1)
    error = float(chains.std() / math.sqrt(len(chains)))
    assert abs(float(chains.mean()) - mean) < 4 * error + 0.2 * sd
    assert float(draws.std()) == pytest.approx(sd, rel=0.35)


def test_the_shipped_network_is_guided_from_its_highest_level():
    """float32, gradients through frozen weights: the draw beats what it was drawn from."""
    x = torch.from_numpy(data.astronaut()[40:88, 200:248].copy()).permute(2, 0, 1)[None] / 255
    noise = PowerLawNoise().covariance((48, 48), torch.tensor([[0.2, -0.5]]).double(), x.dtype)
    y = x + noise.draw(Streams.batch(11, 1), 3)
    draw = pigdm(load_model("natural"), y, noise, Streams.batch(12, 1), steps=25)
    assert draw.x.dtype == torch.float32
    assert not draw.x.requires_grad
    assert float(psnr(draw.x, x)) > float(psnr(y, x)) + 1.5


def test_bad_arguments():
    y, rng = RED.prior(SHAPE, Streams.batch(0, 1)), Streams.batch(1, 1)

    def bare(z, noise):
        return Estimate(z / 2, noise)

    with pytest.raises(InputError, match="give its `signal`"):
        dps(bare, y, NOISE, rng)
    with pytest.raises(InputError, match="`variance`"):
        pigdm(bare, y, NOISE, rng)
    with pytest.raises(InputError, match="must be positive"):
        pigdm(RED, y, NOISE, rng, variance=0.0)
    with pytest.raises(InputError, match="0 < floor < highest"):
        dps(RED, y, NOISE, rng, highest=0.001)
    with pytest.raises(ValueError, match="'norm' or 'score'"):
        dps(RED, y, NOISE, rng, weight="adaptive")
    with pytest.raises(ValueError, match="'score' or 'adaptive'"):
        pigdm(RED, y, NOISE, rng, weight="norm")
    with pytest.raises(ValueError, match="'time' or 'constant'"):
        pigdm(RED, y, NOISE, rng, regularisation="none")
