"""`--weights` and `--weighted-chains` in every command."""

import numpy as np
import pytest
import torch
from PIL import Image
from skimage import data

from gibbsdiff import denoise
from gibbsdiff.inference.posterior import Posterior

FIRST = ("--quick", "--samples", 0, "--no-figure")
FEW = ("--chains", 2, "--draws", 4, "--calls", 1, "--no-figure")


@pytest.fixture
def picture(tmp_path):
    noise = 25.5 * np.random.default_rng(0).normal(size=(48, 48, 3))
    clean = data.astronaut()[:48, 150:198]
    Image.fromarray(np.clip(clean + noise, 0, 255).astype(np.uint8)).save(tmp_path / "a.png")
    return tmp_path / "a.png"


@pytest.fixture
def denoised(command, picture):
    """The posterior, and the line of the summary that says how it was found."""

    def run(*options):
        result = command("denoise", picture, *options)
        assert result.code == 0, result.stderr
        return Posterior.load(picture.with_name("a.posterior.nc")), result.stdout.splitlines()[1]

    return run


def test_weights_are_those_of_python_and_move_phi(denoised, picture):
    found = {name: denoised(*FIRST, "--weights", name)[0] for name in ("sure", "none")}
    usual, line = denoised(*FIRST)
    assert "where the network is sure" in line
    assert torch.equal(usual.phi, found["sure"].phi)
    plain = denoise(picture, method="marginal", second_stage=False, samples=0, weights=None)
    assert torch.equal(plain.phi, found["none"].phi)
    assert "where the network is sure" not in plain.how
    for sure, none in zip(found["sure"].rows, found["none"].rows, strict=True):
        assert sure.mean != none.mean
        assert sure.sd > none.sd  # the rest is not listened to


def test_a_map_of_ones_is_no_weights_and_any_array_will_do(picture):
    first = {"method": "marginal", "second_stage": False, "samples": 0}
    plain = denoise(picture, weights=None, **first)
    ones = denoise(picture, weights=np.ones((48, 48), dtype=np.float32), **first)
    assert torch.allclose(plain.phi, ones.phi, rtol=1e-6)
    half = torch.ones(48, 48)
    half[:, :24] = 0
    rows = denoise(picture, weights=half, **first).rows
    # Half the pixels: √2 times the error.
    for own, all_of_it in zip(rows, plain.rows, strict=True):
        assert own.sd / all_of_it.sd == pytest.approx(2**0.5, rel=0.25)


def test_chains_are_weighted_if_asked_to(denoised):
    plain, line = denoised(*FEW, "--method", "gibbs")
    assert "weighted" not in line
    weighted, line = denoised(*FEW, "--weighted-chains")
    assert "gibbs (weighted likelihood), 2 chains × 4 draws" in line
    assert weighted.phi.shape == plain.phi.shape
    assert not torch.equal(weighted.phi, plain.phi)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--weights", "loud"), "'sure', 'none'"),
        (("--quick", "--weighted-chains"), "--weighted-chains is for Gibbs chains"),
        (("--method", "marginal", "--weighted-chains"), "--weighted-chains is for Gibbs chains"),
        (("--weights", "none", "--weighted-chains"), "with --weights none there are no weights"),
        (("--sigma", 0.1, "--phi", 0, "--weights", "none"), "--weights: the noise is given"),
        (("--sigma", 0.1, "--phi", 0, "--weighted-chains"), "--weighted-chains: the noise is"),
        (("--preset", "paper", "--weights", "sure"), "--weights: the preset paper has no search"),
        (("--preset", "paper", "--weighted-chains"), "--weighted-chains: the preset paper has no"),
    ],
    ids=str,
)
def test_weights_that_cannot_be_heeded_are_refused(command, picture, options, words):
    assert words in command("denoise", picture, *options).refusal()
    assert [p.name for p in picture.parent.iterdir()] == ["a.png"]


OTHERS = {
    "sbc images": ("sbc", "images", "--data", "."),
    "sbc cosmo": ("sbc", "cosmo", "--dust", "maps.npz"),
    "cmb infer": ("cmb", "infer", "--mock", 70, 0.032, 0.5),
    "cmb check": ("cmb", "check", "--mocks", 1),
    "benchmark": ("benchmark", "images", "--data", "."),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_other_commands_have_them_too(command, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert "'sure', 'none'" in command(*OTHERS[name], "--weights", "loud").refusal()
    marginal = ("--methods", "marginal") if name == "benchmark" else ("--method", "marginal")
    line = command(*OTHERS[name], *marginal, "--weighted-chains").refusal()
    assert "gibbsdiff: --weighted-chains" in line
    assert not list(tmp_path.iterdir())


def test_gaussian_dust_has_no_place_to_be_unsure_of(command, tmp_path):
    for options in (("--weights", "none"), ("--weighted-chains",)):
        line = command("sbc", "cosmo", *options, "--out", tmp_path).refusal()
        assert f"{options[0]}: of a network" in line
