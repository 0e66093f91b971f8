"""TIFF, FITS and NPY come out as they went in: numbers, depth, layout, tags, headers."""

import io

import numpy as np
import pytest
import tifffile
from astropy.io import fits
from PIL import Image, ImageCms
from skimage import data

from gibbsdiff.io.picture import read_picture, write_picture, write_uncertainty

ICC = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
CHELSEA = data.chelsea()[40:88, 100:164]  # 48×64, RGB
GREY = CHELSEA[..., 1]
WIDE = GREY.astype(np.uint16) * 256 + GREY[::-1]  # both bytes differ
WIDE_RGB = CHELSEA.astype(np.uint16) * 256 + CHELSEA[::-1]
ALPHA = np.arange(48 * 64, dtype=np.uint8).reshape(48, 64)
WIDE_ALPHA = np.arange(48 * 64, dtype=np.uint16).reshape(48, 64) * 21


def again(path):
    """The file read and written with the values it holds."""
    picture = read_picture(path)
    target = path.with_name(f"again{path.suffix}")
    write_picture(picture, picture.values, target)
    return picture, target


FLOAT = (GREY / 255).astype(np.float32)
TIFFS = {
    "u8": GREY,
    "u8 rgb": CHELSEA,
    "u8 rgba": np.dstack([CHELSEA, ALPHA]),
    "u16": WIDE,
    "u16 rgb": WIDE_RGB,
    "u16 rgba": np.dstack([WIDE_RGB, WIDE_ALPHA]),
    "f32": FLOAT,
    "f32 rgb": (CHELSEA / 255).astype(np.float32),
}


TIFF_LAYOUTS = [(kind, "contig") for kind in TIFFS] + [
    (kind, "separate") for kind in TIFFS if "rgb" in kind
]


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("kind", "layout"), TIFF_LAYOUTS)
def test_tiff(tmp_path, kind, order, layout, compression):
    array, path = TIFFS[kind], tmp_path / "a.tiff"
    tifffile.imwrite(
        path,
        np.moveaxis(array, -1, 0) if layout == "separate" else array,
        photometric="minisblack" if array.ndim == 2 else "rgb",
        planarconfig=None if array.ndim == 2 else layout,
        extrasamples=["unassalpha"] if array.shape[-1] == 4 else None,
        byteorder=order,
        compression=compression,
        predictor=compression is not None and array.dtype.kind == "u",
        iccprofile=ICC,
        description="a cat",
        datetime="2020:01:02 03:04:05",
        resolution=(300, 200),
        resolutionunit="inch",
        extratags=[(274, 3, 1, 6, True), (700, 1, 4, b"<x/>", True)],
        metadata=None,
    )
    picture, target = again(path)
    with tifffile.TiffFile(path) as old, tifffile.TiffFile(target) as new:
        np.testing.assert_array_equal(new.asarray(), old.asarray())
        was, is_now = old.pages[0], new.pages[0]
        tags = {t.code: t.value for t in is_now.tags}
        for tag in was.tags:
            assert tag.code in (273, 278, 279) or tags.pop(tag.code) == tag.value
        assert set(tags) <= {273, 278, 279, 284, 339}  # where it is, and defaults spelt out
        assert new.byteorder == old.byteorder
    if kind == "u8 rgba" and layout == "contig":
        with Image.open(target) as seen, Image.open(path) as shown:  # another reader agrees
            np.testing.assert_array_equal(np.array(seen), np.array(shown))
    assert picture.unit == {"u1": 255, "u2": 65535, "f4": 1}[array.dtype.str[1:]]


def test_tiff_keeps_its_exif(tmp_path):
    tags = Image.Exif()
    tags[0x8769] = {0x829A: 0.125, 0x9286: b"ASCII\0\0\0a longer comment", 0x8827: 400}
    tags[0x8825] = {1: "N", 2: (48.0, 30.0, 15.5)}
    path = tmp_path / "a.tif"
    Image.fromarray(CHELSEA).save(path, exif=tags.tobytes())
    with tifffile.TiffFile(path) as old, tifffile.TiffFile(again(path)[1]) as new:
        for place, count in ((0x8769, 3), (0x8825, 2)):
            kept = new.pages[0].tags[place].value
            assert kept == old.pages[0].tags[place].value
            assert len(kept) >= count
        np.testing.assert_array_equal(new.asarray(), CHELSEA)


