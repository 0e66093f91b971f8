"""Weights of places in calibration: given ones keep coverage, and a run's identity names them."""

import json

import pytest
import torch
from PIL import Image
from skimage import data

from gibbsdiff.cosmo.calibration import patches, patches_run
from gibbsdiff.cosmo.mock import SHIPPED
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration import CalibrationRun, calibrate, calibration_report
from gibbsdiff.evidence.calibration.images import photographs, photographs_run
from gibbsdiff.evidence.calibration.methods import gaussian
from gibbsdiff.evidence.weights import random_map


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("photographs")
    Image.fromarray(data.astronaut()[:300, :300]).save(place / "a.png")
    return place


def test_the_random_map_is_a_smooth_lognormal_field_and_always_the_same():
    """White noise through a Gaussian of sd s has the correlation exp(-r²/4s²), here s = 3."""
    w = random_map(128)
    assert torch.equal(w, random_map(128))
    assert float(w.max()) == 1
    assert float(w.min()) > 0
    g = torch.log(w) / 0.7
    assert float(g.var(correction=0)) == pytest.approx(1, rel=1e-9)
    h = g - g.mean()
    for r in (1, 2, 4):
        found = float((h * h.roll(r, 1)).mean())
        # Some 128²/(4π s²) patches are independent: each correlation is known to about 0.05.
        assert found == pytest.approx(torch.tensor(-r * r / 36).exp().item(), abs=0.1)


def test_weights_that_are_given_keep_coverage():
    known = {"method": "marginal", "size": 64, "random_weights": True}
    records = calibrate(CalibrationRun("gaussian", known, 1, 60), 60)
    result = calibration_report(records, ("sigma", "phi"))
    assert result.unsettled == 0
    assert result.smallest > result.limit
    for parameter in result.parameters:
        assert abs(parameter.z_mean) < 4 / 60**0.5
        assert parameter.z_sd == pytest.approx(1, abs=4 / 120**0.5)
    plain = calibrate(CalibrationRun("gaussian", known | {"random_weights": False}, 1, 60), 60)
    assert [r.truth for r in plain] == [r.truth for r in records]
    # Most of the picture is not listened to.
    assert all(a.sd[1] > b.sd[1] for a, b in zip(records, plain, strict=True))


def test_random_weights_are_an_option_and_part_of_the_run(command, tmp_path):
    brief = ("--method", "marginal", "--size", 16, "--runs", 4, "--batch", 4, "--out", tmp_path)
    heads, found = [], []
    for options in ((), ("--random-weights",)):
        result = command("sbc", "gaussian", *brief, *options)
        assert result.code == 0, result.stderr
        name = "gaussian-marginal-power-law-16" + "".join(f"-{o.lstrip('-')}" for o in options)
        head, *runs = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        heads.append(json.loads(head)["configuration"])
        found.append([json.loads(run) for run in runs])
    assert heads[1]["arguments"] == heads[0]["arguments"] | {"random_weights": True}
    assert len(found[1]) == 4
    for plain, weighted in zip(*found, strict=True):
        assert plain["truth"] == weighted["truth"]
        assert plain["mean"] != weighted["mean"]
    line = command("sbc", "gaussian", "--random-weights", "--out", tmp_path).refusal()
    assert "--random-weights: not an option of --method gibbs" in line
    with pytest.raises(InputError, match="random_weights: they are of the marginal method"):
        gaussian(random_weights=True)


def test_weights_of_photographs_are_named_and_heeded(folder):
    how = {"method": "marginal", "size": 48, "sigma": (0.1, 0.3), "stages": 1}
    runs = [photographs_run(folder, 0, 1, weights=w, **how) for w in ("sure", "none")]
    assert photographs_run(folder, 0, 1, **how).identity == runs[0].identity
    assert [run.identity["arguments"]["weights"] for run in runs] == ["sure", "none"]
    (sure,), (plain,) = (calibrate(run, 1) for run in runs)
    assert sure.truth == plain.truth
    assert sure.mean != plain.mean
    # The rest is not listened to.
    assert all(s > p for s, p in zip(sure.sd[:2], plain.sd[:2], strict=True))
    assert "weights" not in photographs_run(folder, preset="paper").arguments


def test_the_command_names_its_files_by_weights_that_are_not_as_usual(command, folder, tmp_path):
    brief = ("--data", folder, "--size", 32, "--sigma-range", 0.1, 0.3, "--runs", 2)
    first = ("--method", "marginal", "--stages", 1, "--weights", "none")
    result = command("sbc", "images", *brief, *first, "--out", tmp_path)
    assert result.code == 0, result.stderr
    assert "σ uniform on [0.1, 0.3], 32², weights none" in result.stdout
    chains = ("--weighted-chains", "--chains", 2, "--iterations", 10, "--burn-in", 2, "--calls", 1)
    result = command("sbc", "images", *brief, *chains, "--out", tmp_path)
    assert result.code == 0, result.stderr
    names = {f.stem for f in tmp_path.glob("*.jsonl")}
    assert names == {"images-marginal-32-weights-none", "images-gibbs-32-weighted-chains"}
    head, run, _ = (tmp_path / "images-gibbs-32-weighted-chains.jsonl").read_text().splitlines()
    known = json.loads(head)["configuration"]["arguments"]
    assert (known["weights"], known["weighted_chains"]) == ("sure", True)
    assert json.loads(run)["how"] == "gibbs (weighted likelihood)"


def test_weights_of_dust_are_named_where_there_is_a_network():
    assert patches_run(SHIPPED).arguments["weights"] == "none"
    assert patches_run(SHIPPED, weights="sure").identity != patches_run(SHIPPED).identity
    assert "weights" not in patches_run().arguments
    assert "weights" not in patches_run(SHIPPED, preset="paper").arguments


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"weights": "loud"}, "weights 'loud': there are sure, none"),
        ({"method": "marginal", "weights": "loud"}, "weights 'loud': there are sure, none"),
        ({"method": "marginal", "weighted_chains": True}, "weighted_chains is for Gibbs chains"),
    ],
    ids=str,
)
def test_bad_weights(folder, known, words):
    with pytest.raises(InputError, match=words):
        photographs(str(folder), **known)
    with pytest.raises(InputError, match=words):
        patches(dust=str(SHIPPED), **known)
    with pytest.raises(InputError, match="weighted_chains: of a network"):
        patches(weighted_chains=True)
