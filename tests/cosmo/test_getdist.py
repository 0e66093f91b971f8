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


def made(draws, **fields):
    """Independent draws of a Gaussian."""
    rng = torch.Generator().manual_seed(0)
    phi = CENTRE + WIDTH * torch.randn(4, draws, 3, dtype=torch.float64, generator=rng)
    noise, empty = CMBNoise(), torch.zeros(1, 8, 8)
    box = torch.stack([noise.low, noise.high])
    return Posterior(noise.names, phi, empty, empty, empty, box=box, method="marginal", **fields)


def load(path):
    return getdist.loadMCSamples(str(path), settings={"ignore_rows": 0}, no_cache=True)


def test_getdist_reads_chains_names_and_prior(tmp_path):
    posterior, noise = made(300), CMBNoise()
    phi = posterior.phi
    write_getdist(tmp_path / "chains", posterior, noise)
    read = load(tmp_path / "chains")
    assert read.getParamNames().list() == ["sigma", "H0", "omega_b"]
    assert read.getParamNames().labels() == [p.latex for p in noise.parameters]
    assert (read.ranges.getLower("H0"), read.ranges.getUpper("H0")) == (50, 90)
    rows = phi.flatten(0, 1).numpy()
    assert np.allclose(read.getMeans()[:3], rows.mean(0), rtol=1e-8)
    assert np.allclose(read.getCov(3), np.cov(rows.T, bias=True), rtol=1e-6)
    # Independent draws: the variance between chains over that within is 1/300.
    assert read.getGelmanRubin() < 0.02


def test_chains_have_the_networks_error_in_them_and_say_so(tmp_path):
    root = torch.tensor([[1.5, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 0.8]]).double()
    error = WIDTH[:, None] * (root @ root.T) * WIDTH
    posterior, noise = made(1000, model_error=error), CMBNoise()
    files = write_getdist(tmp_path / "chains", posterior, noise, seed=3)
    read = load(tmp_path / "chains")
    total = torch.cov(posterior.phi.flatten(0, 1).T) + error
    sd = total.diagonal().sqrt()
    found = torch.from_numpy(read.getCov(3)) / sd[:, None] / sd
    # The sd of an element of a covariance from n draws is √(1 + ρ²)/√n, in units of the sds.
    rho = total / sd[:, None] / sd
    assert ((found - rho).abs() / ((1 + rho**2) / 4000).sqrt()).max() < 4
    off = torch.from_numpy(read.getMeans()[:3]) - posterior.phi.mean((0, 1))
    assert (off.abs() / (error.diagonal() / 4000).sqrt()).max() < 4
    # What was written is what `widened` gives, and both kinds of files say so.
    rows = np.loadtxt(files[0])
    assert np.allclose(rows[:, 2:], posterior.widened(3).phi[0].numpy(), rtol=1e-9)
    assert files[0].read_text().startswith("# weight -log(p) sigma H0 omega_b: the network's own")
    assert "the network's own error is in the draws" in files[-2].read_text()
    assert read.getParamNames().labels() == [p.latex for p in noise.parameters]
    # Without such an error they are the draws as they are.
    raw = write_getdist(tmp_path / "raw", made(20), noise)
    assert "its own error is not known" in raw[0].read_text()
