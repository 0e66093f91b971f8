"""`gibbsdiff cmb check`: its yardsticks have closed forms, and its counts are counted."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from gibbsdiff import cli
from gibbsdiff.cosmo import verdict
from gibbsdiff.cosmo.bands import LEAST, RATIO, BandSpectra, bands, compare
from gibbsdiff.cosmo.check import MockRecord, MockRun, check, judge, mixture_of, truth_of
from gibbsdiff.cosmo.gaussian import fisher, gaussian_sd
from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.diffusion.signal import FixedSignal, PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import half_plane
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams

NAMES = ("sigma", "H0", "omega_b")


@pytest.mark.parametrize("sigma", [0.5, 1.0])
def test_the_sd_of_white_noise_alone(sigma):
    shape, noise = (32, 32), WhiteNoise((0.01, 1.0))
    nothing = FixedSignal(torch.full((1, 32, 17), 1e-12, dtype=torch.float64))
    phi = torch.tensor([sigma], dtype=torch.float64)
    # The likelihood of a variance from 1024 modes; at the wall, half of it is cut.
    s = torch.linspace(0.8 * sigma, min(1.2 * sigma, 1.0), 100_001, dtype=torch.float64)
    p = torch.softmax(-1024 * (torch.log(s) + sigma**2 / (2 * s**2)), 0)
    expected = float((p @ (s - p @ s) ** 2).sqrt())
    found = float(gaussian_sd(phi, nothing, noise, shape))
    assert found == pytest.approx(expected, rel=0.02)
    cut = math.sqrt(1 - 2 / math.pi) if sigma == 1 else 1.0
    assert found == pytest.approx(cut * sigma / math.sqrt(2 * 1024), rel=0.08)
    F = fisher(phi, nothing, noise, shape)
    assert float(F) == pytest.approx(2 * 1024 / sigma**2, rel=1e-6)


@pytest.mark.parametrize("truth", [(0.5, 70.0, 0.032), (0.1, 52.0, 0.05)])
def test_the_sd_of_a_cosmology_by_plain_monte_carlo_in_the_box(truth):
    shape, noise, signal = (32, 32), CMBNoise(), PowerLawSignal((0.02,), (2.5,))
    phi = torch.tensor(truth, dtype=torch.float64)
    k = half_plane(shape)
    S_x = signal.power(shape).flatten()
    T = S_x + torch.exp(noise.log_power(k, phi))
    draws = noise.draw_prior(Streams.batch(0, 8000))
    log_p = []
    for some in draws.split(1000):
        other = S_x + torch.exp(noise.log_power(k, some))
        log_p.append(-0.5 * (k.weight * (torch.log(other) + T / other)).sum(-1))
    p = torch.softmax(torch.cat(log_p), 0)
    assert float(1 / p.square().sum()) > 150
    expected = (p @ (draws - p @ draws) ** 2).sqrt()
    assert (gaussian_sd(phi, signal, noise, shape) / expected).log().abs().max() < 0.12


@pytest.mark.parametrize("shape", [(128, 128), (64, 96)])
def test_bands_hold_all_modes_and_enough_of_them(shape):
    k = bands(shape).k
    assert float(k.weight.sum()) == shape[0] * shape[1]
    assert float(k.weight[0]) == 1
    assert float(k.weight[1:].min()) >= LEAST
    assert (k.k.diff() > 0).all()
    assert (k.k[3:] / k.k[2:-1]).min() > math.sqrt(RATIO)


def test_samples_that_are_the_truth_times_a_number():
    truth = Streams(0, [(0,)]).normal(64, 64)
    samples = torch.stack([1.1 * truth, 0.9 * truth])
    found = compare(samples, truth)
    assert found.ratio == pytest.approx([1.01] * len(found.ratio))
    assert found.sd == pytest.approx([0.2 * math.sqrt(2)] * len(found.sd))
    assert (found.near, found.within) == (1, 1)
    far = compare(samples * 2, truth)
    assert far.near == far.within == far.either == 0


def test_truths_fill_the_box_and_do_not_depend_on_how_many_there_are():
    noise = CMBNoise()
    truths = np.array([truth_of(i, noise, seed=4) for i in range(24)])
    u = (truths - noise.low.numpy()) / (noise.high - noise.low).numpy()
    assert ((u > 0) & (u < 1)).all()
    counts = [np.histogram(column, 4, (0, 1))[0] for column in u.T]
    assert np.min(counts) >= 4
    assert truth_of(3, noise, seed=5) != truth_of(3, noise, seed=4)


@pytest.fixture
def maps(tmp_path):
    x = np.random.default_rng(0).standard_normal((3, 2, 64, 64)).astype("f4")
    np.savez(tmp_path / "maps.npz", maps=x + 1)
    return tmp_path / "maps.npz"


def mock_run(maps, model, **changed):
    own = {"size": 32, "method": "marginal", "chains": 2, "draws": 10, "calls": 1, "samples": 2}
    return MockRun(str(maps), "", str(model), "", **(own | changed))


def test_a_stopped_check_goes_on_and_ends_alike(maps, model, tmp_path):
    c, whole, parts = mock_run(maps, model), tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    records = check(c, 2, whole)
    assert check(c, 1, parts) == [replace(records[0], seconds=check(c, 1, parts)[0].seconds)]
    kept = parts.read_text().splitlines()[1]
    again = check(c, 2, parts)
    assert [replace(r, seconds=0.0) for r in again] == [replace(r, seconds=0.0) for r in records]
    assert parts.read_text().splitlines()[1] == kept
    before = parts.read_bytes()
    with pytest.raises(InputError, match="seed is 0 there and 7 here"):
        check(mock_run(maps, model, seed=7), 2, parts)
    assert parts.read_bytes() == before
    # Mocks differ in truth, dust and CMB.
    assert records[0].source != records[1].source
    for r in records:
        assert r.truth == list(truth_of(r.mock, CMBNoise(), 0))
        assert r.calls > 0
        # Independent draws have no R-hat; this network was not calibrated, and knows of no error.
        assert (r.rhat, r.ess) == (None, None)
        assert r.sd == r.total_sd


@pytest.mark.parametrize("method", ["gibbs", "marginal"])
def test_a_record_has_both_standard_deviations(maps, model, method):
    mixture, _ = mixture_of(mock_run(maps, model), 0)
    truth = torch.tensor(mixture.truth, dtype=torch.float64)
    noise, found = CMBNoise(), dust_model(32, model)
    scale = (noise.high - noise.low) / 200
    phi = truth + scale * (1 + Streams.batch(1, 4).normal(500, 3))
    posterior = Posterior(
        noise.names,
        phi,
        mixture.y,
        mixture.y,
        samples=torch.stack([mixture.dust] * 2),
        model_error=torch.diag(3 * scale**2),
        box=torch.stack([noise.low, noise.high]),
        method=method,
    )
    r = judge(0, mixture, posterior, found, noise, seed=5)
    assert r.total_sd == [row.sd for row in posterior.widened(5).rows]
    for i in range(3):
        assert r.sd[i] == pytest.approx(float(scale[i]), rel=4 / math.sqrt(2 * 2000))
        assert r.total_sd[i] == pytest.approx(2 * float(scale[i]), rel=4 / math.sqrt(2 * 2000))
        assert r.z[i] == pytest.approx(-0.5, abs=4 / math.sqrt(2000) + 0.03)
        assert r.width[i] == pytest.approx(r.total_sd[i] / r.gaussian_sd[i])
        # The share of N(1, 2²) below 0.
        assert r.u[i] == pytest.approx(0.3085, abs=4 * math.sqrt(0.31 * 0.69 / 2000))
    assert (r.rhat is None) == (method == "marginal")


def record(mock, z=0.0, width=1.0, rhat=1.0, ess=500.0):
    fine = BandSpectra([1.0, 1.2], [0.01, 0.02])
    return MockRecord(
        mock,
        "",
        truth=[0.5, 70.0, 0.03],
        mean=[0.5, 70.0 - 2.0 * z, 0.03],
        sd=[0.005, 1.0, 0.0005],
        total_sd=[0.01, 2.0, 0.001],
        u=[0.5, 0.999 if z > 0 else 0.5, 0.5],
        gaussian_sd=[0.01, 2.0 / width, 0.001],
        rhat=[1.0, rhat, 1.0],
        ess=[500.0, ess, 500.0],
        ended=True,
        draws=100,
        calls=10,
        seconds=1.0,
        mse_mean=12.0,
        mse_known=12.5,
        mse_wiener=10.0,
        dust=fine,
        cmb=fine,
    )


def test_the_verdict_counts():
    good = [record(i) for i in range(17)]
    three_off = [*good, *(record(i, z=3.5) for i in range(17, 20))]
    assert verdict.verdict(three_off).startswith("passed")
    four_off = [*good[:16], *(record(i, z=-3.5) for i in range(16, 20))]
    assert "|z| ≤ 3: 16 of 20 mocks, 17 needed" in verdict.verdict(four_off)
    assert verdict.verdict(good).startswith("INCONCLUSIVE")
    for flaw, words in (
        ({"width": 1.6}, "1.5 ×"),
        ({"rhat": 1.06}, "R-hat"),
        ({"rhat": float("nan")}, "R-hat"),
        ({"ess": 99.0}, "ESS"),
    ):
        line = verdict.verdict([*three_off[:19], record(19, **flaw)])
        assert line.startswith("NOT PASSED")
        assert words in line
        assert "19 of 20" in line
    # The marginal method's draws are independent: nothing to converge, but a search that ends.
    independent = [replace(record(i), rhat=None, ess=None) for i in range(20)]
    assert verdict.verdict(independent).startswith("passed")
    lost = [*independent[:19], replace(independent[19], ended=False)]
    assert "the search for the mode ended: 19 of 20" in verdict.verdict(lost)
    assert "R-hat" not in verdict.markdown(independent, NAMES, "")
    assert "worst R-hat" not in verdict.summary(independent, NAMES)["parameters"]["H0"]
    assert "R-hat" in verdict.markdown(good, NAMES, "")
    s = verdict.summary(three_off, NAMES)
    assert s["parameters"]["H0"]["median sd given the network / sd"] == pytest.approx(0.5)
    assert s["parameters"]["H0"]["mean z"] == pytest.approx(3 * 3.5 / 20)
    assert s["parameters"]["H0"]["coverage"]["0.95"] == pytest.approx(17 / 20)
    assert s["bands"]["dust"]["either"] == 0.5
    assert s["parameters"]["H0"]["largest width"] == 1


def test_the_command_writes_table_figure_and_json(maps, model, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    options = ["--mocks", 2, "--size", 32, "--dust", maps, "--model", model, "--method", "marginal"]
    options += ["--draws", 10, "--calls", 1, "--samples", 2, "--out", out]
    monkeypatch.setattr(sys, "argv", ["gibbsdiff", "cmb", "check", *map(str, options)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (0, None)
    assert (out / "marginal-32.png").read_bytes().startswith(b"\x89PNG")
    text = (out / "marginal-32.md").read_text()
    assert text in capsys.readouterr().out
    assert "**passed" not in text
    for name in NAMES:
        assert f"| {name} |" in text
