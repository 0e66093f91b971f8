"""The grid of images, cells and methods: same noise for all, resumable, and never mixed up."""

import json
from dataclasses import replace
from itertools import islice

import pytest
import torch
from safetensors.torch import save_file

from gibbsdiff import denoise, load_model
from gibbsdiff.data.images import protocol_images
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines.dncnn import DnCNN
from gibbsdiff.evidence.benchmark.chains import PAPER, ChainLength
from gibbsdiff.evidence.benchmark.images import (
    RESULTS,
    benchmark,
    files_for_tests,
    observe,
    tasks,
    work,
)
from gibbsdiff.evidence.benchmark.methods import Setup, chains, setting
from gibbsdiff.evidence.benchmark.store import Store
from gibbsdiff.inference.setting import FIRST
from gibbsdiff.metrics import psnr, ssim
from gibbsdiff.training.evaluation import evaluate

SIDE = 48
CELLS = [(0.1, -1.0), (0.2, 1.0)]


def refused(result):
    assert result.code == 2, result.stderr
    assert result.stderr.strip().count("\n") == 0
    return result.stderr


@pytest.fixture(scope="module")
def setup():
    return Setup(gibbs=ChainLength(2, 8, 2), calls=4).with_digests()


@pytest.fixture
def grid(photographs, setup):
    def make(groups, cells=CELLS, **changes):
        files = files_for_tests(photographs)[:2]
        how = replace(setup, **changes.pop("setup", {}))
        return tasks(files, "cbsd68", groups, how, cells=cells, side=SIDE, **changes)

    return make


def without_time(records):
    keys = ("set", "index", "image", "sigma", "phi", "row", "psnr", "ssim", "calls", "found", "sd")
    rows = [{key: r[key] for key in keys} for r in json.loads(json.dumps(records))]
    return sorted(rows, key=lambda r: (r["index"], r["sigma"], r["row"]))


def test_told_the_truth_it_is_the_model_cards_figure(grid, photographs):
    images = protocol_images(files_for_tests(photographs)[:2], SIDE)
    wanted = evaluate(load_model("natural"), images, [0.1], [-1.0])[0].psnr
    records = [work(task)[0] for task in grid(["known-noise"], CELLS[:1])]
    assert sum(r["psnr"] for r in records) / 2 == pytest.approx(wanted, abs=1e-3)
    assert [r["calls"] for r in records] == [1, 1]


def test_every_method_sees_the_same_noise_and_every_image_its_own(grid):
    one, other, second = (
        grid([g], CELLS[:1])[i] for g, i in (("known-noise", 0), ("gibbs", 0), ("known-noise", 1))
    )
    (x, a), (_, b), (x2, c) = observe(one), observe(other), observe(second)
    assert torch.equal(a.y, b.y)
    assert a.seed == b.seed != c.seed
    eps, eps2 = a.y - x, c.y - x2
    n = eps.numel()
    # The mean power of n coloured pixels scatters by about √(2/n) times the spectrum's contrast.
    assert float(eps.square().mean()) == pytest.approx(0.01, rel=0.25)
    assert abs(float((eps * eps2).mean()) / 0.01) < 0.25
    record = work(grid(["noisy"], CELLS[:1])[0])[0]
    assert record["psnr"] == pytest.approx(float(psnr(a.y, x)))
    assert record["ssim"] == pytest.approx(float(ssim(a.y, x)))
    assert n == 3 * SIDE**2


@pytest.mark.slow
def test_blind_rows_find_the_noise_and_a_mean_beats_a_sample(grid):
    cells = [(0.2, 0.5)]
    both, first = (work(grid([g], cells)[0])[0] for g in ("marginal", "marginal-first"))
    rows = {r["row"]: r for r in work(grid(["gibbs"], cells, setup={"calls": 12})[0])}
    best, noisy = (work(grid([g], cells)[0])[0]["psnr"] for g in ("known-noise", "noisy"))
    for row in (both, first, rows["gibbs-tweedie"]):
        assert row["psnr"] == pytest.approx(best, abs=0.3)
        assert row["psnr"] > noisy + 3
        assert row["found"][0] == pytest.approx(0.2, rel=0.1)
        assert row["found"][1] == pytest.approx(0.5, abs=0.3)
    # E‖x̂ - x‖² = 2 E‖E[x|y] - x‖² for draws of the true posterior: 3 dB.
    gap = rows["gibbs-tweedie"]["psnr"] - rows["gibbs-sample"]["psnr"]
    assert 1.5 < gap < 4.5
    between = rows["gibbs-average"]["psnr"]
    assert rows["gibbs-sample"]["psnr"] < between < rows["gibbs-tweedie"]["psnr"] + 0.3
    # Two chains, 8 iterations and the start, 12 calls each; and the search before them.
    assert rows["gibbs-tweedie"]["calls"] > 2 * 9 * 12
    assert both["calls"] > first["calls"] + 2 * 5 * 4 - 1


