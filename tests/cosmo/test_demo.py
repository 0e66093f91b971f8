"""The dust that comes with the package, and the demonstration made of it."""

import sys

import pytest
import torch

from gibbsdiff import cli
from gibbsdiff.cosmo.bands import bands
from gibbsdiff.cosmo.mock import LOGNORMAL, SHIPPED, SHIPPED_SIDE, SIMULATED, dust_like, held_out
from gibbsdiff.data.maps import read_snapshots
from gibbsdiff.fourier import power
from gibbsdiff.posterior import Posterior
from gibbsdiff.pretrained import load_model, read_card

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
    x, told = dust_like(signal, SHIPPED_SIDE, card, seed=1)
    assert told.startswith(SIMULATED)
    maps, names = held_out(SHIPPED, SHIPPED_SIDE, card)
    assert torch.equal(x, maps[names.index(told)])
    assert dust_like(signal, 64, card, seed=1)[1] == LOGNORMAL


@pytest.mark.slow
def test_the_demonstration_finds_what_was_hidden(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gibbsdiff", "cmb", "demo", "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code in (0, None)
    told = capsys.readouterr().out
    assert "report.png" in told
    assert (tmp_path / "out" / "report.png").read_bytes().startswith(b"\x89PNG")
    found = Posterior.load(tmp_path / "out" / "posterior.nc")
    for row, truth in zip(found.rows, found.truth, strict=True):
        assert abs(row.mean - truth) < 4 * row.sd
