"""Two methods run by run: the same posterior passes, a bias far below one run's error does not."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration import CalibrationRun, calibrate
from gibbsdiff.evidence.calibration.compare import compare, compare_files
from gibbsdiff.evidence.calibration.exact import exact_moments, exact_records
from gibbsdiff.evidence.calibration.sbc import RankRecord
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.streams import Streams

RUNS, ESS = 400, 80


def simulated(seed, shift=0.0, width=1.0):
    """Means and sds as independent draws of N(run + shift, width²) have them."""
    rng = np.random.default_rng(seed)
    records = []
    for run in range(RUNS):
        draws = run + shift + width * rng.normal(size=ESS)
        mean, sd = [float(draws.mean())], [float(draws.std(ddof=1))]
        records.append(RankRecord(run, [run], mean, sd, [0.5], 9, [1.0], [ESS], 1, True))
    return records


def test_the_same_posterior_differs_by_chance_alone():
    found = compare(simulated(0), simulated(1)[::-1], ["a"])
    for difference in found.differences:
        assert abs(difference.z.mean()) < 4 / RUNS**0.5
        assert difference.z.std() == pytest.approx(1, abs=4 / (2 * RUNS) ** 0.5)
        assert abs(difference.size) < 4 * difference.error
    assert found.verdict.startswith("no difference found")
    assert f"{RUNS} runs" in found.table()


@pytest.mark.parametrize(
    ("wrong", "name"), [({"shift": 0.05}, "mean of a"), ({"width": 1.05}, "sd of a")]
)
def test_a_twentieth_of_an_sd_is_seen(wrong, name):
    """In one run it is a third of the error."""
    found = compare(simulated(0, **wrong), simulated(1), ["a"])
    assert found.verdict.startswith("NOT THE SAME")
    assert f"({name})" in found.verdict
    worst = min(found.differences, key=lambda d: d.p)
    assert worst.size == pytest.approx(0.05, abs=4 * worst.error)


def test_runs_that_did_not_converge_are_left_out():
    a, b = simulated(0), simulated(1)
    a[3], b[7] = replace(a[3], settled=False), replace(b[7], settled=False)
    found = compare(a, b[:100], ["a"])
    assert (found.runs, found.left_out) == (98, 2)
    assert "2 runs did not converge" in found.table()
    with pytest.raises(InputError, match="other observations"):
        compare(a, [replace(b[0], truth=[0.5])], ["a"])
    with pytest.raises(InputError, match="at least 2"):
        compare(a, b[:1], ["a"])


@pytest.mark.slow
def test_the_papers_chains_in_files_until_they_converge(command, tmp_path):
    """And our kernel, on the same two observations."""
    small = {"size": 8, "noise": "white", "sigma": (0.3, 0.5), "warm_up": 40}
    paper = small | {"preset": "paper", "iterations": 40, "burn_in": 20, "longer": 4, "rounds": 2}
    for name, arguments in (("paper", paper), ("ours", small)):
        run = CalibrationRun("gaussian", arguments, 0, 2)
        assert all(r.settled for r in calibrate(run, 2, tmp_path / name))
    lines = (tmp_path / "paper").read_text().splitlines()[1:]
    lengths = tuple(f"{n} iterations)" for n in (40, 160, 640))
    assert all(json.loads(line)["how"].endswith(lengths) for line in lines)
    found = compare_files(tmp_path / "paper", tmp_path / "ours")
    assert max(np.abs(d.z).max() for d in found.differences) < 4
    shown = command("sbc", "compare", tmp_path / "paper", tmp_path / "ours")
    assert shown.code == 0
    assert "sd of sigma" in shown.stdout
    (tmp_path / "nothing").write_text("{}")
    assert (
        "not a file of calibration results"
        in command("sbc", "compare", tmp_path / "paper", tmp_path / "nothing").refusal()
    )


def test_the_exact_posterior_by_quadrature_wherever_it_begins():
    """σ of pure white noise on 8², where the signal is known to vanish: p(σ | y) by a fine grid."""
    noise, denoiser = WhiteNoise((0.1, 1.0)), GaussianDenoiser(PowerLawSignal((1e-12,), (0.0,)))
    y = noise.draw((8, 8), torch.tensor([[0.12]]), Streams.batch(0, 1))
    sigma = torch.linspace(0.1, 1.0, 200_001, dtype=torch.float64)
    log_p = -64 * torch.log(sigma) - float(y.square().sum()) / (2 * sigma**2)
    p = torch.softmax(log_p, 0)
    p[0] /= 2  # the trapezoidal rule, at the wall
    p /= p.sum()
    mean = float((p * sigma).sum())
    sd = float((p * (sigma - mean) ** 2).sum().sqrt())
    for guess in ([0.12], [0.9]):
        found = exact_moments(y, noise, denoiser, guess, [0.01])
        assert found[0][0] == pytest.approx(mean, rel=1e-5)
        assert found[1][0] == pytest.approx(sd, rel=1e-4)


def test_the_marginal_methods_files_have_the_observations_of_the_exact_posterior(tmp_path):
    """Another method's records lead to the same observations; only chains can be compared."""
    run = CalibrationRun("gaussian", {"method": "marginal", "size": 16}, 5, 4)
    records = calibrate(run, 4, tmp_path / "a")
    exact = exact_records(run, records)
    for r, e in zip(records, exact, strict=True):
        assert np.abs(np.subtract(r.mean, e.mean) / e.sd).max() < 0.6  # Laplace, at 16²
        assert np.abs(np.subtract(e.truth, e.mean) / e.sd).max() < 4
    with pytest.raises(InputError, match="at least 2 runs that converged"):
        compare_files(tmp_path / "a")
    with pytest.raises(InputError, match="known for the problem gaussian"):
        exact_records(replace(run, problem="photographs"), records)
