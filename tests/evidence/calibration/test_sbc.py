"""Calibration: right methods pass, wrong ones do not, and an interrupted one goes on."""

import json
import pickle
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch
from typer.testing import CliRunner

from gibbsdiff.cli import app
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration import (
    CalibrationProblem,
    CalibrationRun,
    Outcome,
    block,
    calibrate,
    calibration_report,
    one,
    simulate,
)
from gibbsdiff.evidence.calibration.figure import rank_figure
from gibbsdiff.noise import WhiteNoise

BOTH = ("sigma", "phi")


def gaussian_run(seed, batch, **arguments):
    return CalibrationRun("gaussian", arguments, seed, batch)


def pure_noise(spread=1.0, shift=0.0, draws=60):
    """No signal at all: σ | y is drawn exactly, then spoilt about its own mean."""
    noise = WhiteNoise((0.1, 1.0))

    def method(y, rng):
        statistic = noise.statistic(y)
        phi = torch.full((len(y), 1), 0.5).double()
        many = [noise.redraw_amplitude(phi, statistic, rng) for _ in range(2 * draws)]
        exact = torch.stack(many, 1).reshape(len(y), 2, draws, 1)
        mean, sd = exact.mean((1, 2), True), exact.std((1, 2), keepdim=True)
        return mean + spread * (exact - mean) + shift * sd

    return CalibrationProblem(noise, lambda rng: torch.zeros(len(rng), 1, 8, 8).double(), method)


def test_exact_draws_pass():
    result = calibration_report(simulate(pure_noise(), 0, range(200)), ["sigma"])
    assert result.smallest > result.limit == 0.005
    assert result.verdict.startswith("no miscalibration found")
    assert abs(result.parameters[0].z_mean) < 4 / 200**0.5
    assert result.parameters[0].z_sd == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("wrong", [{"spread": 0.5}, {"spread": 2.0}, {"shift": 0.5}], ids=str)
def test_wrong_draws_do_not(wrong):
    result = calibration_report(simulate(pure_noise(**wrong), 0, range(120)), ["sigma"])
    assert result.verdict.startswith("NOT CALIBRATED")
    assert not result.parameters[0].band.inside


def test_the_verdict_does_not_flatter():
    few = calibration_report(simulate(pure_noise(), 0, range(20)), ["sigma"])
    assert few.verdict.startswith("INCONCLUSIVE: 20 runs")
    coarse = calibration_report(simulate(pure_noise(draws=10), 0, range(60)), ["sigma"])
    assert coarse.verdict.startswith("INCONCLUSIVE: 60 of 60 runs did not converge")
    stuck = CalibrationProblem(
        pure_noise().noise,
        pure_noise().signal,
        lambda y, rng: torch.full((len(y), 2, 50, 1), 0.5),
    )
    frozen = calibration_report(simulate(stuck, 0, range(60)), ["sigma"])
    assert frozen.unsettled == 60
    assert not frozen.verdict.startswith("no ")


@pytest.mark.parametrize("ended", [True, False])
def test_independent_draws_have_no_convergence_and_all_of_them_are_ranked(ended):
    """Correlated ones would be thinned by their ESS; these are not chains, whatever they look."""
    exact = pure_noise(draws=45)

    def method(y, rng):
        sorted_draws = exact.method(y, rng).sort(2).values  # as chains: next to no ESS
        return [Outcome(draws, 7, True, ended, "sorted") for draws in sorted_draws]

    records = simulate(replace(exact, method=method), 0, range(60))
    assert {(r.kept, r.rhat, r.ess, r.settled) for r in records} == {(90, None, None, ended)}
    result = calibration_report(records, ["sigma"])
    assert result.smallest > result.limit
    assert (result.worst_rhat, result.least_ess) == (None, None)
    assert result.how == {"sorted": 60}
    table = result.table()
    assert "R-hat" not in table
    assert "60 runs: sorted" in table
    count = 0 if ended else 60
    assert f"{count} of 60 searches did not end, 7 denoiser calls per run" in table
    assert result.verdict.startswith("no " if ended else "INCONCLUSIVE: 60 of 60 searches")


