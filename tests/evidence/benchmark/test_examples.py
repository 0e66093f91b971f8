"""The paper's figure of examples."""

import json

import pytest
import torch

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.benchmark.examples import Example, examples, examples_figure
from gibbsdiff.evidence.benchmark.methods import Setup
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.streams import Streams


@pytest.fixture
def example():
    rng = Streams(0, [(0,)])
    x = rng.uniform(3, 16, 16)[0]
    phi = torch.tensor([0.2, 0.4]) + 0.01 * rng.normal(2, 30, 2)[0]
    far = x + 0.1 * torch.ones_like(x)
    return Example(
        0, x, Posterior(("sigma", "phi"), phi, far, x + 0.01, x, samples=far[None] - 0.05,
                        truth=(0.2, 0.4))
    )  # fmt: skip


def test_psnr_stands_above_and_the_truth_is_marked(example):
    facts = example.facts
    assert facts["noisy"] == pytest.approx(20.0)
    assert facts["sample"] == pytest.approx(26.02, abs=0.01)
    assert facts["mean"] == pytest.approx(40.0)
    page = examples_figure([example, example])
    titles = [axis.get_title() for axis in page.axes]
    assert titles[:4] == [
        "noisy y, 20.0 dB",
        "truth x",
        "sample x̂, 26.0 dB",
        "mean E[x|y], 40.0 dB",
    ]
    marks = [
        line.get_xdata()[0]
        for axis in page.axes
        for line in axis.lines
        if line.get_linestyle() == "--"
    ]
    assert 0.2 in marks
    assert 0.4 in marks


@pytest.mark.slow
def test_the_command_draws_a_row_for_each_phi(command, photographs, tmp_path):
    result = command(
        "benchmark", "figure", "--data", photographs, "--out", tmp_path, "--phi", "-0.4,0.4",
        "--side", 48, "--chains", 2, "--iterations", 8, "--calls", 6,
    )  # fmt: skip
    assert result.code == 0, result.stderr
    assert (tmp_path / "examples.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads((tmp_path / "examples.json").read_text())
    assert [row["truth"] for row in rows] == [[0.2, -0.4], [0.2, 0.4]]
    for row in rows:
        assert row["noisy"] + 2 < row["sample"] < row["mean"]
        assert row["found"][1] == pytest.approx(row["truth"][1], abs=0.4)


def test_bad_input(command, photographs, tmp_path):
    for arguments, words in (
        (["--phi", "a,b"], "--phi a,b: numbers with commas"),
        (["--phi", "3"], "phi = 3 is outside its prior range"),
        (["--sigma", "7"], "sigma = 7 is outside its prior range"),
    ):
        result = command(
            "benchmark", "figure", "--data", photographs, "--out", tmp_path, *arguments
        )
        assert result.code == 2
        assert words in result.stderr
    with pytest.raises(InputError, match="examples need images"):
        examples([], Setup())