@pytest.mark.slow
def test_the_papers_setting_starts_as_the_paper_does(grid):
    assert (PAPER.chains, PAPER.iterations, PAPER.burn_in) == (16, 40, 20)
    short = replace(PAPER, chains=3, iterations=4, burn_in=2)
    task = grid(["gibbs"], [(0.2, 0.5)], setup={"gibbs": short, "calls": 3})[0]
    posterior = chains(observe(task)[1], task.setup)
    assert posterior.phi.shape == (3, 2, 2)
    assert posterior.how == ("starts as the paper",)
    # The start and four iterations; the rest is the search, which corrects the denoiser.
    search = posterior.calls - 3 * 5 * 3
    assert 0 < search <= FIRST + 1


def test_rows_are_what_denoise_gives(grid):
    """The known noise, and the marginal method, digit for digit."""
    known, blind = (grid([g], CELLS[:1])[0] for g in ("known-noise", "marginal-first"))
    x, seen = observe(blind)
    common = {"boundary": "periodic", "samples": 0, "seed": seen.seed}
    wanted = denoise(seen.y[0], method="marginal", second_stage=False, **common)
    (row,) = work(blind)
    assert row["psnr"] == float(psnr(wanted.mean[None], x)[0])
    assert row["found"] == tuple(r.mean for r in wanted.rows)
    assert row["sd"] == tuple(r.sd for r in wanted.rows)
    assert row["total_sd"] == tuple(r.total_sd for r in wanted.rows)
    assert all(t > s for t, s in zip(row["total_sd"], row["sd"], strict=True))
    assert row["calls"] == wanted.calls
    best = denoise(seen.y[0], known={"sigma": 0.1, "phi": -1.0}, **common)
    assert work(known)[0]["psnr"] == float(psnr(best.mean[None], x)[0])


def test_weights_are_heeded_and_part_of_what_results_depend_on(grid, setup, tmp_path):
    (task,), plain = grid(["marginal-first"], CELLS[:1])[:1], replace(setup, weights="none")
    _, seen = observe(task)
    common = {"boundary": "periodic", "samples": 0, "seed": seen.seed, "weights": None}
    wanted = denoise(seen.y[0], method="marginal", second_stage=False, **common)
    (row,) = work(replace(task, setup=plain))
    assert row["found"] == tuple(r.mean for r in wanted.rows)
    assert benchmark([task], tmp_path)[0]["found"] != list(row["found"])
    with pytest.raises(InputError, match="marginal-first: weights is sure there and none here"):
        benchmark([replace(task, setup=plain)], tmp_path)
    assert setting("known-noise", plain) == setting("known-noise", setup)
    assert "weighted_chains" not in setting("gibbs", setup)
    chains_too = replace(setup, gibbs=replace(setup.gibbs, weighted_chains=True))
    assert setting("gibbs", chains_too) == setting("gibbs", setup) | {"weighted_chains": True}


