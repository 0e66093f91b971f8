"""Fit the emulator of CMB spectra, and measure its error where it was not fitted."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.cosmo.spectra import Spectra
from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.emulator import KINDS, Emulator, polynomials

#: ln C_ℓ is kept at every multipole up to DENSE and at every STEP-th above, where a cubic
#: spline through them is good to 1e-5.
DENSE, STEP = 40, 10

#: With more terms than this, one asks for fewer degrees.
MOST_TERMS = 300


class HeldOut(NamedTuple):
    """Relative error of C_ℓ over all held-out spectra and all ℓ ≥ 2."""

    max: float
    rms: float


def default_degree(dimension: int) -> int:
    """10, or less where that would need more than MOST_TERMS terms."""
    return next(n for n in range(10, 0, -1) if math.comb(n + dimension, dimension) <= MOST_TERMS)


def exponents(dimension: int, degree: int) -> Tensor:
    """All e with Σ_i e_i ≤ degree: (J, d)."""
    every = product(range(degree + 1), repeat=dimension)
    return torch.tensor([e for e in every if sum(e) <= degree])


def kind_degree(kind: str, degree: int) -> int:
    """Peaks that lensing has not smoothed need one degree more for the same error."""
    return degree + (kind == "unlensed")


def knots(lmax: int) -> Tensor:
    """Multipoles at which an emulator keeps its weights."""
    dense = torch.arange(2, min(DENSE, lmax))
    sparse = torch.arange(DENSE, lmax, STEP)
    return torch.cat([dense, sparse, torch.tensor([lmax])])


def fit(spectra: Spectra, kind: str = "lensed", degree: int | None = None) -> Emulator:
    """Least squares of ln C_ℓ on the Chebyshev terms, over the spectra that are not held out."""
    d = len(spectra.names)
    e = exponents(d, kind_degree(kind, degree or default_degree(d)))
    low, high = torch.from_numpy(spectra.low), torch.from_numpy(spectra.high)
    rows = ~spectra.is_test
    if len(spectra.missing):
        raise InputError(f"{len(spectra.missing)} spectra are still missing")
    if rows.sum() < len(e):
        raise InputError(f"{rows.sum()} spectra do not determine {len(e)} terms: fewer degrees")
    C = spectra.lensed if kind == "lensed" else spectra.unlensed
    ell = knots(C.shape[1] - 1)
    log_c = torch.from_numpy(np.log(C[rows][:, ell.numpy()].astype(np.float64)))
    x = 2 * (torch.from_numpy(spectra.params[rows]) - low) / (high - low) - 1
    W = torch.linalg.lstsq(polynomials(x, e), log_c, driver="gelsd").solution
    return Emulator(spectra.names, low, high, e, ell.double(), W.float().double())


def held_out_error(emulator: Emulator, spectra: Spectra, kind: str = "lensed") -> HeldOut:
    """How far the emulator is from the spectra that it has not seen."""
    if not spectra.is_test.any():
        raise InputError("no spectra are held out")
    C = (spectra.lensed if kind == "lensed" else spectra.unlensed)[spectra.is_test, 2:]
    theta = torch.from_numpy(spectra.params[spectra.is_test])
    ell = torch.arange(2, C.shape[1] + 2, dtype=torch.float64)
    truth = torch.from_numpy(np.log(C.astype(np.float64)))
    error = torch.expm1(emulator.log_spectrum(theta, ell) - truth)
    return HeldOut(float(error.abs().max()), float(error.square().mean().sqrt()))


def save_emulator(path: str | Path, emulators: Mapping[str, Emulator]) -> None:
    """Write the lensed and the unlensed emulator into one npz, weights in float32."""
    one = emulators[KINDS[0]]
    arrays: dict[str, Any] = {
        "names": np.array(one.names),
        "low": one.low.numpy(),
        "high": one.high.numpy(),
    }
    arrays["ell"] = one.ell.numpy().astype(np.int16)
    for kind in KINDS:
        arrays[f"{kind}_exponents"] = emulators[kind].exponents.numpy().astype(np.int8)
        arrays[kind] = emulators[kind].weights.numpy().astype(np.float32)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_atomically(path, buffer.getvalue())
