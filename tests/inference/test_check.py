"""The check of the noise model against the exact Gaussian reference: it says no when it should, and
seldom otherwise.
"""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import gibbsdiff
from gibbsdiff import GaussianDenoiser, Options, PowerLawNoise, PowerLawSignal, WhiteNoise, infer
from gibbsdiff.inference.check import THRESHOLD, check
from gibbsdiff.inference.check_tests import chi_square, findings
from gibbsdiff.inference.check_words import sentence
from gibbsdiff.inference.denoise import picture_problem
from gibbsdiff.inference.model_check import Finding, ModelCheck
from gibbsdiff.inference.observation import ObservationModel, taper
from gibbsdiff.inference.whitened import whitened

SIDE, SIGMA = 64, 0.1
SHAPE = (SIDE, SIDE)
# Three opponent channels that a Wiener filter tells from the noise above |k| = 0.1 or so.
SIGNAL = PowerLawSignal((2e-4, 2e-5, 1e-5), (2.0, 2.0, 2.0), 0.5)
EXACT = GaussianDenoiser(SIGNAL)
PHI = torch.tensor([[SIGMA]], dtype=torch.float64)
K = np.hypot(*np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE), indexing="ij"))
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


def signal(rng):
    """x (3, H, W) by NumPy alone."""
    S = [a * np.where(K > 0, K, 0.5 / SIDE) ** -2.0 for a in (2e-4, 2e-5, 1e-5)]
    white = np.fft.fft2(rng.standard_normal((3, *SHAPE)))
    opponent = np.fft.ifft2(white * np.sqrt(S)).real
    return 0.5 + np.einsum("ij,ihw->jhw", OPPONENT, opponent)


def observe(seed, change=lambda eps, x, rng: eps):
    """y (1, 3, H, W): white noise of std SIGMA, changed."""
    rng = np.random.default_rng((17, seed))
    x = signal(rng)
    y = x + change(SIGMA * rng.standard_normal((3, *SHAPE)), x, rng)
    return torch.from_numpy(y)[None]


def checked(y, window=None, noise=None, phi=PHI):
    return check(ObservationModel(noise or WhiteNoise(), SHAPE, window=window), EXACT, y, phi)


@pytest.mark.parametrize("open_boundary", [False, True])
def test_false_alarms_are_rare(open_boundary):
    window = taper(SHAPE) if open_boundary else None
    alarms = sum(checked(observe(i), window).fits is not True for i in range(60))
    # At a rate of 2 % more than 5 of 60 have the probability 0.2 %.
    assert alarms <= 5


@pytest.mark.parametrize("open_boundary", [False, True])
def test_z_is_standard_normal_for_noise_of_the_model(open_boundary):
    kinds = {}
    model = ObservationModel(WhiteNoise(), SHAPE, window=taper(SHAPE) if open_boundary else None)
    for i in range(60):
        for f in findings(whitened(model, EXACT, observe(i), PHI)):
            kinds.setdefault(f.kind, []).append(f.z)
    assert set(kinds) == {kind for kind, _ in MISFITS.values()} | {"brightness"}
    for kind in set(kinds) - {"impulses"}:
        z = np.array(kinds[kind])
        # Tests of one picture are not independent: a quarter of them counts.
        n = len(z) / 4
        assert abs(z.mean()) < 4 / math.sqrt(n), kind
        assert abs(z.std() - 1) < 4 / math.sqrt(2 * n) + 0.1, kind


def test_the_whitened_residual_is_white_and_of_unit_variance():
    power, coherent, count = 0.0, 0.0, 60
    for i in range(count):
        w = whitened(ObservationModel(WhiteNoise(), SHAPE), EXACT, observe(i), PHI)
        power = power + w.z.square().sum((0, 2, 3)) / (w.kept * _weight()).sum((0, 2, 3))
        coherent = coherent + (w.z[0, 0] * w.z[0, 1]).mean()
    n = count * SIDE**2
    assert ((power / count - 1).abs() < 4 * math.sqrt(2 / n)).all()
    assert abs(coherent / count) < 4 / math.sqrt(n)