def test_an_interrupted_benchmark_goes_on_and_ends_the_same(grid, tmp_path):
    wanted = grid(["noisy", "known-noise", "nlm"])
    whole = benchmark(wanted, tmp_path / "whole")

    def interrupted(function, items):
        yield from islice(map(function, reversed(list(items))), 5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        benchmark(wanted, tmp_path, mapper=interrupted)
    path = tmp_path / RESULTS
    before = path.read_text()
    path.write_text(before + '{"set": "cbsd')  # what a crash leaves
    counts = []
    again = benchmark(wanted, tmp_path, watch=lambda done, of: counts.append((done, of)))
    assert counts[0] == (5, 12)
    assert counts[-1] == (12, 12)
    assert path.read_text().startswith(before)
    assert without_time(again) == without_time(whole)
    assert benchmark(wanted, tmp_path, mapper=lambda *_: []) == json.loads(json.dumps(again))


def test_results_of_another_configuration_are_refused_and_kept(grid, tmp_path):
    benchmark(grid(["noisy", "known-noise"], CELLS[:1]), tmp_path)
    path = tmp_path / RESULTS
    before = path.read_bytes()
    other = {"digests": (("model", "0" * 16),)}
    for wanted, words in (
        (grid(["noisy"], seed=2), "protocol: seed is 1 there and 2 here"),
        (grid(["known-noise"], setup=other), "known-noise: model is .* there and 0000"),
        ([replace(t, side=40) for t in grid(["known-noise"])], "side is 48 there and 40 here"),
        (
            [replace(t, path="z.png") for t in grid(["known-noise"])],
            "image 0 of cbsd68 is a.png there",
        ),
    ):
        with pytest.raises(InputError, match=words):
            benchmark(wanted, tmp_path)
        assert path.read_bytes() == before
    for junk in (b"hello\n", b"[1]\n", b"\xff\n", b'{"format": "else"}\n', b"half a line"):
        path.write_bytes(junk)
        with pytest.raises(InputError, match="not a file of benchmark results"):
            benchmark(grid(["known-noise"]), tmp_path)
        assert path.read_bytes() == junk
    path.write_bytes(before + b'{"set": "a"}\n')
    with pytest.raises(InputError, match="line 8 is not a record"):
        Store(path, {"side": SIDE, "seed": 1, "boundary": "periodic"}, {})


def test_other_methods_may_join_later(grid, tmp_path):
    benchmark(grid(["noisy"], CELLS[:1]), tmp_path)
    records = benchmark(grid(["known-noise"], CELLS[:1]), tmp_path)
    assert {r["row"] for r in records} == {"noisy", "known-noise"}
    assert len(records) == 4


def test_the_command_writes_tables_and_goes_on(command, photographs, tmp_path):
    weights = tmp_path / "dncnn.safetensors"
    save_file(DnCNN().state_dict(), weights)
    arguments = ["benchmark", "images", "--data", photographs, "--out", tmp_path / "out"]
    arguments += ["--side", SIDE, "--set", "imagenet", "--limit", 1, "--dncnn", weights]
    result = command(*arguments, "--methods", "noisy,dncnn,known-noise")
    assert result.code == 0, result.stderr
    text = (tmp_path / "out" / "images.md").read_text()
    assert "| ours, told the truth | 1 |" in text
    assert "| *printed in the paper: GDiff, posterior mean* | 50 | 32.2 ± 0.3 |" in text
    summary = json.loads((tmp_path / "out" / "images.json").read_text())
    assert len(summary["imagenet"]["cells"]) == 9
    assert (tmp_path / "out" / "images.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "out" / RESULTS).read_bytes()
    again = command(*arguments, "--methods", "noisy,dncnn,known-noise")
    assert again.code == 0
    assert (tmp_path / "out" / RESULTS).read_bytes() == before
    assert "seed is 1 there and 3 here" in refused(
        command(*arguments, "--methods", "known-noise", "--seed", 3)
    )
    assert (tmp_path / "out" / RESULTS).read_bytes() == before


def test_bad_input_is_one_clear_line(command, photographs, tmp_path, monkeypatch):
    monkeypatch.setattr("gibbsdiff.evidence.cluster.TIMEOUT", 1.0)
    odd = tmp_path / "odd.safetensors"
    save_file({"model.0.weight": torch.zeros(64, 1, 3, 3)}, odd)
    alien = tmp_path / "alien.safetensors"
    save_file({"conv.weight": torch.zeros(3)}, alien)
    for arguments, words in (
        (["--data", tmp_path / "nowhere"], "nowhere: no such folder"),
        (["--data", tmp_path], "holds no JPEG, PNG or TIFF image"),
        (["--data", photographs, "--dncnn", odd], "odd.safetensors: the weight model.0"),
        (["--data", photographs, "--dncnn", alien], "it has the weight conv.weight"),
        (["--data", photographs, "--dncnn", tmp_path / "none"], "none: no such file"),
        (
            ["--data", photographs, "--methods", "known-noise,magic"],
            "method magic: there are noisy",
        ),
        (["--data", photographs, "--methods", "dncnn"], "method dncnn: give the file"),
        (["--data", photographs, "--model", "magic"], "magic: neither a file nor a model"),
        (["--data", photographs, "--methods", "noisy", "--cluster", "local:x"], "write local:N"),
        (["--data", photographs, "--hold-out-every", 3, "--selection", 9], "no image is left"),
    ):
        error = refused(command("benchmark", "images", *arguments, "--out", tmp_path / "out"))
        assert words in error
    assert not (tmp_path / "out").exists()


def test_held_out_images_are_those_of_training(photographs):
    assert [f.name for f in files_for_tests(photographs, 2)] == ["a.png", "c.png"]
    assert [f.name for f in files_for_tests(photographs, 2, 1)] == ["c.png"]
