"""Flat patches of sky in files: NPY and FITS, with units and coordinates."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from astropy.io import fits
from astropy.wcs import WCS
from numpy.typing import NDArray
from torch import Tensor

from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.io.fits import SUFFIXES, first_image

#: Temperatures in µK, by the unit's name without its suffix for the CMB's scale.
KELVIN = {"K": 1e6, "mK": 1e3, "uK": 1.0, "\u00b5K": 1.0, "\u03bcK": 1.0}

#: Pixels of a patch, arcminutes.
PIXEL = 8.0


def read_mixture(path: str | Path, dust_rms: float | None = None) -> Mixture:
    """A map as y, its mean subtracted: in µK divided by the dust's rms, or, for NPY without one,
    in units of it already.
    """
    path = Path(path)
    header, scale = None, 1.0
    if path.suffix.lower() in SUFFIXES:
        pixels, header = first_image(path)
        scale = _microkelvin(path, header)
        if dust_rms is None:
            raise InputError(f"{path}: a map in µK needs --dust-rms, the dust's rms in µK")
    else:
        pixels = _read_npy(path)
    if dust_rms is not None and not (np.isfinite(dust_rms) and dust_rms > 0):
        raise InputError(f"--dust-rms {dust_rms:g} is not an rms")
    pixels = np.squeeze(pixels)
    if pixels.ndim != 2 or pixels.shape[0] != pixels.shape[1]:
        size = "×".join(map(str, pixels.shape))
        raise InputError(f"{path}: a square map is needed, not {size} pixels")
    bad = int((~np.isfinite(pixels)).sum())
    if bad:
        every = "all" if bad == pixels.size else f"{bad} of {pixels.size}"
        raise InputError(f"{path}: {every} pixels are NaN or infinite; a whole map is needed")
    y = torch.from_numpy(pixels.astype(np.float64) * scale / (dust_rms or 1.0))
    if float(y.std()) == 0:
        raise InputError(f"{path}: all pixels are equal")
    return Mixture((y - y.mean()).float()[None], dust_rms or 1.0, source=str(path), header=header)


def _read_npy(path: Path) -> NDArray[Any]:
    try:
        pixels = np.load(path, allow_pickle=False)
    except OSError as trouble:
        raise InputError(f"{path}: {trouble.strerror or 'cannot be read'}") from None
    except (ValueError, EOFError):
        raise InputError(f"{path}: neither FITS nor NPY") from None
    if not isinstance(pixels, np.ndarray) or pixels.dtype.kind not in "fiu":
        raise InputError(f"{path}: not an array of real numbers")
    return pixels


def _microkelvin(path: Path, header: fits.Header) -> float:
    unit = str(header.get("BUNIT", "")).strip()
    if not unit:
        raise InputError(f"{path}: has no unit (BUNIT); K, mK or uK is expected")
    name = re.sub(r"[ _]?\(?(CMB|cmb|RJ|thermo)\)?$", "", unit)
    if name not in KELVIN:
        raise InputError(f"{path}: its unit is {unit!r}; K, mK or uK is expected")
    return KELVIN[name]


def flat_header(side: int, pixel: float = PIXEL) -> fits.Header:
    """Plate carrée around the equator's zero point: there, a flat grid of square pixels."""
    wcs = WCS(naxis=2)
    wcs.wcs.ctype = ["RA---CAR", "DEC--CAR"]
    wcs.wcs.crval = [0.0, 0.0]
    wcs.wcs.crpix = [(side + 1) / 2] * 2
    wcs.wcs.cdelt = [-pixel / 60, pixel / 60]
    wcs.wcs.cunit = ["deg", "deg"]
    return wcs.to_header()


def _coordinates(mixture: Mixture) -> fits.Header:
    """The input's own coordinates where it has any, or the flat ones."""
    if mixture.header is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wcs = WCS(mixture.header, naxis=2)
            if wcs.has_celestial:
                return wcs.to_header()
    return flat_header(mixture.shape[-1])


def write_maps(path: str | Path, mixture: Mixture, maps: Mapping[str, Tensor]) -> None:
    """One FITS file, an image for each name: the first is the primary one. Units: µK, or the
    dust's rms where that is not known.

    Maps are (1, H, W); several, (n, 1, H, W), make a cube.
    """
    hdus: list[Any] = []
    for name, values in maps.items():
        data = (values.double() * mixture.unit).squeeze(-3).numpy().astype(np.float32)
        header = _coordinates(mixture)
        if data.ndim == 3:
            header["WCSAXES"] = 3
            header["CTYPE3"], header["CRPIX3"] = "SAMPLE", 1.0
            header["CRVAL3"], header["CDELT3"] = 1.0, 1.0
        if mixture.unit != 1:
            header["BUNIT"] = "uK"
        else:
            header["COMMENT"] = "unit: the rms of the dust"
        hdu = fits.PrimaryHDU if not hdus else fits.ImageHDU
        hdus.append(hdu(data, header))
        hdus[-1].header["EXTNAME"] = name.upper()
    buffer = io.BytesIO()
    fits.HDUList(hdus).writeto(buffer)
    write_atomically(path, buffer.getvalue())
