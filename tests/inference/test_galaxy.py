"""A galaxy and stars by the models of astropy, measured by photutils; a weight map beside."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_what_the_page_on_astronomy_says(tmp_path):
    """Noise to 5 %, flux of the galaxy and of bright stars to 1 %, and less noise in corners."""
    aperture = pytest.importorskip("photutils.aperture")
    place = ROOT / "examples" / "astronomy.py"
    spec = importlib.util.spec_from_file_location("astronomy", place)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    clean, stars = example.scene()
    white = np.random.default_rng(1).normal(size=clean.shape)
    p = example.denoised(clean + 20 * white, None, tmp_path)
    assert p.unit * p.simpler.level == pytest.approx(20, rel=0.05)
    places = [(130.0, 60.0), *stars[stars[:, 2] > 1e4, :2]]
    for radius, most in ((30.0, 0.01), (4.0, 0.01)):
        around = aperture.CircularAperture(places[:1] if radius > 9 else places[1:], radius)
        sums = [
            np.asarray(aperture.aperture_photometry(z, around)["aperture_sum"])
            for z in (p.image, clean)
        ]
        sky = example.SKY * np.pi * radius**2
        assert np.all(np.abs(sums[0] - sums[1]) < most * (sums[1] - sky))
    rows, columns = np.mgrid[: example.SIDE, : example.SIDE] - (example.SIDE - 1) / 2
    corners = np.where(np.hypot(rows, columns) > 0.575 * example.SIDE, 10.0, 1.0)
    noisy = clean + 20 * corners * white
    q = example.denoised(noisy, (3 * corners) ** -2.0, tmp_path)
    dark = clean < example.SKY + 400
    for part, most in ((corners > 1, 0.25), (corners == 1, 0.25)):
        before, after = (np.std((z - clean)[part & dark]) for z in (noisy, q.image))
        assert after < most * before
