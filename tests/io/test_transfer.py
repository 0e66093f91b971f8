"""Linear light and sRGB, there and back."""

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms
from skimage import color

from gibbsdiff.io.picture import read_picture, write_picture, write_uncertainty
from gibbsdiff.io.transfer import decode, encode, says_linear, slope_of_decode

LIGHT = np.concatenate([-np.geomspace(1, 1e-5, 50), [0.0], np.geomspace(1e-5, 4, 200)])


def test_the_curve_is_that_of_the_standard_and_has_an_inverse():
    inside = LIGHT[(LIGHT >= 0) & (LIGHT <= 1)]
    # scikit-image's way from XYZ has the same curve: grey light is grey.
    xyz = inside[:, None] * color.rgb2xyz(np.ones((1, 1, 3)))[0, 0]
    assert np.allclose(encode(inside), color.xyz2rgb(xyz[None])[0, :, 1], atol=1e-4)
    assert np.allclose(decode(encode(LIGHT)), LIGHT, rtol=1e-6)
    values = encode(LIGHT)
    step = 1e-6
    numeric = (decode(values + step) - decode(values - step)) / (2 * step)
    away = np.abs(np.abs(values) - 12.92 * 0.0031308) > 1e-4
    assert np.allclose(slope_of_decode(values)[away], numeric[away], rtol=1e-4)


def test_a_linear_file_is_written_as_it_was_with_errors_in_its_own_units(tmp_path):
    stored = np.random.default_rng(0).integers(0, 65535, (20, 24, 3)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb")
    plain, linear = (read_picture(tmp_path / "a.tif", light) for light in ("auto", "linear"))
    assert not plain.linear
    assert np.allclose(linear.values, encode(plain.values), atol=1e-6)
    write_picture(linear, linear.values, tmp_path / "b.tif")
    assert np.array_equal(tifffile.imread(tmp_path / "b.tif"), stored)
    sd = np.full_like(linear.values, 0.01)
    out = tifffile.imread(write_uncertainty(linear, sd, tmp_path / "b", linear.values))
    both = decode(linear.values + 0.01), decode(linear.values - 0.01)
    numeric = (65535 * (both[0] - both[1]) / 2).transpose(1, 2, 0)
    bright = linear.values.transpose(1, 2, 0) > 0.1
    assert np.allclose(out[bright], numeric[bright], rtol=1e-2)


def test_a_profile_may_say_that_light_is_linear(tmp_path):
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert not says_linear(srgb)
    assert not says_linear(None)
    assert not says_linear(b"no profile")
    pixels = np.random.default_rng(0).integers(0, 255, (20, 20, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png", icc_profile=srgb)
    assert not read_picture(tmp_path / "a.png").linear


@pytest.mark.parametrize("light", ["auto", "srgb"])
def test_what_says_nothing_is_taken_as_it_is(tmp_path, light):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((20, 20)))
    picture = read_picture(tmp_path / "a.npy", light)
    assert np.allclose(picture.values[0], np.load(tmp_path / "a.npy"), atol=1e-6)
