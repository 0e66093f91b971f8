"""FITS of several parts: packed, by extension, and with level maps."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from astropy.io import fits

from gibbsdiff.errors import InputError
from gibbsdiff.io.find import find_pictures
from gibbsdiff.io.fits_parts import level_beside, plain_name, split
from gibbsdiff.io.level_map import read_map
from gibbsdiff.io.picture import encoded, read_picture

SKY = np.random.default_rng(0).normal(100, 5, (24, 32)).astype(np.float32)
ERR = np.full((24, 32), 5.0, np.float32)


def write(path, *parts):
    fits.HDUList([fits.PrimaryHDU(), *(fits.ImageHDU(d, name=n) for n, d in parts)]).writeto(path)
    return path


def original(picture):
    return picture.zero + picture.unit * picture.values[0]


def test_names():
    assert plain_name(split("a/b.fits.gz[SCI]")[0]).name == "b.fits"
    assert split("a/b.fits[2]") == (Path("a/b.fits"), "2")
    assert split("a[1].png")[1] is None
    assert plain_name(split("b.FITS.FZ")[0]).name == "b.FITS"


@pytest.mark.parametrize("part", ["", "[SCI]", "[sci]", "[1]"])
def test_an_extension_by_name_and_number(tmp_path, part):
    write(tmp_path / "a.fits", ("SCI", SKY), ("OTHER", 2 * SKY))
    picture = read_picture(f"{tmp_path}/a.fits{part}")
    np.testing.assert_allclose(original(picture), SKY, rtol=1e-5)
    assert picture.path == tmp_path / "a.fits"
    other = read_picture(f"{tmp_path}/a.fits[other]")
    np.testing.assert_allclose(original(other), 2 * SKY, rtol=1e-5)
    (tmp_path / "out.fits").write_bytes(encoded(other, np.zeros((1, 24, 32))))
    with fits.open(tmp_path / "out.fits") as file:  # the other parts are as they were
        np.testing.assert_array_equal(file["SCI"].data, SKY)
        np.testing.assert_allclose(file["OTHER"].data, other.zero, rtol=1e-6)
    assert find_pictures(f"{tmp_path}/a.fits[OTHER]").pictures


def test_no_such_extension(tmp_path):
    write(tmp_path / "a.fits", ("SCI", SKY))
    with pytest.raises(InputError, match=r"has no extension DQ; there are PRIMARY, SCI"):
        read_picture(f"{tmp_path}/a.fits[DQ]")
    with pytest.raises(InputError, match=r"\[0\] holds no image"):
        read_picture(f"{tmp_path}/a.fits[0]")


def test_packed_files(tmp_path):
    plain = write(tmp_path / "a.fits", ("SCI", SKY))
    (tmp_path / "b.fits.gz").write_bytes(gzip.compress(plain.read_bytes()))
    packed = fits.CompImageHDU(np.rint(SKY).astype(np.int32), name="SCI")
    fits.HDUList([fits.PrimaryHDU(), packed]).writeto(tmp_path / "c.fits.fz")
    np.testing.assert_allclose(original(read_picture(tmp_path / "b.fits.gz")), SKY, rtol=1e-5)
    third = read_picture(tmp_path / "c.fits.fz")
    np.testing.assert_allclose(original(third), np.rint(SKY), rtol=1e-5)
    assert third.path.name == "c.fits"
    names = [p.name for p in find_pictures(tmp_path).pictures]
    assert names == ["a.fits", "b.fits.gz", "c.fits.fz"]
    (tmp_path / "b.fits.gz").write_bytes((tmp_path / "b.fits.gz").read_bytes()[:200])
    with pytest.raises(InputError, match=r"b\.fits\.gz: cannot be read"):
        read_picture(tmp_path / "b.fits.gz")


def test_errors_and_flags_are_found(tmp_path):
    flags = np.zeros((24, 32), np.int32)
    flags[3, 4], flags[5, 6] = 5, 4  # bit 0 is DO_NOT_USE, bit 2 is a jump
    path = write(tmp_path / "jw.fits", ("SCI", SKY), ("ERR", ERR), ("DQ", flags))
    level = read_picture(path).level
    assert (level.kind, level.source) == ("sd", "jw.fits[ERR]")
    assert np.argwhere(np.isnan(level.values)).tolist() == [[3, 4]]
    euclid = write(tmp_path / "e.fits", ("1-1.SCI", SKY), ("1-1.RMS", ERR), ("1-2.RMS", 2 * ERR))
    assert read_picture(euclid).level.source == "e.fits[1-1.RMS]"
    alone = read_picture(write(tmp_path / "f.fits", ("SCI", SKY), ("DQ", flags)))
    assert alone.level is None
    assert np.argwhere(alone.missing).tolist() == [[3, 4]]
    assert level_beside(write(tmp_path / "s.fits", ("SCI", SKY), ("ERR", ERR[:5]))) is None


def test_weights_beside_are_found_and_are_no_pictures(tmp_path):
    fits.PrimaryHDU(SKY).writeto(tmp_path / "a.fits")
    fits.PrimaryHDU(ERR**-2.0).writeto(tmp_path / "a.weight.fits")
    level = read_picture(tmp_path / "a.fits").level
    assert (level.kind, level.source) == ("ivar", "a.weight.fits")
    found = find_pictures(tmp_path)
    assert [p.name for p in found.pictures] == ["a.fits"]
    np.testing.assert_allclose(read_map(tmp_path / "a.weight.fits"), ERR**-2.0, rtol=1e-6)
    np.save(tmp_path / "m.npy", ERR)
    np.testing.assert_array_equal(read_map(tmp_path / "m.npy"), ERR)
