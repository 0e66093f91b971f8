"""`--preset paper` and its parts in every command, with a checkpoint in the authors' layout."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from gibbsdiff import denoise, load_model
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.networks import OriginalUNet

SHORT = ("--chains", 2, "--draws", 4, "--burn-in", 1)
PAPER = "preset paper, starts as the paper, ddpm, warm-up as the paper, mean of the draws of x"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A narrow network on a chain of 40 steps, as the authors' trainer writes it. Its last layer is
    zero, so ε_θ = 0 and y - x has the noise's own law at any φ: chains wander, and never jam.
    """
    path = tmp_path_factory.mktemp("model") / "theirs.ckpt"
    state = {f"model.{k}": v for k, v in OriginalUNet(width=8).state_dict().items()}
    state |= {k: torch.zeros_like(v) for k, v in state.items() if "outc" in k}
    torch.save({"state_dict": state, "hyper_parameters": {"diffusion_steps": 40}}, path)
    return path


@pytest.fixture
def picture(tmp_path):
    noise = 25.5 * np.random.default_rng(0).normal(size=(32, 32, 3))
    clean = data.astronaut()[:32, 150:182]
    Image.fromarray(np.clip(clean + noise, 0, 255).astype(np.uint8)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    Image.fromarray(data.astronaut()[80:176:2, 160:256:2]).save(folder / "a.png")
    return folder


def test_denoise_by_the_preset_with_the_authors_checkpoint(command, checkpoint, picture):
    result = command(
        "denoise", picture, "--preset", "paper", "--model", checkpoint, *SHORT, "--no-figure"
    )
    assert result.code == 0, result.stderr
    assert f"gibbs ({PAPER}), 2 chains × 4 draws" in result.stdout
    p = Posterior.load(picture.with_name("a.posterior.nc"))
    assert torch.equal(p.mean, p.average)
    assert p.phi.shape == (2, 4, 2)


def test_the_preset_has_a_model_of_its_own(command, picture):
    """The small ε-network of the package, by our kernel in few calls, so that it takes seconds."""
    few = ("--sampler", "few-step", "--calls", 2, *SHORT, "--no-figure")
    result = command("denoise", picture, "--preset", "paper", *few)
    assert result.code == 0, result.stderr
    p = Posterior.load(picture.with_name("a.posterior.nc"))
    common = {"chains": 2, "draws": 4, "burn_in": 1, "sampler": "few-step", "calls": 2}
    same = denoise(picture, model="paper-natural-small", preset="paper", **common)
    assert torch.equal(p.phi, same.phi)
    own = denoise(picture, model=load_model("natural"), preset="paper", **common)
    assert not torch.equal(own.phi, same.phi)
    assert own.how == same.how  # D alone


def test_the_checkpoint_with_our_own_kernel(command, checkpoint, picture):
    """Without the preset too: --model FILE, few calls, and starts from the prior."""
    short = ("--chains", 1, "--draws", 4, "--calls", 2, "--no-figure")
    result = command("denoise", picture, "--model", checkpoint, *short)
    assert result.code == 0, result.stderr
    assert "gibbs (starts from the prior), 1 chains × 4 draws" in result.stdout
    # The start, 2 and 4 iterations, 2 calls each; 2 less if noise so weak is given back, which so
    # short a chain of random weights may come to or not, by how the processor rounds.
    assert "14 network calls" in result.stdout or "12 network calls" in result.stdout


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (("--warm-up", "paper"), " (warm-up as the paper)"),
        (("--mean", "average"), " (mean of the draws of x)"),
        (("--sampler", "few-step", "--method", "gibbs"), ""),
    ],
    ids=["warm-up", "mean", "sampler"],
)
def test_each_part_is_an_option(command, picture, options, how):
    result = command("denoise", picture, *SHORT, "--calls", 1, *options, "--no-figure")
    assert result.code == 0, result.stderr
    assert f"gibbs{how}, 2 chains × 4 draws" in result.stdout


def test_the_papers_sampler_is_an_option(command, checkpoint, picture):
    options = ("--model", checkpoint, "--sampler", "ddpm", *SHORT, "--no-figure")
    result = command("denoise", picture, *options)
    assert result.code == 0, result.stderr
    assert "gibbs (starts from the prior, ddpm), 2 chains × 4 draws" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--preset", "paper", "--method", "marginal"), "--preset is for Gibbs chains"),
        (("--preset", "paper", "--quick"), "--preset is for Gibbs chains"),
        (("--preset", "paper", "--sigma", 0.1, "--phi", 0), "--preset: the noise is given"),
        (("--preset", "paper", "--calls", 3), "calls: ddpm has its own number of them"),
        (("--method", "marginal"), "needs a denoiser that models its own error"),
        (("--starts", "marginal"), "starts: around the marginal mode needs"),
        (("--noise", "white", "--preset", "paper"), "another family of noise"),
    ],
)
def test_what_does_not_fit_is_one_line(command, checkpoint, picture, options, words):
    line = command("denoise", picture, "--model", checkpoint, *options).refusal()
    assert words in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--step-by-step",), "--step-by-step: it is of the sampler ddpm"),
        (("--preset", "paper", "--most-iterations", 200), "at least 240 are needed"),
        (("--method", "marginal", "--most-iterations", 900), "not an option of --method marginal"),
    ],
)
def test_calibration_refuses_what_does_not_fit(command, tmp_path, options, words):
    assert words in command("sbc", "gaussian", *options, "--out", tmp_path).refusal()


