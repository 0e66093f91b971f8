"""Guided draws of dust: scores against what is known, and the command."""

import json
import math
from dataclasses import asdict
from functools import partial

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.calibration import DUST
from gibbsdiff.cosmo.eigenvalues import eigenvalue_rows, eigenvalues
from gibbsdiff.cosmo.guidance import (
    BANDS,
    Score,
    by_band,
    guided_levels,
    measure,
    nearest,
    with_network,
)
from gibbsdiff.cosmo.infer import dust_model
from gibbsdiff.cosmo.mock import mock
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import as_denoiser
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines import pigdm
from gibbsdiff.fourier import filtered, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_spectral, read_card, save_model
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import TrainingConfig
from gibbsdiff.training.noise import NoiseLaw

TRUTH = (0.5, 70.0, 0.032)


@pytest.fixture(scope="module")
def mixture():
    exact = GaussianDenoiser(DUST)
    return mock(TRUTH, exact.prior((64, 64), Streams.batch(5, 1))[0].float(), CMBNoise(), 1)


@pytest.fixture(scope="module")
def white(model, tmp_path_factory):
    """The untrained model of the folder, said to be of white noise."""
    law = NoiseLaw(level=(0.01, 20.0), tail_part=0.0, family="white")
    card = read_card(model)
    card["config"] = card["config"] | {"noise": asdict(TrainingConfig(noise=law))["noise"]}
    path = tmp_path_factory.mktemp("white") / "white.safetensors"
    save_model(load_spectral(model), path, card)
    return path


def test_the_eigenvalues_are_those_of_the_matrix():
    noise, phi = CMBNoise(), torch.tensor([TRUTH], dtype=torch.float64)
    unit = torch.eye(256, dtype=torch.float64).reshape(256, 1, 16, 16)
    rows = filtered(unit, noise.power((16, 16), phi))
    values = torch.linalg.eigvalsh(rows.reshape(256, 256))
    (found,) = eigenvalues(noise, (16, 16), phi)
    assert found.condition == pytest.approx(float(values[-1] / values[0]), rel=1e-6)
    assert found.largest == pytest.approx(float(values[0]) ** -0.5, rel=1e-6)


def test_the_prior_has_eigenvalues_on_both_sides_of_the_mixtures(mixture):
    rows = eigenvalue_rows(mixture, (32,))
    here, least, most = rows.values()
    assert least.condition < here.condition < most.condition
    assert least.largest < here.largest < most.largest
    # Σ^(-½) goes with 1/σ: the prior's ends of σ are 0.05 and 1.2.
    assert least.largest < here.largest * 0.5 / 1.2 * 1.5


def test_bands_hold_their_own_modes_alone():
    k = half_plane((64, 64)).k.reshape(1, 1, 64, -1)
    expected = torch.ones_like(k)
    assert by_band(3 * expected, expected) == pytest.approx((3,) * len(BANDS))
    assert by_band((k > 1 / 4).double(), expected) == pytest.approx((0, 0, 0, 1))
    assert by_band((k <= 1 / 31.9).double(), expected) == pytest.approx((1, 0, 0, 0))


def test_exact_draws_leave_the_cmbs_power_and_have_the_dusts(mixture):
    """Within the scatter of one mixture's modes: 64² has 32 in the first band."""
    exact, draws = GaussianDenoiser(DUST), 8
    found = measure("ours", partial(few_step, calls=1), exact, mixture, draws)
    assert (found.score.calls, found.score.overflow) == (1, 0)
    for value, modes in zip(found.score.residual, (12, 240, 600, 3200), strict=True):
        assert abs(value - 1) < 4 * math.sqrt(2 / modes)
    assert found.score.dust == pytest.approx((1,) * 4, abs=0.6)
    # The mean of n draws is nearer to the truth: error² = sd² (1 + 1/n) against 2 sd².
    assert found.score.mean_error < found.score.error
    off = found.draws.double() - mixture.dust.double()
    assert found.score.error == pytest.approx(float(off.square().mean().sqrt()))
    assert abs(found.score.skewness) < 0.5


def test_a_call_with_an_overflow_is_named(mixture):
    """A denoiser that grows what it is given by 1e20: single precision holds one such call."""
    wild = as_denoiser(lambda z, noise: z * 1e20)
    sampler = partial(pigdm, steps=10, highest=5.0, signal=DUST)
    found = measure("wild", sampler, wild, mixture, 2)
    assert 2 <= found.score.overflow <= 4
    assert found.score.overflow == found.score.calls
    assert found.draws is None
    assert math.isnan(found.score.error)


def test_the_nearest_to_the_truth_is_the_best_and_an_overflow_never():
    scores = [Score("a", 9, 9), Score("b", 9, 0, 0.7), Score("c", 9, 0, 0.4), Score("d", 9, 0, 0.5)]
    assert nearest(scores) == 2


def test_guidance_asks_for_a_network_of_white_noise(model, white):
    assert guided_levels(dust_model(32, white)) == (0.01, 20.0)
    with pytest.raises(InputError, match="trained under white noise"):
        guided_levels(dust_model(32, model))


def test_a_guided_sampler_asks_its_own_network(mixture, white):
    """Whatever denoiser the pipeline has."""
    found = dust_model(32, white)
    noise = CMBNoise().covariance((32, 32), torch.tensor([TRUTH], dtype=torch.float64))
    y = mixture.y[None, :, :32, :32]
    sampler = partial(pigdm, steps=3, highest=5.0, signal=found.signal)
    none = as_denoiser(lambda z, noise: pytest.fail("the pipeline's denoiser was asked"))
    drawn = with_network(sampler, found)(none, y, noise, Streams.batch(0, 1))
    assert torch.equal(drawn.x, sampler(found.denoiser, y, noise, Streams.batch(0, 1)).x)


def test_the_command(model, white, tmp_path, command):
    out = tmp_path / "out"
    options = ("--size", 32, "--steps", 3, "--draws", 2, "--chains", 0)
    files = ("--white", white, "--model", model, "--out", out)
    text = command("cmb", "guidance", *files, *options).stdout
    results = json.loads((out / "guidance.json").read_text())
    assert (out / "guidance.md").read_text().strip() in text
    assert (out / "guidance.png").stat().st_size > 10_000
    names = [row["name"] for row in results["samplers"]]
    assert "DPS as published, ζ = 1" in names
    assert sum(row["best"] for row in results["samplers"]) == 2
    refused = command("cmb", "guidance", "--white", model, "--model", model, *options[:2])
    assert "trained under white noise" in refused.refusal()


def test_a_network_of_white_noise_does_not_infer_the_cmb(white, tmp_path, command):
    mock = ("--mock", 70, 0.032, 0.5, "--size", 32, "--model", white, "-o", tmp_path / "out")
    assert "does not know the CMB" in command("cmb", "infer", *mock).refusal()
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_chains_with_guidance_inside(model, white, tmp_path, command):
    files = ("--white", white, "--model", model, "--out", tmp_path)
    options = ("--size", 32, "--steps", 3, "--draws", 2, "--chains", 2, "--iterations", 6)
    command("cmb", "guidance", *files, *options)
    chains = json.loads((tmp_path / "guidance.json").read_text())["chains"]
    assert len(chains) == 2
    assert all(np.isfinite(r["rhat"]) for rows in chains.values() for r in rows)
