"""Density cubes in files become column densities: closed forms, formats, refusals."""

import h5py
import numpy as np
import pytest
from astropy.io import fits

from gibbsdiff.data import cubes
from gibbsdiff.data.cubes import columns
from gibbsdiff.data.maps import read_snapshots
from gibbsdiff.errors import InputError

SIDE = 16
A, B, C = (np.random.default_rng(i).uniform(0.5, 2, SIDE) for i in range(3))
CUBE = A[:, None, None] * B[:, None] * C


def closed_form(axis, slabs=1):
    """Σ over a slab of a_i b_j c_k is a product of sums: (slabs, n, n)."""
    factors = [A, B, C]
    deep = factors.pop(axis).reshape(slabs, -1).mean(1)
    return deep[:, None, None] * np.outer(*factors)


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "cube.npy", CUBE)
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(CUBE)]).writeto(tmp_path / "cube.fits")
    fits.PrimaryHDU(CUBE.astype(np.float32)).writeto(tmp_path / "cube.fits.gz")
    with h5py.File(tmp_path / "cube.h5", "w") as file:
        file["gas/Density"] = CUBE.astype(">f4")
        file["gas/velocity_x"] = CUBE - 1
        file["time"] = 0.5
    return tmp_path


@pytest.mark.parametrize("name", ["cube.npy", "cube.fits", "cube.fits.gz", "cube.h5"])
@pytest.mark.parametrize("slabs", [1, 4])
def test_columns_are_means_along_the_line_of_sight(files, name, slabs, monkeypatch):
    monkeypatch.setattr(cubes, "CELLS", 5 * SIDE**2)  # parts end within slabs
    found = columns(files / name, slabs=slabs)
    expected = np.concatenate([closed_form(axis, slabs) for axis in range(3)])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    for axis in range(3):
        np.testing.assert_allclose(
            columns(files / name, [axis], slabs), closed_form(axis, slabs), rtol=1e-6
        )


def test_the_command_writes_what_training_reads(files, command):
    out = files / "maps.npz"
    np.save(files / "other.npy", 2 * CUBE)
    cube, other = files / "cube.h5", files / "other.npy"
    made = command("cmb", "columns", cube, other, "-o", out, "--slabs", 2)
    assert made.code == 0, made.stderr
    assert made.stdout == f"maps: {out} (2×6×16×16)\n"
    maps = read_snapshots(out).numpy()
    np.testing.assert_allclose(maps[1], 2 * maps[0], rtol=1e-6)
    np.testing.assert_allclose(maps[0, 2:4], closed_form(1, 2), rtol=1e-6)
    one = command("cmb", "columns", cube, "-o", out, "--axis", 2, "--dataset", "gas/Density")
    assert one.code == 0, one.stderr
    np.testing.assert_allclose(read_snapshots(out).numpy()[0], closed_form(2), rtol=1e-6)
    old = out.read_bytes()
    line = command("cmb", "columns", cube, other, "-o", out, "--dataset", "gas/rho").refusal()
    assert "cube.h5: has no dataset gas/rho; there are gas/Density, gas/velocity_x" in line
    np.save(files / "small.npy", CUBE[:8, :8, :8])
    line = command("cmb", "columns", cube, files / "small.npy", "-o", out).refusal()
    assert "small.npy: maps of side 8, those of" in line
    assert out.read_bytes() == old
    assert "ends in .npz" in command("cmb", "columns", cube, "-o", files / "maps.npy").refusal()


def changed(value):
    cube = CUBE.copy()
    cube[3, 4, 5] = value
    return cube


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (changed(np.nan), "NaN or infinite"),
        (changed(0.0), "must be positive, there is 0"),
        (changed(-1.5), "must be positive, there is -1.5"),
        (CUBE[0], r"a cube has 3 axes, not 2 \(\(16, 16\)\)"),
        (CUBE[None], "a cube has 3 axes, not 4"),
        (CUBE[:, :8], "16×8×16 cells give no square maps of 1 slabs along axis 0"),
        (CUBE.astype(complex), "real numbers, not complex128"),
    ],
)
def test_what_is_no_density_is_refused(tmp_path, array, message):
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(InputError, match=rf"bad\.npy: .*{message}"):
        columns(tmp_path / "bad.npy")
    if array.dtype.kind == "f":
        fits.PrimaryHDU(array).writeto(tmp_path / "bad.fits")
        with pytest.raises(InputError, match=rf"bad\.fits: .*{message}"):
            columns(tmp_path / "bad.fits")


def test_files_that_hold_no_cube(files):
    with pytest.raises(InputError, match="16×16×16 cells give no square maps of 3 slabs"):
        columns(files / "cube.npy", slabs=3)
    with pytest.raises(InputError, match=r"none\.npy: no such file"):
        columns(files / "none.npy")
    with pytest.raises(InputError, match=r"cube\.txt: a cube is FITS, HDF5 or NPY"):
        columns(files / "cube.txt")
    with pytest.raises(InputError, match="is for HDF5 files"):
        columns(files / "cube.npy", dataset="density")
    for name in ("bad.npy", "bad.fits", "bad.fits.gz", "bad.h5"):
        (files / name).write_bytes(b"nonsense")
        with pytest.raises(InputError, match=rf"{name}: cannot be read as a cube"):
            columns(files / name)
    np.save(files / "pickled.npy", np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"pickled\.npy: cannot be read as a cube"):
        columns(files / "pickled.npy")
    whole = (files / "cube.fits").read_bytes()
    (files / "cut.fits").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.fits: "):
        columns(files / "cut.fits")
    with h5py.File(files / "two.h5", "w") as file:
        file["a"], file["b"] = CUBE, CUBE
    with pytest.raises(InputError, match=r"name its density by --dataset; .* there are a, b"):
        columns(files / "two.h5")
    with h5py.File(files / "two.h5", "a") as file:
        file["flat"] = CUBE[0]
    with pytest.raises(InputError, match="a cube has 3 axes, not 2"):
        columns(files / "two.h5", dataset="flat")
