"""The dust that comes with the package, and the demonstration made of it."""

import sys

import pytest
import torch

from gibbsdiff import cli
from gibbsdiff.cosmo.bands import bands
from gibbsdiff.cosmo.mock import LOGNORMAL, SHIPPED, SHIPPED_SIDE, SIMULATED, dust_like, held_out
from gibbsdiff.data.maps import read_snapshots
from gibbsdiff.fourier import between_references, half_plane, power
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.pretrained import load_model, read_card
from gibbsdiff.streams import Streams

SHAPE = (SHIPPED_SIDE, SHIPPED_SIDE)


def test_the_shipped_maps_are_column_densities():
    maps = read_snapshots(SHIPPED)
    assert maps.shape == (1, 6, *SHAPE)
    assert float(maps.min()) > 0
    # Two halves along each axis hold the same gas, whose mean density is 1.
    pairs = maps[0].mean((1, 2)).reshape(3, 2).mean(1)
    assert pairs.tolist() == pytest.approx([1, 1, 1], abs=1e-3)
    assert SHIPPED.stat().st_size < 400_000


def test_the_shipped_maps_are_like_those_that_the_model_knows():
    signal, card = load_model("dust128").signal, read_card("dust128")
    x, _ = held_out(SHIPPED, SHIPPED_SIDE, card)
    bins = bands(SHAPE)
    P = bins.sum(power(x[:, 0].double()).mean(0)[None])[0] / bins.k.weight
    S = bins.sum(signal.power(SHAPE)[:, 0])[0] / bins.k.weight
    # One snapshot: its large scales are few, and its small ones follow them.
    assert (P / S)[1:].log().abs().max() < 0.8


def test_a_mock_without_maps_takes_the_packages_own_where_they_fit():
    signal, card = load_model("dust128").signal, read_card("dust128")
    x, source = dust_like(signal, SHIPPED_SIDE, card, seed=1)
    assert source.startswith(SIMULATED)
    maps, names = held_out(SHIPPED, SHIPPED_SIDE, card)
    assert torch.equal(x, maps[names.index(source)])
    assert dust_like(signal, 64, card, seed=1)[1] == LOGNORMAL


def test_the_shipped_denoiser_leaves_the_cmb_by_its_derivative():
    """N̂ = |y-D|² + Ê against |y-x|² in bands of |k|: within 4 %, rms, of maps never trained on."""
    denoiser, card = load_model("dust128"), read_card("dust128")
    x, _ = held_out(SHIPPED, SHIPPED_SIDE, card)
    hats = (between_references(SHAPE) * half_plane(SHAPE).weight)[4:]
    for sigma in (0.2, 0.5, 1.0):
        phi = torch.tensor([[sigma, 67.4, 0.0224]], dtype=torch.float64).expand(len(x), -1)
        noise = CMBNoise().covariance(SHAPE, phi, torch.float32)
        y = x + noise.draw(Streams.batch(3, len(x)), 1)
        with torch.no_grad():
            mean, error = denoiser.with_derivative_error()(y, noise)
        left = (power(y - mean) + error.spectrum()) / noise.power
        ratio = (left.flatten(1).double() @ hats.T) / (
            (power(y - x) / noise.power).flatten(1).double() @ hats.T
        )
        assert float((ratio - 1).square().mean().sqrt()) < 0.04


@pytest.mark.slow
def test_the_demonstration_finds_what_was_hidden(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gibbsdiff", "cmb", "demo", "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (0, None)
    printed = capsys.readouterr().out
    assert "report.png" in printed
    assert (tmp_path / "out" / "report.png").read_bytes().startswith(b"\x89PNG")
    found = Posterior.load(tmp_path / "out" / "posterior.nc")
    for row, truth in zip(found.rows, found.truth, strict=True):
        assert abs(row.mean - truth) < 4 * row.total_sd
