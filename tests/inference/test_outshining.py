"""Stars on a sky with known noise: they neither set the scale nor are cut."""

import numpy as np
import pytest
import torch
from scipy.ndimage import maximum_filter

import gibbsdiff
from gibbsdiff.inference.clipped import without_outshining

SKY, SIGMA, SIDE = 900.0, 20.0, 128
RADIUS = 4.0


def star(x, y, flux, side=SIDE, fwhm=3.0, beta=3.5):
    """Moffat's profile, of the whole flux."""
    rows, columns = np.mgrid[:side, :side]
    width = fwhm / (2 * np.sqrt(2 ** (1 / beta) - 1))
    r2 = ((columns - x) ** 2 + (rows - y) ** 2) / width**2
    return flux * (beta - 1) / (np.pi * width**2) * (1 + r2) ** -beta


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    """Clean, noisy, the stars (x, y, flux), and the posterior of the file by the default family."""
    rng = np.random.default_rng(3)
    faint = [(*rng.uniform(8, SIDE - 8, 2), 10 ** rng.uniform(2.3, 3.6)) for _ in range(40)]
    bright = [(*rng.uniform(16, SIDE - 16, 2), 10 ** rng.uniform(5, 6)) for _ in range(3)]
    clean = SKY + sum(star(*s) for s in faint + bright)
    noisy = clean + SIGMA * rng.normal(size=clean.shape)
    path = tmp_path_factory.mktemp("sky") / "stars.npy"
    np.save(path, noisy.astype(np.float32))
    posterior = gibbsdiff.denoise(path, noise="white")
    return clean, noisy, faint, bright, posterior


def aperture(image, x, y):
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    inside = (columns - x) ** 2 + (rows - y) ** 2 <= RADIUS**2
    return image[inside].sum(), inside.sum()


def test_the_noise_is_found_and_most_of_it_is_taken_away(field):
    clean, noisy, _, _, p = field
    assert p.unit * p.level == pytest.approx(SIGMA, rel=0.05)
    error = [np.sqrt(np.mean((z - clean) ** 2)) for z in (noisy, p.image)]
    assert error[1] < 0.35 * error[0]
    assert "outshine" in p.notes[-1]


def test_flux_is_kept_and_there_is_no_halo(field):
    """Aperture photometry within 1 % or one sigma for the bright; for faint ones in the mean, and
    with no more scatter than before.
    """
    clean, noisy, faint, bright, p = field
    for x, y, flux in bright:
        (found, n), (true, _) = aperture(p.image, x, y), aperture(clean, x, y)
        assert abs(found - true) < max(0.01 * flux, SIGMA * np.sqrt(n))
        ring = np.abs(np.hypot(*np.mgrid[:SIDE, :SIDE] - np.array([y, x])[:, None, None]) - 9) < 2
        off = (p.image - clean)[ring]
        assert abs(off.mean()) < 0.25 * SIGMA
        assert off.std() < SIGMA / 2
    z = {}
    for name, image in (("before", noisy), ("after", p.image)):
        pairs = [(aperture(image, x, y), aperture(clean, x, y)) for x, y, _ in faint]
        z[name] = np.array([(a - b) / (SIGMA * np.sqrt(n)) for (a, n), (b, _) in pairs])
    assert abs(z["after"].mean()) < 1
    assert z["after"].std() < z["before"].std()


def test_more_of_the_faint_stars_are_seen_at_the_same_false_alarms(field):
    clean, noisy, faint, _, p = field
    empty = maximum_filter(clean - SKY, 13) < 0.3 * SIGMA
    seen = []
    for image in (noisy, p.image):
        highest = maximum_filter(image, 3)
        alarm = np.quantile(highest[empty], 0.99)
        seen.append(np.mean([highest[round(y), round(x)] > alarm for x, y, _ in faint]))
    assert seen[1] > seen[0] + 0.05


def test_bright_pixels_are_as_they_were_with_the_sd_of_the_noise(field):
    _, noisy, _, _, p = field
    out = (noisy - p.encoding.zero) / p.unit > 2.0
    assert 5 < out.sum() < 0.05 * out.size
    np.testing.assert_allclose(p.image[out], noisy[out], rtol=1e-6)
    np.testing.assert_allclose(p.sd.numpy()[0][out], p.level, rtol=1e-5)


def test_pictures_under_strong_noise_have_no_such_places():
    x = torch.linspace(0, 1, 64).expand(1, 3, 64, 64)
    for sigma in (0.05, 0.3, 1.0):
        y = x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
        shown, hidden = without_outshining(y, None)
        assert shown is y
        assert hidden is None
