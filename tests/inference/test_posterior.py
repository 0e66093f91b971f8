"""The result as a file and as a table."""

import math

import numpy as np
import pytest
import torch
import xarray

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.summary import converged, summarise
from gibbsdiff.streams import Streams


def make(draws=400, drift=0.0):
    rng = Streams.batch(0, 4)
    phi = torch.stack([0.1 + 0.01 * rng.normal(draws), rng.uniform(draws)], -1)
    phi[:, :, 0] += drift * torch.arange(4)[:, None]
    image = Streams.batch(1, 1).normal(3, 9, 11)[0]
    return Posterior(
        ("sigma", "phi"),
        phi,
        observed=image,
        mean=image / 2,
        sd=image.abs(),
        average=image / 3,
        samples=image[None].repeat(2, 1, 1, 1),
        calls=77,
        seconds=1.5,
        divergences=3,
        truth=(0.1, 0.5),
    )


def test_round_trip(tmp_path):
    posterior = make()
    posterior.save(tmp_path / "p.nc")
    again = Posterior.load(tmp_path / "p.nc")
    for name in ("phi", "observed", "mean", "sd", "average", "samples"):
        assert torch.equal(getattr(again, name), getattr(posterior, name))
    for name in ("names", "method", "calls", "seconds", "divergences", "truth"):
        assert getattr(again, name) == getattr(posterior, name)
    assert [p.name for p in tmp_path.iterdir()] == ["p.nc"]
    # The draws are where ArviZ looks for them.
    with xarray.open_dataset(tmp_path / "p.nc", engine="h5netcdf", group="posterior") as draws:
        assert dict(draws.sizes) == {"chain": 4, "draw": 400}
        assert np.array_equal(draws["sigma"].values, posterior.phi[..., 0].numpy())
    bare = Posterior(("sigma",), posterior.phi[..., :1], *(posterior.mean,) * 3)
    bare.save(tmp_path / "bare.nc")
    assert Posterior.load(tmp_path / "bare.nc").samples is None


def test_summary_is_that_of_the_law():
    """Normal and uniform draws: moments, quantiles and ESS are known."""
    sigma, phi = make(4000).rows
    assert sigma.mean == pytest.approx(0.1, abs=4 * 0.01 / math.sqrt(16000))
    assert sigma.sd == pytest.approx(0.01, rel=0.03)
    assert (phi.low, phi.high) == pytest.approx((0.05, 0.95), abs=0.01)
    assert phi.ess_bulk == pytest.approx(16000, rel=0.15)
    assert make().summary().splitlines()[0].startswith("converged: gibbs, 4 chains × 400 draws, 77")
    data = make().inference_data()
    assert dict(data.posterior.sizes) == {"chain": 4, "draw": 400}


def test_chains_that_disagree_or_stand_still_have_not_converged():
    assert make().converged
    assert not make(drift=0.1).converged
    assert make(drift=0.1).summary().startswith("NOT CONVERGED")
    assert not make(draws=20).converged
    assert not converged(torch.ones(4, 400, 1).double())
    (short,) = summarise(torch.ones(4, 2, 1), ("sigma",))
    assert math.isnan(short.rhat)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda f: f.write_bytes(b"not a file"),
        lambda f: f.write_bytes(b""),
        lambda f: f.write_bytes(f.read_bytes()[:3000]),
        lambda f: xarray.Dataset({"a": 1}).to_netcdf(f, engine="h5netcdf"),
        lambda f: f.unlink(),
    ],
    ids=["text", "empty", "truncated", "foreign", "missing"],
)
def test_a_spoilt_file_is_one_clear_line(tmp_path, spoil):
    path = tmp_path / "p.nc"
    make().save(path)
    spoil(path)
    with pytest.raises(InputError, match=r"p\.nc: ") as trouble:
        Posterior.load(path)
    assert "\n" not in str(trouble.value)
