"""Periodic maps: scale, split by time, shifts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from astropy.io import fits

from gibbsdiff.data.maps import Blocks, ShiftedMaps, halve, read_maps, read_snapshots
from gibbsdiff.errors import InputError

BLOCKS = Blocks((0, 3), (5, 5), (5, 5), (7, 7))


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    maps = 3 + 2 * rng.standard_normal((8, 2, 32, 32)).astype(np.float32)
    maps += np.arange(8, dtype=np.float32)[:, None, None, None]  # a snapshot tells its time
    np.savez(tmp_path / "maps.npz", maps=maps)
    return tmp_path / "maps.npz"


def test_one_scale_from_the_training_maps_and_roles_by_time(file):
    given = torch.from_numpy(np.load(file)["maps"])
    maps = read_maps(file, BLOCKS, halved=1)
    small = halve(given.flatten(0, 1)[:, None]).unflatten(0, (8, 2))
    assert maps.side == 16
    assert maps.mean == pytest.approx(float(small[:4].mean()), rel=1e-6)
    assert maps.sd == pytest.approx(float(small[:4].std()), rel=1e-6)
    for role, which in (("train", [0, 1, 2, 3]), ("selection", [5]), ("test", [7])):
        back = getattr(maps, role) * maps.sd + maps.mean
        assert torch.allclose(back, small[which].flatten(0, 1), atol=1e-5)
    assert torch.allclose(halve(maps.finest), maps.train, atol=1e-6)


def test_shifts_and_symmetries_permute_the_pixels_of_one_map():
    maps = torch.arange(2 * 16**2, dtype=torch.float32).reshape(2, 1, 16, 16)
    source = ShiftedMaps(maps)
    drawn = source.draw(64, torch.Generator().manual_seed(0))
    for row in drawn:
        which = int(row.min() >= 16**2)
        assert torch.equal(row.flatten().sort().values, maps[which].flatten())
        # Neighbours stay neighbours, around the border too.
        across = (row - row.roll(1, -1)).abs() % 240
        along = (row - row.roll(1, -2)).abs() % 240
        steps = {frozenset(across.unique().tolist()), frozenset(along.unique().tolist())}
        assert steps == {frozenset({1.0, 15.0}), frozenset({16.0, 0.0})}
    assert len({tuple(row.flatten().tolist()) for row in drawn}) > 60


def test_rows_of_a_batch_do_not_depend_on_which_are_asked():
    source = ShiftedMaps(torch.rand(3, 1, 32, 32), halved=1)
    whole, part = (torch.Generator().manual_seed(1) for _ in range(2))
    every = source.batch(0, 6, 16, range(6), whole)
    assert torch.equal(source.batch(0, 6, 16, [1, 4], part), every[[1, 4]])
    assert torch.equal(whole.get_state(), part.get_state())
    with pytest.raises(InputError, match="16 are not cropped to 24"):
        source.batch(0, 6, 24, range(6), whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test": (7, 8)}, r"block \[7, 8\] of test"),
        ({"train": (0, 5)}, "train and selection overlap"),
        ({"selection": (5,)}, r"block \[5\] of selection"),
    ],
)
def test_blocks_that_do_not_fit_are_named(file, change, message):
    with pytest.raises(InputError, match=message):
        read_maps(file, replace(BLOCKS, **change))


def test_files_that_hold_no_maps(tmp_path, file):
    with pytest.raises(InputError, match="halved 2"):
        read_maps(file, BLOCKS, halved=2)
    with pytest.raises(InputError, match="No such file"):
        read_maps(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"bad\.npz: no file of maps"):
        read_maps(tmp_path / "bad.npz")
    for name, array in (
        ("flat", np.zeros((8, 32, 32))),
        ("nan", np.full((8, 2, 32, 32), np.nan)),
        ("object", np.array([{}], dtype=object)),
    ):
        np.savez(tmp_path / f"{name}.npz", maps=array)
        with pytest.raises(InputError, match=rf"{name}\.npz"):
            read_maps(tmp_path / f"{name}.npz")


def test_maps_of_ones_own_are_snapshots_of_one_slab(tmp_path, file):
    maps = np.load(file)["maps"]
    flat = maps.reshape(16, 32, 32)
    np.savez(tmp_path / "own.npz", my_maps=flat)
    np.save(tmp_path / "own.npy", flat)
    fits.PrimaryHDU(flat).writeto(tmp_path / "own.fits")
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(maps)]).writeto(tmp_path / "four.FIT")
    for name in ("own.npz", "own.npy", "own.fits"):
        assert np.array_equal(read_snapshots(tmp_path / name).numpy(), flat[:, None])
    assert np.array_equal(read_snapshots(tmp_path / "four.FIT").numpy(), maps)
    known = read_maps(tmp_path / "own.fits", BLOCKS)
    back = known.train * known.sd + known.mean
    assert np.allclose(back.numpy()[:, 0], flat[:4], atol=1e-5)


def test_scaled_integers_of_a_fits_file_are_floats(tmp_path, file):
    maps = np.load(file)["maps"][:, 0].astype(np.float64)
    hdu = fits.PrimaryHDU(maps.copy())  # it is scaled in place
    hdu.scale("int16", bscale=0.001, bzero=4.0)
    hdu.writeto(tmp_path / "scaled.fits")
    found = read_snapshots(tmp_path / "scaled.fits")
    assert np.allclose(found.numpy()[:, 0], maps, atol=0.00051)


def test_holes_are_counted_and_maps_of_one_value_refused(tmp_path, file):
    maps = np.load(file)["maps"]
    maps[3, 1, 4, 5], maps[6, 0, 0, 0] = np.nan, np.inf
    np.save(tmp_path / "holes.npy", maps)
    with pytest.raises(InputError, match=r"holes\.npy: NaN or infinite .* 2 of 8 snapshots"):
        read_snapshots(tmp_path / "holes.npy")
    np.save(tmp_path / "one.npy", np.ones((8, 32, 32)))
    with pytest.raises(InputError, match=r"one\.npy: all pixels of the training maps are equal"):
        read_maps(tmp_path / "one.npy", BLOCKS)
