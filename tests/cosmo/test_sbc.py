"""Calibration of (σ, H0, ω_b): the maps, both posteriors of a run, and the command."""

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.calibration import PARAMETERS, patches, patches_run, shifted
from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.cosmo.mock import held_out
from gibbsdiff.data.images import turned
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration import calibrate, calibration_report, one
from gibbsdiff.evidence.calibration.paired import halves
from gibbsdiff.streams import Streams

SIDE = 32


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "maps.npz"
    rng = np.random.default_rng(0)
    np.savez(path, maps=1 + 0.75 * rng.standard_normal((3, 2, 64, 64)).astype(np.float32))
    return path


def test_dust_is_a_held_out_map_shifted_and_turned_by_the_runs_own_key(maps, model):
    runs = Streams(5, [(i,) for i in range(6)])
    drawn = shifted(str(maps), "", SIDE, str(model), "", runs)
    alone = shifted(str(maps), "", SIDE, str(model), "", Streams(5, [(4,)]))
    assert torch.equal(drawn[4], alone[0])
    known = held_out(maps, SIDE, dust_model(SIDE, model).card)[0]
    assert len(known) == 4  # the test block's two snapshots, two slabs each
    for x in drawn:
        corner = torch.stack([turned(x, s).flatten().sort().values for s in range(8)])
        same = [i for i, m in enumerate(known) if torch.equal(m.flatten().sort().values, corner[0])]
        assert len(same) == 1
        undone = [turned(known[same[0]], s) for s in range(8)]
        tops = [(u == x[0, 0, 0]).nonzero()[0, 1:].tolist() for u in undone]
        assert any(
            torch.equal(u.roll((-a, -b), (-2, -1)), x)
            for u, (a, b) in zip(undone, tops, strict=True)
        )
    assert len({float(x[0, 0, 0]) for x in drawn}) == 6


@pytest.mark.parametrize("method", ["marginal", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_a_run_on_gaussian_dust_does_not_depend_on_its_batch(method):
    quick = {"iterations": 20, "burn_in": 5, "chains": 2} if method == "gibbs" else {}
    configuration = patches_run(seed=0, batch=3, method=method, size=SIDE, **quick)
    records = calibrate(configuration, 3)
    again = one(configuration, 1)
    assert again.truth == records[1].truth
    assert again.mean == pytest.approx(records[1].mean, rel=1e-4 if method == "marginal" else 0.3)
    for r in records:
        assert 0.05 <= r.truth[0] <= 1.2
        assert 50 <= r.truth[1] <= 90
        assert r.mean[0] == pytest.approx(r.truth[0], rel=0.3) or r.truth[0] < 0.3


def test_maps_are_judged_with_and_without_the_networks_error(maps, model):
    configuration = patches_run(maps, model, batch=2, size=SIDE, method="marginal")
    records = calibrate(configuration, 2)
    raw, wide = halves(records)
    assert [r.truth for r in raw] == [r.truth for r in wide]
    assert all(len(r.mean) == len(PARAMETERS) for r in raw + wide)
    # This model was not calibrated: it knows of no error.
    assert raw[0].mean == wide[0].mean


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("marginal", {}),
        ("gibbs", {"iterations": 150, "burn_in": 30, "longer": 4}),
    ],
)
def test_gaussian_dust_is_calibrated(method, more):
    configuration = patches_run(batch=60, size=64, method=method, **more)
    result = calibration_report(calibrate(configuration, 60), PARAMETERS)
    assert result.smallest > result.limit, result.table()
    # Ranks of few effective draws are coarse but fair; z-scores need the tails as well.
    assert 0.75 < min(p.z_sd for p in result.parameters) < 1.5


def test_the_command_goes_on_and_refuses_another_configuration(command, tmp_path):
    common = ["sbc", "cosmo", "--size", SIDE, "--method", "marginal", "--out", tmp_path]
    first = command(*common, "--runs", 2, "--batch", 2)
    assert first.code == 0, first.stderr
    assert "σ, H0 and ω_b uniform on the prior box, 32²" in first.stdout
    assert first.stdout.count("INCONCLUSIVE: 2 runs") == 1
    stem = "cosmo-gaussian-marginal-32"
    endings = (".jsonl", ".txt", "-raw.png", "-box.png")
    assert {f.name for f in tmp_path.iterdir()} == {f"{stem}{e}" for e in endings}
    old = (tmp_path / f"{stem}.jsonl").read_text().splitlines()
    more = command(*common, "--runs", 4, "--batch", 2)
    assert more.code == 0, more.stderr
    assert (tmp_path / f"{stem}.jsonl").read_text().splitlines()[:3] == old
    line = command(*common, "--runs", 4, "--batch", 2, "--seed", 1).refusal()
    assert "seed is 0 there and 1 here" in line


def test_bad_input(maps, model, tmp_path, command):
    for known, words in (
        ({"size": 8}, "size: 8 pixels; at least 16"),
        ({"method": "magic"}, "method magic"),
        ({"dust": str(maps), "size": SIDE, "model": str(model), "model_digest": "0" * 16},
         "not the same file on every machine"),
        ({"dust": str(maps), "size": SIDE, "model": str(model), "dust_digest": "0" * 16},
         "not the same file on every machine"),
        ({"dust": str(tmp_path / "no.npz"), "size": SIDE, "model": str(model)}, "no file of maps"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=words):
            patches(**known)
    common = ["sbc", "cosmo", "--out", tmp_path / "out", "--runs", 2]
    assert "maps, --dust, are for" in command(*common, "--signal", "dust").refusal()
    assert "no such file" in command(*common, "--dust", tmp_path / "no.npz").refusal()
    assert "Gaussian dust needs none" in command(*common, "--model", model).refusal()
    assert "--calls: of a network" in command(*common, "--calls", 3).refusal()
    idle = command(*common, "--method", "marginal", "--iterations", 50).refusal()
    assert "--iterations: not an option of --method marginal" in idle
    there = [*common, "--dust", maps, "--model", model, "--size", SIDE]
    assert "device 'nowhere'" in command(*there, "--device", "nowhere").refusal()
    line = command(*common, "--dust", maps, "--model", model, "--size", 64).refusal()
    assert "knows maps of side 32, not 64" in line
    assert not (tmp_path / "out").exists()
