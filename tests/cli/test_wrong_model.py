"""Models that do not fit, in every command that takes one: one line, exit 2, nothing written."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from skimage import data

from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving
from gibbsdiff.networks import OriginalUNet
from gibbsdiff.pretrained.epsilon import save_epsilon

COLOUR = data.astronaut()[:48, 150:198]


class Payload:
    """Unpickling this makes a file."""

    def __reduce__(self):
        return open, ("it ran", "w")


def epsilon(path):
    """The paper's network at an eighth of the width, on a chain whose highest level is 1.48."""
    torch.manual_seed(0)
    chain = DiscreteVariancePreserving(40, 0.1, 2.2)
    save_epsilon(EpsilonDenoiser(OriginalUNet(width=8), chain, names=("phi",)), path)


FILES = {
    "text.safetensors": (lambda f: f.write_text("words"), "not a safetensors file"),
    "text.ckpt": (lambda f: f.write_text("words"), "not a PyTorch checkpoint"),
    "other.ckpt": (lambda f: torch.save({"a": torch.ones(2)}, f), "not a checkpoint of the paper"),
    "objects.ckpt": (lambda f: torch.save({"a": Payload()}, f), "asks to run"),
    "pickle.pt": (lambda f: f.write_bytes(pickle.dumps(Payload(), 2)), "asks to run"),
    "foreign.safetensors": (
        lambda f: save_file({"weight": torch.ones(3)}, f),
        "not a model of this package",
    ),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a picture in colour, a grey one and a map; where commands run."""
    monkeypatch.chdir(tmp_path)
    Image.fromarray(COLOUR).save("a.png")
    Image.fromarray(COLOUR[..., 1]).save("grey.png")
    np.save("map.npy", np.random.default_rng(0).normal(size=(128, 128)).astype(np.float32))
    return tmp_path


COMMANDS = {
    "denoise": ("denoise", "a.png", "-o", "out.png"),
    "cmb infer": ("cmb", "infer", "map.npy", "-o", "out"),
    "cmb check": ("cmb", "check", "--out", "out"),
    "sbc images": ("sbc", "images", "--data", ".", "--size", 32, "--out", "out"),
    "sbc cosmo": ("sbc", "cosmo", "--dust", "maps.npz", "--size", 32, "--out", "out"),
    "benchmark": ("benchmark", "images", "--data", ".", "--methods", "gibbs", "--out", "out"),
}


def refused(command, here, *arguments):
    before = {p.name for p in here.iterdir()}
    line = command(*arguments).refusal()
    assert {p.name for p in here.iterdir()} == before
    return line


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("file", FILES)
def test_what_is_no_model_is_named_and_never_run(command, here, name, file):
    make, words = FILES[file]
    make(here / file)
    np.savez("maps.npz", maps=np.ones((3, 2, 32, 32), dtype=np.float32))
    line = refused(command, here, *COMMANDS[name], "--model", file)
    assert f"{file}: " in line
    # Where dust is wanted, a checkpoint is refused as it is: none of them is of dust.
    dust = name in ("cmb infer", "cmb check", "sbc cosmo") and file.endswith((".ckpt", ".pt"))
    assert ("not a model of dust maps" if dust else words) in line


@pytest.mark.parametrize("model", ["dust128", "paper-cosmo-small"])
def test_a_model_of_dust_is_not_for_pictures(command, here, model):
    for name in ("denoise", "sbc images", "benchmark"):
        line = refused(command, here, *COMMANDS[name], "--model", model)
        assert f"{model}: a model of dust maps, not of pictures" in line
    line = refused(command, here, "denoise", "grey.png", "--model", model)
    assert "not of pictures" in line


@pytest.mark.parametrize("model", ["natural", "paper-natural-small"])
def test_a_model_of_pictures_is_not_for_dust(command, here, model):
    for name in ("cmb infer", "cmb check"):
        line = refused(command, here, *COMMANDS[name], "--model", model)
        assert f"{model}: not a model of dust maps" in line


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("denoise", ("--method", "marginal"), "needs a denoiser that models its own error"),
        ("denoise", ("--quick",), "needs a denoiser that models its own error"),
        ("denoise", ("--starts", "marginal"), "needs a denoiser with an error model"),
        ("sbc images", ("--method", "marginal"), "needs a denoiser that models its own error"),
        ("sbc images", ("--starts", "marginal"), "needs a denoiser with an error model"),
        ("benchmark", ("--methods", "marginal"), "has no model of its error"),
        ("benchmark", ("--starts", "marginal"), "needs a denoiser with an error model"),
    ],
)
def test_the_papers_networks_have_no_error_model(command, here, name, options, words):
    epsilon(here / "e.safetensors")
    assert words in refused(command, here, *COMMANDS[name], "--model", "e.safetensors", *options)


@pytest.mark.parametrize("options", [(), ("--starts", "marginal")], ids=["method", "starts"])
def test_nor_has_that_of_dust(command, here, options):
    method = () if options else ("--method", "marginal")
    line = refused(
        command, here, *COMMANDS["cmb infer"], "--model", "paper-cosmo-small", *options, *method
    )
    assert "needs a denoiser" in line


def test_a_level_beyond_the_end_of_the_process(command, here):
    epsilon(here / "e.safetensors")  # b(1)/a(1) = 1.48; in colours a grey picture has √3 σ
    line = refused(command, here, "denoise", "grey.png", "--model", "e.safetensors")
    assert "may be by its prior 1.732, above b(1)/a(1) = 1.4" in line
    loud = ("--sigma-range", 0.1, 2.0, "--model", "e.safetensors")
    line = refused(command, here, *COMMANDS["sbc images"], *loud, "--preset", "paper")
    assert "may be by its prior 2, above b(1)/a(1) = 1.4" in line
    far = ("sbc", "gaussian", "--preset", "paper", "--sigma-range", 0.1, 200.0, "--out", "out")
    assert "may be by its prior 200, above" in refused(command, here, *far)


def test_a_map_with_holes(command, here):
    hole = np.load("map.npy")
    hole[3, 4] = np.nan
    np.save("hole.npy", hole)
    line = refused(command, here, "cmb", "infer", "hole.npy", "--preset", "paper", "-o", "out")
    assert "hole.npy: 1 of 16384 pixels are NaN or infinite" in line
