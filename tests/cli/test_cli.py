"""The command, as a user meets it."""

import subprocess
import sys

import pytest
from matplotlib import pyplot

import gibbsdiff


def test_version(command):
    assert command("--version").stdout.strip() == f"gibbsdiff {gibbsdiff.__version__}"


def test_help_is_quick_and_names_the_commands(command):
    for arguments in ([], ["--help"]):
        text = command(*arguments).stdout
        assert all(name in text for name in ("denoise", "demo", "train", "sbc"))
    code = (
        "import sys; from gibbsdiff.cli import app; "
        "print({'torch', 'numpy', 'matplotlib'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_unknown_commands_and_options_are_one_clear_line(command):
    assert "nosuch" in command("nosuch").refusal()
    assert "--nosuch" in command("--nosuch").refusal()
    assert "'--seed'" in command("demo", "--seed", "one").refusal()


def test_demo_finds_noise_and_picture_and_draws_them(command, tmp_path):
    """Without the chains: the marginal method alone finds σ and φ, and PSNR rises."""
    options = ("--size", 48, "--sigma", 0.2, "--phi", -0.5, "--chains", 0, "-o", tmp_path / "d")
    result = command("demo", *options)
    assert result.code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].startswith("true noise: σ = 0.2, φ = -0.5")
    for name, truth in (("sigma", 0.2), ("phi", -0.5)):
        row = next(line.split() for line in lines if line.split()[:1] == [name])
        assert abs(float(row[1]) - truth) < 4 * float(row[2]) + 0.02
    before, after = (float(line.split()[-2]) for line in lines if line.startswith("PSNR"))
    assert after > before + 5
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["report.png"]
    assert str(tmp_path / "d" / "report.png") in result.stdout
    assert pyplot.imread(tmp_path / "d" / "report.png").std() > 0.05


@pytest.mark.slow
def test_demo_with_chains(command, tmp_path):
    result = command("demo", "--size", 48, "--chains", 2, "-o", tmp_path)
    assert result.code == 0, result.stderr
    assert "gibbs, 2 chains × 10 draws" in result.stdout
    assert {p.name for p in tmp_path.iterdir()} == {"report.png", "gibbs.png"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--sigma", 3], "sigma = 3 is outside its prior range"),
        (["--phi", -1.5], "phi = -1.5 is outside its prior range"),
        (["--size", 4], "size: 4 pixels; astronaut has crops of 32 to 256"),
        (["--size", 9999], "size: 9999 pixels"),
        (["--picture", "mona-lisa"], "there are astronaut, coffee"),
        (["--chains", -1], "'--chains'"),
        (["-o", "taken"], "taken: File exists"),
    ],
    ids=str,
)
def test_bad_options_are_one_clear_line(command, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    assert words in command("demo", *arguments).refusal()
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]
