"""What `make paper` does with dust, on fewer steps of the reverse SDE; and all of it."""

import sys
from functools import partial

import pytest

from gibbsdiff import cli
from gibbsdiff.cosmo.paper import TRUTH, mixture_with_model, separated, write_figure
from gibbsdiff.diffusion.process import VariancePreserving
from gibbsdiff.diffusion.solvers import ddpm
from gibbsdiff.evidence.differences import read_differences
from gibbsdiff.evidence.paper import TASKS, Length


def test_the_preset_separates_dust_and_cmb(tmp_path):
    mixture, model = mixture_with_model("dust128", seed=1)
    assert mixture.truth == TRUTH
    assert mixture.shape == (128, 128)
    sampler = partial(ddpm, process=VariancePreserving(0.1, 2.02), steps=30)
    found = separated(mixture, model, length=Length(2, 2), seed=1, sampler=sampler, warm_up=40)
    assert found.how[:2] == ("preset paper", "starts as the paper")
    assert found.phi.shape == (2, 2, 3)
    assert found.rows[0].mean == pytest.approx(TRUTH[0], rel=0.2)
    # Dust beyond what the CMB leaves of it: the mean of a few draws is nearer than the mixture.
    error = (found.mean - mixture.dust).square().mean()
    assert error < 0.85 * (mixture.y - mixture.dust).square().mean()
    assert write_figure(mixture, found, tmp_path).stat().st_size > 50_000


@pytest.mark.slow
def test_the_command_runs_the_preset_end_to_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["gibbsdiff", "paper", "--iterations", "2", "-o", str(tmp_path)]
    )
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert not end.value.code
    out = capsys.readouterr().out
    assert all(f"{name}, 64²: PSNR" in out for name in TASKS)
    assert "dust, 128²:" in out
    assert all(row.what in out for row in read_differences())
    assert sorted(f.name for f in tmp_path.iterdir()) == ["dust.png", "pictures.png"]
