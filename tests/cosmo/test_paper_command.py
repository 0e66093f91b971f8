"""`--preset paper` in the commands of the cosmology, with the small network of the package."""

import json

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.calibration import patches, patches_run
from gibbsdiff.cosmo.check import MockRun
from gibbsdiff.cosmo.infer import model_digest, options_of
from gibbsdiff.cosmo.mock import SHIPPED
from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.pretrained.epsilon import save_epsilon

SIDE = 32
AVERAGE = "mean of the draws of x"


SHORT = ("--chains", 2, "--draws", 4, "--burn-in", 1, "--samples", 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory, tiny):
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    save_epsilon(*tiny()[:1], path, tiny()[1])
    return path


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "maps.npz"
    rng = np.random.default_rng(0)
    np.savez(path, maps=1 + 0.75 * rng.standard_normal((3, 2, SIDE, SIDE)).astype(np.float32))
    return path


def test_the_command_by_the_shipped_model_of_the_preset(command, tmp_path):
    """128², the network of the package; few calls, so that it takes seconds."""
    made = ("cmb", "infer", "--mock", 70, 0.032, 0.5, "--preset", "paper")
    brief = ("--sampler", "few-step", "--calls", 2, "--chains", 1, "--draws", 4, "--burn-in", 0)
    result = command(*made, *brief, "--samples", 1, "-o", tmp_path / "out")
    assert result.code == 0, result.stderr
    how = "preset paper, starts as the paper, warm-up as the paper, mean of the draws of x"
    assert f"gibbs ({how}), 1 chains × 4 draws" in result.stdout
    p = Posterior.load(tmp_path / "out" / "posterior.nc")
    assert torch.equal(p.mean, p.average)
    line = command(*made, "--size", 256, "-o", tmp_path / "none").refusal()
    assert "no model of dust of side 256 for the preset paper comes with the package" in line
    assert not (tmp_path / "none").exists()


def test_each_part_is_an_option_of_cmb_infer(command, model, tmp_path):
    made = ("cmb", "infer", "--mock", 70, 0.032, 0.06, "--model", model, "--size", SIDE, *SHORT)
    parts = ("--calls", 2, "--warm-up", "paper", "--mean", "average", "--starts", "paper")
    result = command(*made, *parts, "-o", tmp_path / "out")
    assert result.code == 0, result.stderr
    how = f"starts as the paper, warm-up as the paper, {AVERAGE}"
    assert f"gibbs ({how}), 2 chains × 4 draws" in result.stdout
    for options, words in (
        (("--preset", "paper", "--calls", 3), "calls: ddpm has its own number of them"),
        (("--preset", "paper", "--method", "marginal"), "--preset: not an option of --method"),
        (("--method", "marginal", "--starts", "prior"), "--burn-in: not an option of --method"),
        (("--starts", "marginal"), "starts: around the marginal mode needs"),
    ):
        assert words in command(*made, *options, "-o", tmp_path / "none").refusal()
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_check_and_calibration_by_the_preset(command, model, maps, tmp_path):
    common = ("--preset", "paper", "--model", model, "--size", SIDE, "--chains", 2)
    few = ("--sampler", "few-step", "--calls", 2)
    result = command("cmb", "check", *common, *few, "--dust", maps, "--mocks", 2, "--draws", 4,
                     "--burn-in", 1, "--samples", 2, "--out", tmp_path)  # fmt: skip
    assert result.code == 0, result.stderr
    assert "2 mocks of 32², preset paper, seed 0" in (tmp_path / "paper-32.md").read_text()
    head = json.loads((tmp_path / "paper-32.jsonl").read_text().splitlines()[0])
    assert "few-step" in json.dumps(head)
    result = command("sbc", "cosmo", *common, "--dust", maps, *few, "--iterations", 10,
                     "--burn-in", 4, "--runs", 2, "--batch", 2, "--out", tmp_path)  # fmt: skip
    assert result.code == 0, result.stderr
    head, *runs = (tmp_path / "cosmo-dust-paper-32.jsonl").read_text().splitlines()
    known = json.loads(head)["configuration"]["arguments"]
    assert (known["preset"], known["sampler"], known["iterations"]) == ("paper", "few-step", 10)
    assert all("gibbs (preset paper, " in json.loads(run)["how"] for run in runs)


def test_calibration_by_the_preset_names_its_model():
    known = patches_run(SHIPPED, preset="paper").arguments
    assert (known["model"], known["preset"]) == ("paper-cosmo-small", "paper")
    assert known["model_digest"] == model_digest(128, "paper-cosmo-small")
    assert patches_run(SHIPPED).arguments["model"] is None


def test_records_of_runs_without_a_preset_keep_their_name():
    """What was written before there were parts can still be gone on from."""
    run = MockRun("maps", "d", None, "e")
    files = {"dust", "dust_digest", "model", "model_digest"}
    how = {"check", "size", "method", "chains", "draws", "samples", "seed"}
    assert set(run.identity) == files | how
    other = MockRun("maps", "d", None, "e", preset="paper")
    assert other.identity["preset"] == "paper"
    assert other.options(3).sampler == "ddpm"
    assert other.options(3).seed == 3
    assert run.options(3) == options_of(samples=16, seed=3)


def test_noise_beyond_the_end_of_the_process_is_refused_before_any_work(command, tmp_path, tiny):
    """b(1)/a(1) = 1.363 of β_max = 2 against 1.387 of the prior at 32²."""
    path = tmp_path / "short.safetensors"
    save_epsilon(*tiny(beta_max=2.0)[:1], path, tiny()[1])
    made = ("cmb", "infer", "--mock", 70, 0.032, 0.5, "--size", SIDE, "--model", path)
    line = command(*made, "--preset", "paper", "-o", tmp_path / "out").refusal()
    assert "noise: the level that the denoiser sees may be by its prior 1.387, above" in line
    assert [p.name for p in tmp_path.iterdir()] == ["short.safetensors"]
    with pytest.raises(InputError, match="preset paper: it is of Gibbs chains"):
        patches(SIDE, "marginal", preset="paper")