def _weight():
    weight = torch.full((SIDE // 2 + 1,), 2.0, dtype=torch.float64)
    weight[0] = weight[-1] = 1
    return weight


def low_pass_chroma(eps, x, rng):
    """Chroma noise only at |k| < 0.25."""
    opponent = np.einsum("ij,jhw->ihw", OPPONENT, eps)
    opponent[1:] = np.fft.ifft2(np.fft.fft2(opponent[1:]) * (K < 0.25)).real
    return np.einsum("ij,ihw->jhw", OPPONENT, opponent)


def by_brightness(eps, x, rng):
    light = x.mean(0)
    return eps * np.exp(0.25 * (light - light.mean()) / light.std())


def in_a_corner(eps, x, rng):
    g = np.ones(SHAPE)
    g[:32, :32] = 1.8
    return eps * g / np.sqrt((g**2).mean())


def by_rows(eps, x, rng):
    return eps + 0.4 * SIGMA * rng.standard_normal((3, SIDE, 1))


def by_columns(eps, x, rng):
    return by_rows(eps, x, rng).transpose(0, 2, 1)


def heavy_tails(eps, x, rng):
    return eps * np.sqrt(rng.gamma(1.5, 1 / 1.5, eps.shape))


def impulses(eps, x, rng):
    return eps + (rng.random(SHAPE) < 0.004) * rng.choice([-1.5, 1.5], SHAPE)


def every_eight(eps, x, rng):
    g = np.ones(SIDE)
    g[::8] = 0.5
    return eps * g


def unequal_colours(eps, x, rng):
    return eps * np.array([1.3, 0.7, 1.0])[:, None, None]


MISFITS = {
    low_pass_chroma: ("band", "chroma at |k| > 0.25 has"),
    by_brightness: ("trend", "the noise grows with brightness"),
    in_a_corner: ("place", "than elsewhere"),
    by_rows: ("rows", "whole rows have noise of their own"),
    by_columns: ("columns", "whole columns have noise of their own"),
    heavy_tails: ("tails", "kurtosis"),
    impulses: ("impulses", "impulses"),
    every_eight: ("blocks", "every 8 pixels"),
    unequal_colours: ("coherence", "correlated"),
}


@pytest.mark.parametrize("change", MISFITS, ids=lambda f: f.__name__)
def test_every_kind_of_misfit_alarms_and_is_named(change):
    kind, words = MISFITS[change]
    found = [checked(observe(i, change)) for i in range(10)]
    assert sum(c.fits is False for c in found) >= 9
    assert sum(kind in {f.kind for f in c.misfits} for c in found) >= 9
    assert sum(words in c.verdict for c in found) >= 7


def test_the_misfit_is_measured():
    found = [checked(observe(i, lambda eps, x, rng: 1.5 * eps)) for i in range(5)]
    # Of y - D, which is all that is seen: N - Ê = N²/(S + N) of the model, N²(S + 2.25 N)/(S + N)²
    # of this noise, which is 2.25 where S is small.
    highest = [f.observed for c in found for f in c.bands if f.high > 0.7]
    assert np.mean(highest) == pytest.approx(2.25, rel=0.05)
    assert all("more noise than the model" in c.verdict for c in found)


def test_a_small_misfit_is_none_whatever_its_z():
    change = lambda eps, x, rng: math.sqrt(1.1) * eps  # noqa: E731
    w = whitened(ObservationModel(WhiteNoise(), SHAPE), EXACT, observe(0, change), PHI)
    large = [f for f in findings(w) if abs(f.z) > 3]
    assert large  # it is seen
    # By chance a small band may be beyond 15 %.
    assert sum(checked(observe(i, change)).fits is True for i in range(20)) >= 18


def test_missing_pixels_have_no_weight():
    known, found = {"sigma": SIGMA}, []
    for i in range(10):
        y = observe(i)[0]
        y[:, 20:30, 10:50] = torch.nan
        p = gibbsdiff.denoise(y, noise="white", known=known, model=EXACT, samples=0)
        found.append(p.check.fits)
    assert sum(fits is True for fits in found) >= 9
    y = observe(0)
    seen = torch.ones(SHAPE, dtype=torch.bool)
    seen[20:30, 10:50] = False
    model = ObservationModel(WhiteNoise(), SHAPE, window=taper(SHAPE, ~seen))
    assert float(whitened(model, EXACT, y, PHI).expected[..., ~seen].abs().max()) == 0


def test_where_nothing_can_be_told_it_says_so():
    # Noise far below the signal: D keeps all of y, Ê/N is near 1.
    noise, phi = WhiteNoise((1e-5, 1.0)), torch.tensor([[1e-4]], dtype=torch.float64)
    x = observe(0, lambda eps, x, rng: 1e-3 * eps)
    found = checked(x, noise=noise, phi=phi)
    assert found.fits is None
    assert "cannot be told from texture" in found.verdict


def test_a_denoiser_without_an_error_model_cannot_tell():
    found = check(ObservationModel(WhiteNoise(), SHAPE), lambda z, n: z / 2, observe(0), PHI)
    assert found.fits is None
    assert found.verdict.startswith("cannot tell")


@pytest.mark.parametrize("method", ["marginal", "gibbs"])
def test_posteriors_hold_the_verdict_and_files_keep_it(method, tmp_path):
    y = observe(0, low_pass_chroma)[0]
    problem, _ = picture_problem(y, WhiteNoise(), {}, EXACT, "periodic")
    options = Options(method, chains=2, draws=8, calls=1, warm_up=20, samples=0)
    (p,) = infer(problem, options)
    assert p.check.fits is False
    assert p.summary().splitlines()[1] == p.check.verdict
    assert "does NOT fit" in p.verdict
    assert "does NOT fit" in repr(p)
    p.save(tmp_path / "p.nc")
    assert gibbsdiff.Posterior.load(tmp_path / "p.nc").check == p.check
    (without,) = infer(problem, replace(options, check=False))
    assert without.check is None
    assert without.calls == p.calls


def test_known_noise_is_checked_too():
    fits, not_fits = (
        gibbsdiff.denoise(y[0], noise="white", known={"sigma": s}, model=EXACT, samples=0)
        for y, s in ((observe(1), SIGMA), (observe(1), 1.5 * SIGMA))
    )
    assert fits.check.fits
    assert fits.calls == 1
    assert not_fits.check.fits is False
    assert "less noise than the model" in not_fits.check.verdict


def test_a_large_picture_is_checked_by_its_windows():
    rng = np.random.default_rng(3)
    model = GaussianDenoiser(PowerLawSignal((2e-4,), (2.0,), 0.5))
    k = np.hypot(*np.meshgrid(np.fft.fftfreq(600), np.fft.fftfreq(600), indexing="ij"))
    S = 2e-4 * np.where(k > 0, k, 0.5 / 600) ** -2.0
    x = 0.5 + np.fft.ifft2(np.fft.fft2(rng.standard_normal((600, 600))) * np.sqrt(S)).real
    y = torch.from_numpy(x + SIGMA * rng.standard_normal((600, 600)))
    known = {"sigma": SIGMA, "phi": 0.0}
    fits = gibbsdiff.denoise(y, known=known, model=model, samples=0)
    assert fits.check.fits
    y[:300] += 0.06 * torch.from_numpy(rng.standard_normal((300, 600)))
    found = gibbsdiff.denoise(y, known=known, model=model, samples=0).check
    assert found.fits is False
    assert "place" in {f.kind for f in found.misfits}


def test_wilson_and_hilferty():
    rng = np.random.default_rng(0)
    for n in (64, 1000):
        z = np.array([chi_square(R, n, 0.0)[1] for R in rng.chisquare(n, 20000) / n])
        assert abs(z.mean()) < 0.03
        assert abs(z.std() - 1) < 0.03
        assert (z > 3).mean() < 0.003


def test_a_check_is_the_same_after_json():
    rows = (Finding("band", "luma", "|k| 0.25-0.38", 0.5, 0.1, -5.5, 0.25, 0.375),)
    made = ModelCheck(False, "no", rows, rows)
    assert ModelCheck.from_dict(json.loads(json.dumps(made.as_dict()))) == made


def test_the_sentence_advises():
    rows = [
        Finding("band", name, "", ratio, 0.1, -20.0, low, high)
        for name, ratio, low, high in (
            ("red-blue chroma", 1 / 12, 0.25, 0.375),
            ("green chroma", 0.2, 0.375, 0.71),
        )
    ]
    said = sentence(rows, PowerLawNoise())
    assert "chroma at |k| > 0.25 has 12 times less noise than the model: try --noise photo" in said
    assert THRESHOLD < 20
