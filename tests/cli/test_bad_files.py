"""`gibbsdiff denoise` on bad input: one clear line, exit code 2, nothing half done."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from bad_input import BAD, Payload, cut, save_png
from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.pretrained import find

FAST = ("--sigma", 0.1, "--phi", 0, "--samples", 0, "--no-figure")


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_clear_line(command, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    make, words = BAD[name]
    make(tmp_path / name)
    line = command("denoise", name, *FAST).refusal()
    assert line.startswith(f"gibbsdiff: {name}: ")
    assert words in line
    assert [p.name for p in tmp_path.iterdir()] == [name]  # no output, and no pickle was run


def test_other_files_of_the_folder_are_still_done(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, (make, _) in BAD.items():
        make(tmp_path / name)
    save_png(tmp_path / "m.png")
    save_png(tmp_path / "z.png")
    result = command("denoise", tmp_path, tmp_path / "missing", "-o", "out", *FAST)
    assert result.code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == len(BAD) + 2
    for name, (_, words) in BAD.items():
        assert sum(f"{tmp_path / name}: " in line and words in line for line in lines) == 1
    assert lines[0] == f"gibbsdiff: {tmp_path / 'missing'}: no such file or folder"
    assert lines[-1] == f"gibbsdiff: {len(BAD) + 1} of {len(BAD) + 3} failed"
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        f"{stem}.{what}"
        for stem in "mz"
        for what in ("denoised.png", "uncertainty.tiff", "posterior.nc")
    }
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--chains", -1], "'--chains'"),
        (["--draws", 0], "'--draws'"),
        (["--tile", 8], "'--tile'"),
        (["--noise", "brown"], "'power-law', 'white', 'banded'"),
        (["--method", "magic"], "'auto', 'marginal', 'gibbs'"),
        (["--sigma", 7], "sigma = 7 is outside its prior range [0.001, 1]"),
        (["--sigma", "nan"], "sigma = nan is outside"),
        (["--phi", 3], "phi = 3 is outside its prior range [-1, 1]"),
        (["--phi", 0, "--sigma", 0.1, "--noise", "white"], "has no parameter 'phi'"),
        (["--quick", "--method", "gibbs"], "--quick"),
        (["--model", "nosuch"], "neither a file nor a model of this package"),
        (["-o", "out.jpg"], "the input is PNG, so the output must end in .png"),
        (["-o", "none/out.png"], "no such folder as none"),
        (["-o", "a.png/out"], "a.png"),
        (["--bogus"], "--bogus"),
    ],
    ids=str,
)
def test_bad_options_are_one_clear_line(command, tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    save_png(tmp_path / "a.png")
    assert words in command("denoise", "a.png", *options).refusal()
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_missing_folders_and_folders_without_pictures(command, tmp_path):
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("none", "no such file or folder"),
        ("empty", "no picture there"),
        ("*.png", "no picture there"),
    ):
        line = command("denoise", tmp_path / name, *FAST).refusal()
        assert f"{tmp_path / name}: " in line
        assert words in line
    assert "'pictures'" in command("denoise").refusal().lower()


def test_several_pictures_do_not_fit_into_one_file(command, tmp_path):
    for name in ("a.png", "b.png", "taken.png"):
        save_png(tmp_path / name)
    pair = (tmp_path / "a.png", tmp_path / "b.png")
    for out in ("taken.png", "new.png"):
        line = command("denoise", *pair, "-o", tmp_path / out, *FAST).refusal()
        assert f"{out}: several pictures need a folder" in line
    (tmp_path / "a.denoised.png").mkdir()
    assert "is a folder" in command("denoise", pair[0], *FAST).refusal()
    assert len(list(tmp_path.iterdir())) == 4


def foreign(path):
    save_file({"weight": torch.ones(3)}, path)


def shortened(path):
    path.write_bytes(find("natural").read_bytes())
    cut(path, 0.4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: f.write_text("words"), "not a safetensors file"),
        (lambda f: f.write_bytes(b""), "not a safetensors file"),
        (lambda f: torch.save({"a": torch.ones(2)}, f), "not a checkpoint of the paper's U-Net"),
        (lambda f: torch.save({"a": Payload()}, f), "asks to run"),
        (foreign, "not a model of this package"),
        (shortened, "not a safetensors file"),
    ],
    ids=["text", "empty", "checkpoint", "pickle", "foreign", "truncated"],
)
def test_a_wrong_model_is_one_clear_line(command, tmp_path, make, words):
    save_png(tmp_path / "a.png")
    make(tmp_path / "model.safetensors")
    options = ("--model", tmp_path / "model.safetensors", "-o", tmp_path / "out")
    line = command("denoise", tmp_path / "a.png", *options, *FAST).refusal()
    assert "model.safetensors: " in line
    assert words in line
    assert {p.name for p in tmp_path.iterdir()} == {"a.png", "model.safetensors"}


@pytest.mark.parametrize("size", [2000, 30_000, 60_000])  # the picture, its map, the posterior
def test_a_full_disk_leaves_nothing_behind(no_room, command, tmp_path, size):
    save_png(tmp_path / "a.png")
    (tmp_path / "a.posterior.nc").write_bytes(b"of an earlier run")
    with no_room(size):
        line = command("denoise", tmp_path / "a.png", *FAST).refusal()
    assert f"gibbsdiff: {tmp_path}/a." in line
    assert "cannot be written" in line
    assert ".gibbsdiff-" not in line
    assert {p.name for p in tmp_path.iterdir()} == {"a.png", "a.posterior.nc"}
    assert (tmp_path / "a.posterior.nc").read_bytes() == b"of an earlier run"


def test_a_folder_that_cannot_be_written(unprivileged, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_png(tmp_path / "a.png")
    tmp_path.chmod(0o555)
    with unprivileged():
        assert "cannot be written" in command("denoise", "a.png", *FAST).refusal()
        assert "out: Permission denied" in command("denoise", "a.png", "-o", "out", *FAST).refusal()
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_every_cut_of_a_posterior_file_is_one_clear_line(tmp_path):
    """Cut or overwritten anywhere: refused, or (in the pixels) read; never another error."""
    image = torch.rand(1, 16, 16)
    path = tmp_path / "p.nc"
    Posterior(("sigma",), torch.rand(2, 8, 1).double(), image, image, image).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refusals = []
    for _ in range(40):
        at = int(rng.integers(len(content) - 64))
        noise = rng.bytes(64)
        for bad in (content[:at], content[:at] + noise + content[at + 64 :]):
            path.write_bytes(bad)
            try:
                Posterior.load(path)
            except InputError as trouble:
                refusals.append(str(trouble))
    assert len(refusals) >= 40
    assert all(line.startswith(f"{path}: ") and "\n" not in line for line in refusals)