@pytest.mark.slow
def test_calibration_of_the_preset(command, checkpoint, photographs, tmp_path):
    out = ("--runs", 2, "--batch", 2, "--out", tmp_path)
    gaussian = ("--preset", "paper", "--size", 8, "--iterations", 30, "--sigma-range", 0.1, 0.15)
    result = command("sbc", "gaussian", *gaussian, "--noise", "white", *out)
    assert result.code == 0, result.stderr
    head, *runs = (tmp_path / "gaussian-paper-white-8.jsonl").read_text().splitlines()
    known = json.loads(head)["configuration"]["arguments"]
    assert (known["preset"], known["iterations"], known["burn_in"]) == ("paper", 30, 15)
    at_once = list(map(json.loads, runs))
    longer = (*gaussian, "--noise", "white", "--most-iterations", 130, "--step-by-step")
    result = command("sbc", "gaussian", *longer, *out[:-1], tmp_path / "steps")
    assert result.code == 0, result.stderr
    _, *runs = (tmp_path / "steps" / "gaussian-paper-white-8.jsonl").read_text().splitlines()
    step_by_step = list(map(json.loads, runs))
    assert {run["how"].rsplit(", ", 1)[1] for run in step_by_step} <= {
        "30 iterations)", "120 iterations)",
    }  # fmt: skip
    for run in at_once + step_by_step:
        assert run["how"].startswith("gibbs (preset paper, ")
        assert 0.1 <= run["mean"][0] <= 0.15
        assert run["calls"] > 4 * 31 * 100  # steps of 1/5,000 from t*
    images = ("--data", photographs, "--model", checkpoint, "--size", 16)
    result = command("sbc", "images", "--preset", "paper", *images, "--iterations", 10,
                     "--burn-in", 5, *out)  # fmt: skip
    assert result.code == 0, result.stderr
    _, *runs = (tmp_path / "images-paper-16.jsonl").read_text().splitlines()
    assert all(PAPER in json.loads(run)["how"] for run in runs)
    refused = command("sbc", "images", "--preset", "paper", "--method", "marginal", *images, *out)
    assert "--preset: not an option of --method marginal" in refused.refusal()


def test_parts_are_options_of_calibration(command, tmp_path):
    """Each of them is in the record of the run."""
    brief = ("--size", 8, "--iterations", 30, "--runs", 2, "--noise", "white", "--out", tmp_path)
    parts = ("--starts", "paper", "--warm-up", "paper")
    result = command("sbc", "gaussian", *brief, *parts)
    assert result.code == 0, result.stderr
    _, *runs = (tmp_path / "gaussian-gibbs-white-8.jsonl").read_text().splitlines()
    how = "gibbs (starts as the paper, warm-up as the paper)"
    assert {json.loads(run)["how"] for run in runs} == {how}
    for option in ("--starts", "--warm-up"):
        line = command("sbc", "gaussian", "--method", "marginal", option, "paper").refusal()
        assert f"{option}: not an option of --method marginal" in line


@pytest.mark.slow
def test_the_benchmark_by_the_preset(command, checkpoint, photographs, tmp_path):
    common = ("--data", photographs, "--model", checkpoint, "--side", 32, "--out", tmp_path)
    short = ("--preset", "paper", "--chains", 1, "--iterations", 8, "--limit", 1)
    result = command("benchmark", "images", *common, *short, "--methods", "known-noise,gibbs")
    assert result.code == 0, result.stderr
    text = (tmp_path / "images.md").read_text()
    assert "1 chains × 8 iterations, 4 of them burn-in, preset paper, starts: paper" in text
    for row in ("one Gibbs sample", "Gibbs mean, averaged", "Gibbs mean, Tweedie"):
        assert row in text
    parts = ("--sampler", "ddpm", "--warm-up", "paper", "--starts", "prior")
    brief = ("--chains", 1, "--iterations", 8, "--limit", 1, "--methods", "gibbs")
    result = command("benchmark", "images", *common[:-1], tmp_path / "parts", *parts, *brief)
    assert result.code == 0, result.stderr
    text = (tmp_path / "parts" / "images.md").read_text()
    assert "2 of them burn-in, x drawn by ddpm, warm-up: paper, starts: prior" in text
    line = command("benchmark", "images", *common, "--methods", "marginal").refusal()
    assert "method marginal: " in line
    assert "has no model of its error" in line
