"""A posterior in a file: every field comes back, in less room, where ArviZ looks for it."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
import xarray

from gibbsdiff.errors import InputError
from gibbsdiff.inference.curves import Curves
from gibbsdiff.inference.encoding import Encoding
from gibbsdiff.inference.line import Line
from gibbsdiff.inference.model_check import Finding, ModelCheck
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.streams import Streams

BAND = Finding("band", "luma", "|k| 0.25-0.38", 0.5, 0.1, -7.5, 0.25, 0.375)

ALPHA = np.arange(19 * 23, dtype=np.uint8).reshape(19, 23)


def make():
    """Every field has a value that is not its default."""
    rng = Streams.batch(0, 1)
    image = rng.normal(3, 19, 23, dtype=torch.float32)[0]
    return Posterior(
        names=("sigma", "phi"),
        phi=Streams.batch(1, 4).normal(40, 2),
        observed=image,
        mean=image / 2,
        sd=image.abs(),
        average=image / 3,
        samples=rng.normal(2, 3, 19, 23, dtype=torch.float32)[0],
        noise_power=image[:, :, :12].square(),
        curves=Curves(*(v.abs().double() for v in (image[0, 0], image[0, :3], image[1, :3]))),
        model_error=torch.tensor([[1e-4, 2e-5], [2e-5, 1e-3]], dtype=torch.float64),
        box=torch.tensor([[0.0, -1.0], [1.0, 1.0]], dtype=torch.float64),
        missing=image[0] > 1,
        method="marginal",
        how=("two stages", "laplace density"),
        calls=77,
        seconds=1.5,
        divergences=3,
        ended=False,
        interrupted=True,
        unit=255.0,
        encoding=Encoding(
            0.5, 255.0, "uint8", np.arange(19 * 23, dtype=np.uint8).reshape(19, 23), True
        ),
        truth=(0.1, 0.5),
        notes=("one sentence", "and another"),
        check=ModelCheck(False, "no", (BAND,), (BAND,)),
        keep=(0.2, 0.5),
        returned=True,
        mode=(0.12, -0.3),
        family="white",
        line=Line(2.0, 0.1, -30.0, 5.0, 3.0),
    )


def equal(one, other):
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, Curves):
        return one.as_dict() == other.as_dict()
    if isinstance(one, Encoding):
        plain = (one.zero, one.unit, one.dtype, one.linear) == (
            other.zero,
            other.unit,
            other.dtype,
            other.linear,
        )
        same_type = one.alpha.dtype == other.alpha.dtype
        return plain and same_type and np.array_equal(one.alpha, other.alpha)
    return one == other


def test_every_field_comes_back(tmp_path):
    posterior = make()
    defaults = {f.name: f.default for f in fields(Posterior)}
    posterior.save(tmp_path / "p.nc")
    again = Posterior.load(tmp_path / "p.nc")
    # A simpler posterior is saved by itself.
    for field in (f for f in fields(Posterior) if f.name != "simpler"):
        value = getattr(posterior, field.name)
        assert not equal(value, defaults[field.name]), field.name
        assert equal(value, getattr(again, field.name)), field.name
    assert np.array_equal(again.image, posterior.image)
    assert again.summary() == posterior.summary()
    assert torch.equal(again.widened(1).phi, posterior.widened(1).phi)
    assert [p.name for p in tmp_path.iterdir()] == ["p.nc"]


def test_what_is_not_there_is_not_there_again(tmp_path):
    image = torch.zeros(1, 9, 9)
    bare = Posterior(("sigma",), torch.ones(1, 1, 1).double(), image, image)
    bare.save(tmp_path / "bare.nc")
    again = Posterior.load(tmp_path / "bare.nc")
    for field in fields(Posterior):
        assert equal(getattr(bare, field.name), getattr(again, field.name)), field.name


def test_the_draws_are_where_arviz_looks_for_them(tmp_path):
    posterior = make()
    posterior.save(tmp_path / "p.nc")
    with xarray.open_dataset(tmp_path / "p.nc", engine="h5netcdf", group="posterior") as draws:
        assert dict(draws.sizes) == {"chain": 4, "draw": 40}
        assert np.array_equal(draws["sigma"].values, posterior.phi[..., 0].numpy())


def test_maps_are_compressed(tmp_path):
    """Smaller than the numbers themselves, smooth maps by much."""
    row = torch.linspace(0, 1, 256)
    smooth = (row[:, None] * row)[None]
    maps = ("observed", "mean", "sd", "average")
    posterior = replace(
        make(),
        **dict.fromkeys(maps, smooth),
        samples=smooth[None],
        noise_power=None,
        missing=None,
        encoding=None,
    )
    posterior.save(tmp_path / "p.nc")
    size = (tmp_path / "p.nc").stat().st_size
    assert size < 0.7 * 5 * smooth.numel() * 4


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