def test_big_tiff_comes_out_as_a_plain_one(tmp_path):
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, WIDE, bigtiff=True, description="a cat", metadata=None)
    with tifffile.TiffFile(again(path)[1]) as new:
        assert not new.is_bigtiff
        assert new.pages[0].description == "a cat"
        np.testing.assert_array_equal(new.asarray(), WIDE)


def test_tiff_of_a_codec_that_turns_its_pictures(tmp_path):
    """Pillow reads LZW and turns by the tag: the pixels must be turned once, on show."""
    path = tmp_path / "a.tif"
    Image.fromarray(CHELSEA).save(path, tiffinfo={274: 8}, compression="tiff_lzw")
    picture, target = again(path)
    assert picture.values.shape == (3, 48, 64)
    with Image.open(target) as new:
        assert new.getexif()[274] == 8
        np.testing.assert_array_equal(np.array(new), np.rot90(CHELSEA))


FITS_TYPES = ["u1", "i2", "i4", "f4", "f8"]


@pytest.mark.parametrize("dtype", FITS_TYPES)
@pytest.mark.parametrize("shape", [(48, 64), (1, 48, 64), (3, 48, 64)])
def test_fits(tmp_path, dtype, shape):
    planes = np.moveaxis(CHELSEA, -1, 0)[: shape[0] if len(shape) == 3 else 1]
    array = planes.reshape(shape).astype(dtype) * (1 if dtype == "u1" else 7)
    if dtype.startswith("f"):
        array.reshape(-1, 48, 64)[:, 5:9, 7] = np.nan
    head = fits.Header({"OBJECT": "cat", "CRVAL1": 12.5, "BUNIT": "Jy/beam"})
    first = fits.PrimaryHDU(header=fits.Header({"TELESCOP": "roof"}))
    image = fits.ImageHDU(array, head, name="SCI")
    table = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=[1, 2, 3])], name="T")
    path = tmp_path / "a.fits"
    fits.HDUList([first, image, table]).writeto(path, checksum=True)
    picture, target = again(path)
    with fits.open(path) as old, fits.open(target, checksum=True) as new:
        tolerance = 1e-7 * picture.unit if dtype == "f8" else 1e-6 if dtype == "f4" else 0
        tolerance *= 1 if dtype != "f4" else 255 * 7
        seen = np.isfinite(old["SCI"].data)
        values = new["SCI"].data
        np.testing.assert_allclose(values[seen], old["SCI"].data[seen], rtol=0, atol=tolerance)
        assert np.isfinite(values).all()
        assert new["SCI"].data.dtype == old["SCI"].data.dtype
        expected = old["SCI"].header.copy()
        assert new["SCI"].header["HISTORY"][-1] == "denoised by gibbsdiff"
        for key in ("CHECKSUM", "DATASUM"):
            del expected[key]
        del new["SCI"].header["HISTORY"]
        assert repr(new["SCI"].header) == repr(expected)
        assert repr(new[0].header) == repr(old[0].header)
        np.testing.assert_array_equal(new["T"].data["a"], [1, 2, 3])
    assert picture.unit_name == "Jy/beam"
    np.testing.assert_array_equal(picture.missing, np.isnan(array.reshape(-1, 48, 64)[0]))


def test_fits_scaled_integers_and_blank_pixels(tmp_path):
    stored = (GREY.astype(np.int16) - 100) * 5
    stored[10:13, 20:30] = -32768
    hdu = fits.PrimaryHDU(stored)
    hdu.header["BZERO"], hdu.header["BSCALE"], hdu.header["BLANK"] = 32.5, -0.25, -32768
    content = io.BytesIO()
    hdu.writeto(content)
    path = tmp_path / "a.fit"
    path.write_bytes(content.getvalue())
    picture, target = again(path)
    with fits.open(target, do_not_scale_image_data=True) as new:
        seen = stored != -32768
        np.testing.assert_array_equal(new[0].data[seen], stored[seen])
        assert stored[seen].min() <= new[0].data.min()
        assert [new[0].header[k] for k in ("BZERO", "BSCALE", "BLANK")] == [32.5, -0.25, -32768]
    np.testing.assert_array_equal(picture.missing, stored == -32768)
    physical = picture.zero + picture.unit * picture.values[0].astype(float)
    expected = 32.5 - 0.25 * stored
    seen = ~picture.missing
    np.testing.assert_allclose(physical[seen], expected[seen], atol=1e-4)
    assert picture.unit > 0
    # What is clipped to the depth's end does not turn into a pixel without a value.
    write_picture(picture, picture.values + 1e6, target)
    with fits.open(target, do_not_scale_image_data=True) as new:
        assert new[0].data.max() == -32767


