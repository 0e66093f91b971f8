"""Scales and units, missing pixels, formats by their first bytes, writing without half a file."""

import io

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image
from skimage import data

from gibbsdiff.errors import InputError
from gibbsdiff.io.intensity import filled
from gibbsdiff.io.picture import (
    check_output,
    encoded,
    picture_from_bytes,
    read_picture,
    write_picture,
    write_uncertainty,
)

GREY = data.camera()[200:264, 200:296]  # 64×96


def read_array(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    return read_picture(tmp_path / "x.npy")


def originals(picture):
    return picture.zero + picture.unit * picture.values.astype(np.float64)


@pytest.mark.parametrize(
    ("array", "zero", "unit"),
    [
        (GREY, 0, 255),
        (GREY // 200, 0, 255),
        (GREY.astype(np.int64), 0, 255),
        (GREY.astype(np.uint16) * 16, 0, 4095),  # a camera of 12 bits in a file of 16
        (GREY.astype(np.uint16) * 200, 0, 65535),
        (GREY / 255, 0, 1),
        (np.full((20, 20), 0.5), 0, 1),
    ],
)
def test_scale_by_depth(tmp_path, array, zero, unit):
    picture = read_array(tmp_path, array)
    assert (picture.zero, picture.unit) == (zero, unit)
    np.testing.assert_allclose(originals(picture)[0], array, rtol=2e-7)


@pytest.mark.parametrize(
    "array",
    [
        GREY * 1e-6,  # inside [0, 1], but a map in small units
        GREY * 30.0 + 1e4,
        GREY.astype(np.int32) - 300,
        GREY.astype(np.int64) * 10**12,
        -GREY.astype(np.float32),
    ],
)
def test_scale_by_range(tmp_path, array):
    picture = read_array(tmp_path, array)
    low, high = np.percentile(array, (0.1, 99.9))
    assert picture.zero == pytest.approx(low)
    assert picture.unit == pytest.approx(high - low)
    np.testing.assert_allclose(originals(picture)[0], array, atol=4e-7 * picture.unit)
    assert picture.values.min() < 0 or array.min() == low
    assert picture.values.max() > 1 or array.max() == high  # nothing is clipped


@pytest.mark.parametrize("constant", [0.0, 7.5, -3e8, 1e-30])
def test_a_constant_picture_has_a_unit(tmp_path, constant):
    picture = read_array(tmp_path, np.full((16, 18), constant))
    assert picture.unit > 0
    np.testing.assert_allclose(originals(picture), constant)


def test_few_bright_pixels_do_not_make_the_unit_vanish(tmp_path):
    array = np.zeros((64, 64))
    array[5, 6] = 1e5
    picture = read_array(tmp_path, array)
    np.testing.assert_allclose(originals(picture)[0], array, atol=1e-2)


def holes(shape, rng):
    missing = rng.random(shape) < 0.3
    missing[10:40, 5:33] = True
    missing[:, -7:] = True
    return missing


@pytest.mark.parametrize("shape", [(64, 96), (51, 47), (16, 200)])
def test_holes_of_a_constant_are_filled_by_the_constant(shape):
    missing = holes(shape, np.random.default_rng(0))
    out = filled(np.where(missing, 0, 0.7), missing)
    np.testing.assert_allclose(out, 0.7, rtol=1e-14)
    single = np.ones(shape, dtype=bool)
    single[3, 4] = False
    np.testing.assert_allclose(filled(np.where(single, 0, 0.7), single), 0.7, rtol=1e-14)


def test_holes_are_filled_between_the_extremes_and_near_a_slope():
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:64, :64] / 63
    plane = 0.2 + 0.3 * x + 0.4 * y
    missing = rng.random((64, 64)) < 0.3
    missing[20:32, 20:32] = True
    out = filled(np.where(missing, 0, plane), missing)
    np.testing.assert_array_equal(out[~missing], plane[~missing])
    assert plane.min() <= out.min()
    assert out.max() <= plane.max()
    assert np.abs(out - plane).max() < 0.1  # of a range of 0.7
    assert np.abs(out - plane)[missing].mean() < 0.01


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_pixels_without_a_value_are_filled_and_marked_in_the_uncertainty(tmp_path, value):
    array = np.dstack([GREY, GREY.T.reshape(GREY.shape), GREY[::-1]]) * 10.0
    array[7, 9, 1] = array[30:34, 40, 0] = value
    picture = read_array(tmp_path, array)
    expected = np.zeros(GREY.shape, dtype=bool)
    expected[7, 9] = expected[30:34, 40] = True
    np.testing.assert_array_equal(picture.missing, expected)
    assert np.isfinite(picture.values).all()
    around = picture.values[1, 5:12, 7:12]
    assert around.min() <= picture.values[1, 7, 9] <= around.max()
    write_picture(picture, picture.values, tmp_path / "out.npy")
    out = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(np.moveaxis(out, -1, 0), originals(picture), atol=1e-3)
    np.testing.assert_allclose(out[~expected], array[~expected], atol=1e-3)
    sd = np.load(write_uncertainty(picture, picture.values, tmp_path / "out"))
    np.testing.assert_array_equal(np.isnan(sd).all(axis=2), expected)
    np.testing.assert_array_equal(np.isnan(sd).any(axis=2), expected)


def test_values_are_rounded_and_clipped_to_the_depth(tmp_path):
    for name, top, kind in (("a.png", 255, np.uint8), ("b.npy", 65535, np.uint16)):
        array = np.linspace(0, top, 400).reshape(20, 20).astype(kind)
        path = tmp_path / name
        if name.endswith("png"):
            Image.fromarray(array).save(path)
        else:
            np.save(path, array)
        picture = read_picture(path)
        values = picture.values.copy()
        values[0, 0, :4] = [-0.5, 1.5, 100.4 / top, 100.6 / top]
        write_picture(picture, values, tmp_path / f"out.{name}")
        out = np.load(tmp_path / "out.b.npy") if name == "b.npy" else None
        if out is None:
            with Image.open(tmp_path / "out.a.png") as image:
                out = np.array(image)
        assert out[0, :4].tolist() == [0, top, 100, 101]
        np.testing.assert_array_equal(out[1:], array[1:])


def test_wide_integers_are_clipped_and_do_not_wrap(tmp_path):
    picture = read_array(tmp_path, (GREY.astype(np.int64) - 128) * 2**55)
    values = picture.values.copy()
    values[0, 0, :2] = [1e6, -1e6]
    write_picture(picture, values, tmp_path / "out.npy")
    top, bottom = np.load(tmp_path / "out.npy")[0, :2].tolist()
    assert top > 9.2e18
    assert bottom == -(2**63)


def test_a_wrongly_named_picture_keeps_its_own_format(tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png", format="JPEG", quality=90)
    picture = read_picture(tmp_path / "a.png")
    write_picture(picture, picture.values, tmp_path / "b.png")
    with Image.open(tmp_path / "b.png") as image:
        assert image.format == "JPEG"


def made(kind):
    """A file of GREY as bytes."""
    buffer = io.BytesIO()
    if kind == "NPY":
        np.save(buffer, GREY)
    elif kind == "FITS":
        fits.PrimaryHDU(GREY).writeto(buffer)
    elif kind.startswith("TIFF"):
        order, big = kind.removeprefix("TIFF")[0], kind.endswith("8")
        tifffile.imwrite(buffer, GREY, byteorder=order, bigtiff=big)
    else:
        Image.fromarray(GREY).save(buffer, format=kind, lossless=True, quality=100)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("PNG", ".png"), ("JPEG", ".jpg"), ("WEBP", ".webp"), ("FITS", ".fits"), ("NPY", ".npy"),
        ("TIFF<", ".tif"), ("TIFF>", ".tif"), ("TIFF<8", ".tif"), ("TIFF>8", ".tif"),
    ],
)  # fmt: skip
def test_bytes_without_a_name_are_known_by_the_first_of_them(kind, suffix):
    content = made(kind)
    picture = picture_from_bytes(content, "stdin")
    assert str(picture.path) == f"stdin{suffix}"
    assert np.abs(originals(picture)[0] - GREY).max() < (3 if kind == "JPEG" else 1e-3)
    again = picture_from_bytes(encoded(picture, picture.values), "stdin")
    assert again.format.name == picture.format.name
    if kind != "JPEG":
        np.testing.assert_array_equal(again.values, picture.values)


