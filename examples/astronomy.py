"""Stars and a galaxy on a noisy sky, with and without a weight map, found blind and measured.

A sky of 900 counts with white noise of 20 counts, faint stars near the limit, bright ones whose
peaks are tens of thousands of counts, and a Sérsic galaxy: models of astropy, apertures of
photutils (`pip install photutils`). Both pictures are FITS files that are denoised as the command
does; the second has corners that are ten times noisier, and a map of inverse variance beside it.

    python examples/astronomy.py [figure.jpg]
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from astropy.io import fits
from astropy.modeling.models import Moffat2D, Sersic2D
from matplotlib.figure import Figure
from photutils.aperture import CircularAperture, aperture_photometry
from scipy.ndimage import maximum_filter

from gibbsdiff import Posterior
from gibbsdiff.inference.files import denoise_picture
from gibbsdiff.io.picture import read_picture

SIDE, SKY, SIGMA = 192, 900.0, 20.0
FWHM, BETA, RADIUS = 3.0, 3.5, 4.0
FAINT, BRIGHT = 80, 5
GALAXY = (130.0, 60.0)  # x, y


def scene() -> tuple[np.ndarray, np.ndarray]:
    """The clean picture and its stars (x, y, flux)."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    width = FWHM / (2 * np.sqrt(2 ** (1 / BETA) - 1))
    stars = [(*rng.uniform(8, SIDE - 8, 2), 10 ** rng.uniform(2.3, 3.6)) for _ in range(FAINT)]
    stars += [(*rng.uniform(16, SIDE - 16, 2), 10 ** rng.uniform(5, 6)) for _ in range(BRIGHT)]
    clean = np.full((SIDE, SIDE), SKY)
    for x, y, flux in stars:
        peak = flux * (BETA - 1) / (np.pi * width**2)
        clean += Moffat2D(peak, x, y, width, BETA)(columns, rows)
    clean += Sersic2D(150.0, 18.0, 1.5, *GALAXY, 0.4, 0.7)(columns, rows)
    return clean, np.array(stars)


def denoised(noisy: np.ndarray, weight: np.ndarray | None, folder: Path) -> Posterior:
    """The file, and the weights beside it, as `gibbsdiff denoise sky.fits` takes them."""
    name = "sky" if weight is None else "weighted"
    fits.PrimaryHDU(noisy.astype(np.float32)).writeto(folder / f"{name}.fits")
    if weight is not None:
        fits.PrimaryHDU(weight.astype(np.float32)).writeto(folder / f"{name}.weight.fits")
    return denoise_picture(read_picture(folder / f"{name}.fits"), noise="auto")


def flux(image: np.ndarray, x: float, y: float, radius: float) -> float:
    """What is in a circle, less the sky's mean that was put in."""
    (found,) = aperture_photometry(image - SKY, CircularAperture((x, y), radius))["aperture_sum"]
    return float(found)


def measure(
    clean: np.ndarray, stars: np.ndarray, images: dict[str, np.ndarray], quiet: np.ndarray
) -> None:
    """Photometry, completeness at 1 % of false alarms, and the scatter on empty sky, where the
    noise is that of the sky alone.
    """
    stars = np.array([s for s in stars if quiet[round(s[1]), round(s[0])]])
    apertures = CircularAperture(stars[:, :2], RADIUS)
    true = np.asarray(aperture_photometry(clean, apertures)["aperture_sum"])
    bright = stars[:, 2] > 1e4
    error = SIGMA * np.sqrt(np.pi) * RADIUS
    empty = quiet & (maximum_filter(clean - SKY, 13) < 0.3 * SIGMA)
    for name, image in images.items():
        off = np.asarray(aperture_photometry(image, apertures)["aperture_sum"]) - true
        highest = maximum_filter(image, 3)
        alarm = np.quantile(highest[empty], 0.99)
        seen = [highest[round(y), round(x)] > alarm for x, y, _ in stars[~bright]]
        galaxy = flux(image, *GALAXY, 30.0) / flux(clean, *GALAXY, 30.0) - 1
        print(
            f"  {name}: rms {np.sqrt(np.mean((image - clean)[quiet] ** 2)):.2f}, empty sky "
            f"{np.std((image - clean)[empty]):.2f}; faint stars "
            f"{np.mean(off[~bright]) / error:+.2f} ± {np.std(off[~bright]) / error:.2f} sigma, "
            f"bright ones within {100 * np.max(np.abs(off[bright]) / stars[bright, 2]):.2f} %; "
            f"galaxy {100 * galaxy:+.2f} %; complete {100 * np.mean(seen):.0f} %"
        )


def main(path: str) -> None:
    """Both skies, as rows of one figure."""
    clean, stars = scene()
    white = np.random.default_rng(1).normal(size=clean.shape)
    rows, columns = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    corners = np.where(np.hypot(rows, columns) > 0.575 * SIDE, 10.0, 1.0)
    page = Figure(figsize=(10.0, 6.9), dpi=110, layout="constrained")
    axes = page.subplots(2, 3)
    with tempfile.TemporaryDirectory() as name:
        for row, level, weight in zip(
            axes, (1.0, corners), (None, (3 * corners) ** -2.0), strict=True
        ):
            noisy = clean + SIGMA * level * white
            p = denoised(noisy, weight, Path(name))
            print(p.summary())
            rms = SIGMA * np.sqrt(np.mean(np.square(level)))
            found = [f"{p.unit * q.level:.2f}" for q in (p, p.simpler) if q is not None]
            print(f"level found {', by the simpler noise '.join(found)}, put in {rms:.2f}")
            quiet = np.broadcast_to(level == 1, clean.shape)
            measure(clean, stars, {"noisy": noisy, "denoised": p.image}, quiet)
            if weight is not None:
                for part, where in (("corners", corners > 1), ("elsewhere", corners == 1)):
                    rest = where & (clean < SKY + 20 * SIGMA)
                    before, after = (np.std((z - clean)[rest]) for z in (noisy, p.image))
                    print(f"  {part}: rms {before:.1f} before, {after:.1f} after")
            for axis, image, title in zip(
                row, (noisy, p.image, clean), ("noisy", "found blind", "truth"), strict=True
            ):
                axis.imshow(image, vmin=SKY - 60, vmax=SKY + 260, cmap="gray", origin="lower")
                axis.set_title(title, fontsize=9)
                axis.set_axis_off()
    page.savefig(path, pil_kwargs={"quality": 85})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "astronomy.jpg")
