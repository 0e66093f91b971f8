"""CMB spectra from CAMB: a design over a box of cosmologies, computed once and kept in a file."""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.emulator import COSMOLOGY

Box = Mapping[str, tuple[float, float]]

#: The paper's prior range of the cosmology.
PRIOR: Box = {"H0": (50.0, 90.0), "omega_b": (0.0075, 0.0567)}

LMAX = 2000
#: CAMB's lensed spectra are wrong near their last multipole; so many beyond ours are computed.
MARGIN = 500
SAVE_EVERY = 8

#: CAMB's names of our parameters.
CAMB_NAMES = {
    "H0": "H0",
    "omega_b": "ombh2",
    "omega_c": "omch2",
    "omega_k": "omk",
    "tau": "tau",
    "n_s": "ns",
    "ln_A_s": "As",
    "m_nu": "mnu",
}


@dataclass(frozen=True)
class Spectra:
    """Raw C_ℓ in µK² for ℓ = 0..lmax, (n, lmax+1), of n cosmologies `params` (n, d).

    A row of NaN is not computed yet; `is_test` marks the cosmologies kept out of the fit.
    """

    names: tuple[str, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    params: NDArray[np.float64]
    is_test: NDArray[np.bool_]
    lensed: NDArray[np.float32]
    unlensed: NDArray[np.float32]

    @property
    def missing(self) -> NDArray[np.intp]:
        """Rows that are not computed yet."""
        return np.flatnonzero(np.isnan(self.lensed[:, 0]))


def design(box: Box, fitted: int, held_out: int, lmax: int = LMAX, seed: int = 0) -> Spectra:
    """Cosmologies to compute: arcsine-distributed for the fit, which suits polynomials, and uniform
    for its test.
    """
    for name, (low, high) in box.items():
        if name not in COSMOLOGY:
            raise InputError(f"parameter {name} is not one of {', '.join(COSMOLOGY)}")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InputError(f"parameter {name}: needs low < high, not [{low:g}, {high:g}]")
    low, high = np.array([*box.values()], dtype=np.float64).T
    u = qmc.Halton(len(box), seed=np.random.default_rng(seed)).random(fitted + held_out)
    is_test = np.arange(fitted + held_out) >= fitted
    u[:fitted] = (1 - np.cos(np.pi * u[:fitted])) / 2
    empty = np.full((len(u), lmax + 1), np.nan, dtype=np.float32)
    return Spectra(tuple(box), low, high, low + u * (high - low), is_test, empty, empty.copy())


def camb_spectrum(
    cosmology: Mapping[str, float], lmax: int = LMAX, threads: int = 0
) -> NDArray[np.float64]:
    """Lensed and unlensed C_ℓ^TT from CAMB, raw, in µK²: (2, lmax+1)."""
    try:
        import camb
    except ImportError:
        raise InputError("CAMB is not installed: pip install 'gibbsdiff[cosmo]'") from None
    camb.config.ThreadNum = threads  # 0: as many as there are
    values = {name: value for name, (value, _) in COSMOLOGY.items()} | dict(cosmology)
    values["ln_A_s"] = math.exp(values["ln_A_s"]) / 1e10
    settings = {CAMB_NAMES[name]: value for name, value in values.items()}
    try:
        p = camb.set_params(lmax=lmax + MARGIN, lens_potential_accuracy=1, **settings)
        found = camb.get_results(p).get_cmb_power_spectra(p, CMB_unit="muK", raw_cl=True)
    except camb.CAMBError as trouble:
        at = ", ".join(f"{name} = {value:g}" for name, value in cosmology.items())
        raise InputError(f"CAMB has no spectrum at {at} ({trouble})") from None
    return np.stack([found[kind][: lmax + 1, 0] for kind in ("total", "unlensed_total")])


def compute(
    spectra: Spectra, path: Path, workers: int = 1, tick: Callable[[int], None] = lambda _: None
) -> Spectra:
    """The design with its spectra. `path` keeps what is done, and a second call goes on there.

    `tick` is called with the number of spectra that are ready.
    """
    if path.exists():
        begun = read_spectra(path)
        if begun.names != spectra.names or not np.array_equal(begun.params, spectra.params):
            raise InputError(f"{path}: holds spectra of another design; move it away")
        spectra = begun
    spectra = replace(spectra, lensed=spectra.lensed.copy(), unlensed=spectra.unlensed.copy())
    todo, ready = spectra.missing, len(spectra.params) - len(spectra.missing)
    tick(ready)
    jobs = [dict(zip(spectra.names, spectra.params[i].tolist(), strict=True)) for i in todo]
    done = 0
    try:
        for job, c in _results(jobs, spectra.lensed.shape[1] - 1, workers):
            spectra.lensed[todo[job]], spectra.unlensed[todo[job]] = c
            done += 1
            if done % SAVE_EVERY == 0:
                save_spectra(spectra, path)
            tick(ready + done)
    finally:
        if done:
            save_spectra(spectra, path)
    return spectra


def _results(
    jobs: Sequence[Mapping[str, float]], lmax: int, workers: int
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """(job, spectrum), in the order in which they come."""
    if workers <= 1:
        for i, job in enumerate(jobs):
            yield i, camb_spectrum(job, lmax, threads=1)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _one_thread) as pool:
        futures = {pool.submit(camb_spectrum, job, lmax, 1): i for i, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"


def save_spectra(spectra: Spectra, path: str | Path) -> None:
    """Write spectra as npz, in one move."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        names=np.array(spectra.names),
        low=spectra.low,
        high=spectra.high,
        params=spectra.params,
        is_test=spectra.is_test,
        ell=np.arange(spectra.lensed.shape[1]),
        C_ell=spectra.lensed,
        C_ell_unlensed=spectra.unlensed,
    )
    write_atomically(path, buffer.getvalue())


def read_spectra(path: str | Path) -> Spectra:
    """Spectra from npz. A file without names and ranges is over (H0, ω_b) in the paper's box."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found: dict[str, Any] = {key: file[key] for key in file.files}
        names = tuple(str(n) for n in found.get("names", [*PRIOR]))
        box = np.array([*PRIOR.values()]).T
        low, high = found.get("low", box[0]), found.get("high", box[1])
        params, is_test = found["params"], found["is_test"].astype(bool)
        lensed, unlensed = found["C_ell"], found["C_ell_unlensed"]
        in_order = np.array_equal(found["ell"], np.arange(lensed.shape[-1]))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as why:
        raise InputError(f"{path}: not a file of spectra ({why})") from None
    shape = (len(params), lensed.shape[-1])
    fits = params.shape == (len(is_test), len(names)) and len(low) == len(high) == len(names)
    if not (in_order and fits and lensed.shape == shape and unlensed.shape == shape):
        raise InputError(f"{path}: the arrays of spectra do not fit together")
    return Spectra(names, low, high, params, is_test, lensed, unlensed)