def test_bytes_that_are_no_picture_are_one_line():
    for content, words in ((b"", "the file is empty"), (b"GIF89a", "neither PNG, JPEG"),
                           (made("PNG")[:999], "cannot be read"), (b"RIFFxxxx", "")):  # fmt: skip
        with pytest.raises(InputError, match=f"^stdin: .*{words}"):
            picture_from_bytes(content, "stdin")


@pytest.mark.parametrize("limit", [2000, 5000])  # Pillow refuses; Pillow warns
def test_the_usual_limit_of_pillow_is_lifted(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    Image.fromarray(GREY).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").values.size > limit
    assert limit == Image.MAX_IMAGE_PIXELS  # for others it stands


def test_no_half_file_on_a_full_disk(no_room, tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    picture = read_picture(tmp_path / "a.png")
    target = tmp_path / "out" / "a.png"
    target.parent.mkdir()
    target.write_bytes(b"what was there")
    with no_room(1000), pytest.raises(InputError, match=r"a\.png: cannot be written"):
        write_picture(picture, picture.values, target)
    assert [p.name for p in target.parent.iterdir()] == ["a.png"]
    assert target.read_bytes() == b"what was there"


def test_no_half_file_in_a_folder_that_cannot_be_written(unprivileged, tmp_path):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    picture = read_picture(tmp_path / "a.png")
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    with unprivileged(), pytest.raises(InputError, match=r"a\.png: "):
        write_picture(picture, picture.values, folder / "a.png")
    assert list(folder.iterdir()) == []
    for name, trouble in (("none/a.png", "no such folder"), ("a.jpg", "must end in .png")):
        with pytest.raises(InputError, match=trouble):
            check_output(picture, tmp_path / name)


def test_files_that_may_not_be_read(unprivileged, tmp_path):
    path = tmp_path / "a.fits"
    fits.PrimaryHDU(GREY).writeto(path)
    read_picture(path)  # what it imports, it imports now
    path.chmod(0)
    trouble = r"a\.fits: cannot be read \(Permission denied"
    with unprivileged(may_read=False), pytest.raises(InputError, match=trouble):
        read_picture(path)
