import numpy as np
import pytest
import xarray
from astropy import units
from astropy.nddata import CCDData, InverseVariance, NDData, StdDevUncertainty
from astropy.wcs import WCS
from skimage import data

import gibbsdiff
from gibbsdiff import InputError

BLIND = {"model": "natural-fast", "check": False}
FAST = {**BLIND, "known": {"sigma": 0.1, "phi": 0.0}}  # one call


@pytest.fixture(scope="module")
def clean():
    return data.camera()[100:164, 200:264] / 255.0


@pytest.fixture(scope="module")
def noisy(clean):
    return clean + np.random.default_rng(0).normal(0, 0.1, clean.shape)


@pytest.fixture(scope="module")
def posterior(noisy):
    return gibbsdiff.denoise(noisy, **FAST)


def rms(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def test_an_array_comes_back_as_denoise_gives_it(clean, noisy, posterior):
    image, sd = gibbsdiff.restore(noisy, return_sd=True, **FAST)
    assert image.dtype == np.float64
    assert np.array_equal(image, posterior.image)
    assert np.array_equal(sd, posterior.sd[0].numpy())
    assert np.array_equal(gibbsdiff.restore(noisy, **FAST), image)
    blind = gibbsdiff.restore(noisy, **BLIND)
    assert rms(blind, clean) < 0.55 * rms(noisy, clean)
    assert rms(blind, image) < 0.01


def test_bytes_come_back_as_bytes_on_any_axis():
    colours = data.astronaut()[:48, 200:248]
    want = gibbsdiff.denoise(colours, **FAST).image
    for axis in (-1, 0):
        given = np.moveaxis(colours, -1, axis)
        found = gibbsdiff.restore(given, channel_axis=axis, **FAST)
        assert found.dtype == np.uint8
        assert np.array_equal(np.moveaxis(found, axis, -1), want)


def test_units_do_not_matter(noisy):
    """Counts with a pedestal: the same noise, the same picture, in their own units."""
    counts = (1000 + 5000 * noisy).astype(np.float32)
    found, sd = gibbsdiff.restore(counts, return_sd=True, **FAST)
    shifted, sd_shifted = gibbsdiff.restore(3 * counts - 4000, return_sd=True, **FAST)
    assert found.dtype == np.float32
    assert np.allclose(shifted, 3 * found - 4000, atol=3)  # of 15000
    assert np.allclose(sd_shifted, 3 * sd, rtol=0.01)
    assert rms(found, gibbsdiff.restore(np.rint(counts).astype(np.int32), **FAST)) < 5


def test_other_numbers_of_channels_are_pictures_of_their_own(noisy):
    pair = np.stack([noisy, noisy[::-1]])
    found = gibbsdiff.restore(pair, channel_axis=0, **FAST)
    for one, alone in zip(found, pair, strict=True):
        assert np.array_equal(one, gibbsdiff.restore(alone, **FAST))


def test_masked_pixels_are_not_observed(clean, noisy):
    broken, mask = noisy.copy(), np.zeros(noisy.shape, bool)
    mask[20:24, 30:34] = True
    broken[mask] = 1e6
    found = gibbsdiff.restore(np.ma.MaskedArray(broken, mask), **FAST)
    nan = np.where(mask, np.nan, noisy)
    assert np.array_equal(found, gibbsdiff.restore(nan, **FAST))
    assert rms(found[mask], clean[mask]) < 0.1


def test_nddata_keeps_unit_coordinates_and_mask(noisy, posterior):
    wcs = WCS(naxis=2)
    wcs.wcs.ctype, wcs.wcs.crval = ("RA---TAN", "DEC--TAN"), (83.6, 22.0)
    mask = np.zeros(noisy.shape, bool)
    given = NDData(
        noisy, wcs=wcs, unit=units.adu, meta={"OBJECT": "M1"}, uncertainty=InverseVariance(noisy)
    )
    found = gibbsdiff.restore(given, **FAST)
    assert type(found) is NDData
    assert (found.unit, found.meta, found.mask) == (units.adu, {"OBJECT": "M1"}, None)
    assert found.wcs.pixel_to_world(3, 4) == wcs.pixel_to_world(3, 4)
    assert np.array_equal(found.data, posterior.image)
    assert isinstance(found.uncertainty, StdDevUncertainty)
    assert np.array_equal(found.uncertainty.array, posterior.sd[0].numpy())
    assert found.uncertainty.unit == units.adu
    mask[10, 10] = True
    ccd = gibbsdiff.restore(CCDData(noisy, unit="electron", mask=mask, wcs=wcs), **FAST)
    assert type(ccd) is CCDData
    assert ccd.unit == units.electron
    assert np.array_equal(ccd.mask, mask)
    assert np.isfinite(ccd.data).all()


def test_a_dataarray_keeps_names_coordinates_and_attributes(noisy, posterior):
    given = xarray.DataArray(
        noisy,
        dims=("lat", "lon"),
        coords={"lat": np.arange(64) / 4, "lon": np.arange(64) / 2},
        name="temperature",
        attrs={"units": "K", "source": "here"},
    )
    found = gibbsdiff.restore(given, **FAST)
    assert found.identical(given.copy(data=posterior.image))
    both = gibbsdiff.restore(given, return_sd=True, **FAST)
    assert set(both.data_vars) == {"temperature", "temperature_sd"}
    assert both.temperature.identical(found)
    assert both.temperature_sd.attrs["units"] == "K"
    assert np.array_equal(both.temperature_sd, posterior.sd[0].numpy())
    bands = given.expand_dims(band=["red"], axis=2)
    assert np.array_equal(gibbsdiff.restore(bands, "band", **FAST)[..., 0], found)


def test_an_absolute_level_of_other_units_is_refused(noisy):
    with pytest.raises(InputError, match="level_absolute: the image is scaled"):
        gibbsdiff.restore(1000 * noisy, level_map=np.ones(noisy.shape), level_absolute=True)


@pytest.mark.parametrize(
    ("image", "axis", "line"),
    [
        (np.zeros((3, 20, 20)), None, "image: 3 axes"),
        (np.zeros((20, 20)), 0, "image: 2 axes"),
        (np.zeros((3, 20, 20)), 3, "channel_axis: 3"),
        (np.zeros((3, 20, 20)), "c", "channel_axis: 'c' is a name"),
        (np.zeros((20, 20), complex), None, "image: dtype complex128"),
        (np.full((20, 20), np.nan), None, "image: no pixel has a value"),
        (xarray.DataArray(np.zeros((3, 20, 20))), "c", "channel_axis: no dimension 'c'"),
    ],
)
def test_what_cannot_be_restored_is_refused_in_a_line(image, axis, line):
    with pytest.raises(InputError, match=line):
        gibbsdiff.restore(image, axis)