def test_marginal_is_calibrated_and_a_run_does_not_depend_on_its_batch():
    configuration = gaussian_run(
        1, 29, method="marginal", size=32, sigma=(0.1, 1.0), noise="power-law"
    )
    records = calibrate(configuration, 58)
    result = calibration_report(records, BOTH)
    assert result.smallest > result.limit
    assert result.unsettled == 0
    alone = one(configuration, 57)
    assert alone.truth == records[57].truth
    # Rounding of a batch's transforms may move a draw in its last digits.
    assert alone.mean == pytest.approx(records[57].mean, rel=1e-6)
    assert alone.u == pytest.approx(records[57].u, abs=0.011)
    assert {r.how for r in records} == {"marginal (first stage, laplace density)"}
    assert {(r.kept, r.rhat, r.ess) for r in records} == {(99, None, None)}


def test_the_polynomial_density_is_an_option_named_in_configuration_and_result():
    arguments = {"method": "marginal", "size": 16, "sigma": (0.3, 1.0), "density": "polynomial"}
    configuration = CalibrationRun("gaussian", arguments, seed=1, batch=4)
    assert configuration.identity["arguments"]["density"] == "polynomial"
    records = calibrate(configuration, 4)
    assert {r.how for r in records} <= {
        f"marginal (first stage, {name} density)" for name in ("polynomial", "laplace")
    }
    assert "marginal (first stage, polynomial density)" in {r.how for r in records}


def test_gibbs_is_calibrated():
    """Few draws: coarse ranks, which are uniform all the same."""
    configuration = gaussian_run(
        2, 60, size=16, sigma=(0.3, 1.0), noise="white",
        iterations=36, burn_in=12, longer=1, warm_up=30,
    )  # fmt: skip
    result = calibration_report(calibrate(configuration, 60), ["sigma"])
    assert result.smallest > result.limit
    assert abs(result.parameters[0].z_mean) < 4 / 60**0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "marginal"])
def test_three_hundred_runs(method):
    """Both methods, 32², σ from 0.1 to 1: the smallest of all p-values above 0.01/8."""
    configuration = gaussian_run(0, 100, method=method, size=32, sigma=(0.1, 1.0))
    result = calibration_report(calibrate(configuration, 300), BOTH)
    assert result.smallest > 0.01 / 8
    assert result.unsettled <= 9


SMALL = gaussian_run(3, 2, method="marginal", size=8, noise="white")


def backwards(work, blocks):
    return map(work, reversed(list(blocks)))