def test_unsigned_16_bits_in_fits(tmp_path):
    sky = (900 + WIDE // 64).astype(np.uint16)
    fits.PrimaryHDU(sky).writeto(tmp_path / "a.fits")
    picture, target = again(tmp_path / "a.fits")
    np.testing.assert_array_equal(fits.getdata(target), sky)
    assert picture.zero >= 900  # the range of the sky, not of the counter
    assert picture.unit < 1024


LAYOUTS = {
    "HW": lambda a: a[..., 0],
    "HW3": lambda a: a,
    "HW1": lambda a: a[..., :1],
    "3HW": lambda a: np.moveaxis(a, -1, 0).copy(),
    "1HW": lambda a: a[None, ..., 0].copy(),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("dtype", ["u1", "<u2", ">u2", "i8", "<f2", "<f4", ">f4", "f8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_npy(tmp_path, layout, dtype):
    array = LAYOUTS[layout](CHELSEA.astype(dtype))
    if array.dtype.kind == "f":
        array.flat[-1] = np.nan
    np.save(tmp_path / "a.npy", array)
    picture, target = again(tmp_path / "a.npy")
    new = np.load(target)
    assert new.dtype == array.dtype
    assert new.shape == array.shape
    assert new.flags.f_contiguous == np.load(tmp_path / "a.npy").flags.f_contiguous
    if not picture.missing.any():
        np.testing.assert_array_equal(new, array)
    assert np.isfinite(new.astype(float)).all()
    seen = np.isfinite(array.astype(float))
    same = np.isclose(new[seen].astype(float), array[seen].astype(float), rtol=0, atol=1e-4)
    # A pixel without one channel has no value, and all of its channels are filled.
    assert (~same).sum() <= (picture.channels - 1) * picture.missing.sum()


def test_uncertainty_is_in_the_units_of_the_input(tmp_path):
    Image.fromarray(CHELSEA).save(tmp_path / "a.v1.png")
    picture = read_picture(tmp_path / "a.v1.png")
    path = write_uncertainty(picture, np.full(picture.values.shape, 0.02), tmp_path / "a.v1")
    assert path == tmp_path / "a.v1.uncertainty.tiff"
    made = tifffile.imread(path)
    assert made.shape == CHELSEA.shape
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, 0.02 * 255, rtol=1e-6)

    counts = GREY * 40.0 + 1e4
    counts[3, 4] = np.nan
    head = fits.Header({"BUNIT": "adu", "CRVAL1": 3.0})
    fits.PrimaryHDU(counts, head).writeto(tmp_path / "b.fits")
    picture = read_picture(tmp_path / "b.fits")
    path = write_uncertainty(picture, np.full(picture.values.shape, 0.02), tmp_path / "b")
    with fits.open(path) as made:
        told = made[0].data
        assert (made[0].header["CRVAL1"], made[0].header["BUNIT"]) == (3.0, "adu")
    np.testing.assert_array_equal(np.argwhere(np.isnan(told)), [[3, 4]])
    low, high = np.nanpercentile(counts, (0.1, 99.9))
    np.testing.assert_allclose(np.nanmean(told), 0.02 * (high - low), rtol=1e-5)

    np.save(tmp_path / "c.npy", np.moveaxis(CHELSEA, -1, 0))
    picture = read_picture(tmp_path / "c.npy")
    path = write_uncertainty(picture, picture.values, tmp_path / "c")
    np.testing.assert_allclose(np.load(path), np.moveaxis(CHELSEA, -1, 0), rtol=1e-6)


def test_no_denoised_pixel_is_blank_by_its_value(tmp_path):
    stored = (GREY.astype(np.int16) - 100) * 5
    stored[0, 0] = 0
    hdu = fits.PrimaryHDU(stored)
    hdu.header["BLANK"] = 0
    hdu.writeto(tmp_path / "a.fits")
    picture = read_picture(tmp_path / "a.fits")
    zeros = np.full_like(picture.values, (0 - picture.zero) / picture.unit)
    write_picture(picture, zeros, tmp_path / "b.fits")
    with fits.open(tmp_path / "b.fits", do_not_scale_image_data=True) as new:
        np.testing.assert_array_equal(new[0].data, 1)  # the nearest number that is a value
