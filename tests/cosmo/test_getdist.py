"""What GetDist itself makes of our chains."""

import numpy as np
import pytest
import torch

from gibbsdiff.cosmo.getdist import write_getdist
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.noise.cmb import CMBNoise

getdist = pytest.importorskip("getdist")

CENTRE = torch.tensor([0.5, 70.0, 0.032], dtype=torch.float64)
WIDTH = torch.tensor([0.01, 1.7, 0.0014], dtype=torch.float64)


def test_getdist_reads_chains_names_and_prior(tmp_path):
    draws = torch.randn(4, 300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    phi, noise, empty = CENTRE + WIDTH * draws, CMBNoise(), torch.zeros(1, 8, 8)
    posterior = Posterior(tuple(noise.names), phi, empty, empty, empty)
    write_getdist(tmp_path / "chains", posterior, noise)

    settings = {"ignore_rows": 0}
    read = getdist.loadMCSamples(str(tmp_path / "chains"), settings=settings, no_cache=True)
    assert read.getParamNames().list() == ["sigma", "H0", "omega_b"]
    assert read.getParamNames().labels() == [p.latex for p in noise.parameters]
    assert (read.ranges.getLower("H0"), read.ranges.getUpper("H0")) == (50, 90)
    rows = phi.flatten(0, 1).numpy()
    assert np.allclose(read.getMeans()[:3], rows.mean(0), rtol=1e-8)
    assert np.allclose(read.getCov(3), np.cov(rows.T, bias=True), rtol=1e-6)
    # Independent draws: the variance between chains over that within is 1/300.
    assert read.getGelmanRubin() < 0.02