def test_an_interrupted_calibration_goes_on_and_ends_the_same(tmp_path):
    """Bit for bit, in any order of the batches."""
    whole = calibrate(SMALL, 6)
    path = tmp_path / "sbc.jsonl"

    def interrupted(work, blocks):
        yield from islice(backwards(work, blocks), 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(SMALL, 6, path, mapper=interrupted)
    assert len(path.read_text().splitlines()) == 1 + 4
    counts = []
    assert calibrate(SMALL, 6, path, watch=counts.append) == whole
    assert counts == [6]
    assert calibrate(SMALL, 5, path, mapper=lambda *_: []) == whole[:5]
    elsewhere = pickle.loads(pickle.dumps(partial(block, SMALL)))
    assert elsewhere(1) == whole[2:4]


def test_a_batch_of_gibbs_chains_gives_the_same_again():
    """Also where slow runs go a second round."""
    configuration = gaussian_run(
        4, 2, size=8, noise="white", iterations=8, burn_in=0, longer=2, warm_up=20
    )
    assert block(configuration, 1) == block(configuration, 1)


def mine(draws):
    return pure_noise(draws=draws)


def test_a_problem_may_be_a_function_of_ones_own(tmp_path):
    """Its name stands in the file; what has none can be calibrated, but not kept."""
    path = tmp_path / "sbc.jsonl"
    run = CalibrationRun(mine, {"draws": 40}, batch=3)
    records = calibrate(run, 6, path)
    assert records == simulate(pure_noise(draws=40), 0, range(3)) + block(run, 1)
    assert json.loads(path.read_text().splitlines()[0])["configuration"]["problem"] == "mine"
    assert calibrate(run, 6, path, mapper=lambda *_: []) == records
    nameless = CalibrationRun(lambda: mine(40), batch=3)
    assert calibrate(nameless, 3) == records[:3]
    with pytest.raises(InputError, match="a function with a name"):
        calibrate(nameless, 3, path)


def test_the_device_is_not_part_of_a_results_identity():
    here, there = (
        CalibrationRun("photographs", {"size": 32, "device": d}) for d in ("cpu", "cuda")
    )
    assert here.identity == there.identity
    assert here.identity["arguments"] == {"size": 32}


def test_results_of_another_configuration_are_refused_and_kept(tmp_path):
    path = tmp_path / "sbc.jsonl"
    calibrate(SMALL, 2, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="seed is 3 there and 4 here"):
        calibrate(replace(SMALL, seed=4), 2, path)
    with pytest.raises(InputError, match="size is 8 there and 16 here"):
        calibrate(replace(SMALL, arguments={**SMALL.arguments, "size": 16}), 2, path)
    assert path.read_bytes() == before
    for junk in (b"", b"hello\n", b"[1, 2]\n", b"\xff\xfe", b'{"format": "else"}\n'):
        path.write_bytes(junk)
        with pytest.raises(InputError, match="not a file of calibration results"):
            calibrate(SMALL, 2, path)
    path.write_bytes(before[: len(before) // 2])
    with pytest.raises(InputError, match="not a file of calibration results"):
        calibrate(SMALL, 2, path)
    lines = before.decode().splitlines()
    for bad in ({"run": 0}, [0], {**json.loads(lines[1]), "u": "x"}):
        path.write_text("\n".join([lines[0], json.dumps(bad)]) + "\n")
        with pytest.raises(InputError, match="line 2 is not a record"):
            calibrate(SMALL, 2, path)


def test_bad_input():
    with pytest.raises(InputError, match="runs: at least 1"):
        calibrate(SMALL, 0)
    with pytest.raises(InputError, match=r"no 'nothing' \(there are dust, gaussian, photographs\)"):
        CalibrationRun("nothing").build()
    with pytest.raises(InputError, match="batch and ranks"):
        CalibrationRun("gaussian", batch=0)
    with pytest.raises(InputError, match="burn-in 9 must be shorter than the run of 9"):
        CalibrationRun("gaussian", {"iterations": 9, "burn_in": 9}).build()
    flat = replace(pure_noise(), method=lambda y, rng: torch.zeros(3))
    with pytest.raises(InputError, match=r"must give draws \(2, chain, draw, 1\)"):
        simulate(flat, 0, range(2))
    with pytest.raises(InputError, match="at least 2 runs"):
        calibration_report([], ["sigma"])


def test_the_command_writes_results_and_figure_and_goes_on(tmp_path):
    arguments = ["sbc", "gaussian", "--method", "marginal", "--noise", "white", "--size", "8"]
    arguments += ["--batch", "10", "--out", str(tmp_path)]
    first = CliRunner().invoke(app, [*arguments, "--runs", "10"])
    assert first.exit_code == 0, first.output
    assert "INCONCLUSIVE: 10 runs" in first.output
    path = tmp_path / "gaussian-marginal-white-8.jsonl"
    old = path.read_text()
    second = CliRunner().invoke(app, [*arguments, "--runs", "20"])
    assert second.exit_code == 0, second.output
    assert path.read_text().startswith(old)
    assert (tmp_path / "gaussian-marginal-white-8.png").read_bytes().startswith(b"\x89PNG")
    other = CliRunner().invoke(app, [*arguments, "--runs", "20", "--seed", "1"])
    assert isinstance(other.exception, InputError)
    ignored = CliRunner().invoke(app, [*arguments, "--runs", "20", "--iterations", "40"])
    assert "--iterations: not an option of --method marginal" in str(ignored.exception)


def test_the_figure_shows_what_the_report_says():
    result = calibration_report(simulate(pure_noise(spread=0.5), 0, range(60)), ["sigma"])
    page = rank_figure(result, "too narrow")
    bars, curve, covered = page.axes
    counts = bars.patches[-1].get_data().values
    assert counts.sum() == 60
    assert curve.lines[0].get_ydata() == pytest.approx(result.parameters[0].band.difference)
    assert min(covered.lines[0].get_ydata()) < -10
