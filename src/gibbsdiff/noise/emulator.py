"""CMB spectra as polynomials of the cosmology: CAMB, which fitted them, takes seconds for each."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from importlib.resources import as_file, files
from operator import mul
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.identity import digest_of

#: Parameters a spectrum may depend on: (value when not varied, LaTeX). Planck 2018, flat.
COSMOLOGY: Mapping[str, tuple[float, str]] = {
    "H0": (67.4, "H_0"),
    "omega_b": (0.0224, r"\omega_b"),
    "omega_c": (0.12, r"\omega_c"),
    "omega_k": (0.0, r"\Omega_K"),
    "tau": (0.0544, r"\tau"),
    "n_s": (0.9649, "n_s"),
    "ln_A_s": (3.044, r"\ln(10^{10} A_s)"),
    "m_nu": (0.08, r"m_\nu"),
}

KINDS = ("lensed", "unlensed")


@dataclass(frozen=True)
class Emulator:
    r"""ln C_ℓ = Σ_j W_j(ℓ) Π_i T_{e_ji}(x_i), with x the parameters scaled to [-1, 1].

    T_n are Chebyshev polynomials, `exponents` e is (J, d), `weights` W is (J, n) at the
    multipoles `ell` (n,), a cubic spline in between. C_ℓ is in µK².
    """

    names: tuple[str, ...]
    low: Tensor
    high: Tensor
    exponents: Tensor
    ell: Tensor
    weights: Tensor

    @property
    def fiducial(self) -> Tensor:
        """(d,) the Planck cosmology, moved into the box where it lies outside."""
        values = torch.tensor([COSMOLOGY[name][0] for name in self.names], dtype=torch.float64)
        return values.clamp(self.low, self.high)

    def terms(self, theta: Tensor) -> Tensor:
        """Π_i T_{e_ji}(x_i), differentiable: θ (..., d) -> (..., J)."""
        x = 2 * (theta - self.low) / (self.high - self.low) - 1
        return polynomials(x, self.exponents)

    def weights_at(self, ell: Tensor) -> Tensor:
        """W at any multipole: (M,) -> (J, M). Below the first, the first's."""
        return torch.from_numpy(self._spline(ell.clamp(min=float(self.ell[0])).numpy()))

    def digest(self) -> str | None:
        """A name that is the same for the same polynomials."""
        return digest_of(self)

    @cached_property
    def _spline(self) -> Any:
        from scipy.interpolate import CubicSpline  # slow to load

        return CubicSpline(self.ell.numpy(), self.weights.numpy(), axis=1)

    def log_spectrum(self, theta: Tensor, ell: Tensor) -> Tensor:
        """ln C_ℓ in ln µK²: θ (..., d), ℓ (M,) -> (..., M)."""
        return combined(self.terms(theta), self.weights_at(ell))


def polynomials(x: Tensor, exponents: Tensor) -> Tensor:
    """Π_i T_{e_ji}(x_i) by T_{n+1} = 2x T_n - T_{n-1}: (..., d) -> (..., J)."""
    T = [torch.ones_like(x), x]
    for _ in range(2, int(exponents.max()) + 1):
        T.append(2 * x * T[-1] - T[-2])
    table = torch.stack(T, -1)
    return reduce(mul, (table[..., i, e] for i, e in enumerate(exponents.T)))


def combined(terms: Tensor, weights: Tensor) -> Tensor:
    """terms @ weights, (..., J), (J, M) -> (..., M), each row by a product of its own.

    One product for all would round by the number of rows, and no chain may depend on the others.
    """
    rows = terms.reshape(-1, 1, terms.shape[-1])
    out = torch.bmm(rows, weights.expand(len(rows), -1, -1))
    return out.reshape(*terms.shape[:-1], weights.shape[-1])


def load_emulator(path: str | Path | None = None, lensed: bool = True) -> Emulator:
    """An emulator from its file; the shipped one if no path is given."""
    if path is None:
        with as_file(files(__package__) / "cmb_emulator.npz") as shipped:
            return load_emulator(shipped, lensed)
    kind = KINDS[0] if lensed else KINDS[1]
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {key: file[key] for key in ("names", "low", "high", "ell")}
            found |= {"weights": file[kind], "exponents": file[f"{kind}_exponents"]}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, AttributeError) as why:
        raise InputError(f"{path}: not an emulator of {kind} spectra ({why})") from None
    return _checked(found, str(path))


def _checked(found: Mapping[str, Any], path: str) -> Emulator:
    names = tuple(str(name) for name in found["names"])
    unknown = [name for name in names if name not in COSMOLOGY]
    if unknown:
        raise InputError(f"{path}: {unknown[0]} is not one of {', '.join(COSMOLOGY)}")
    terms, d = found["exponents"].shape
    numbers = {k: torch.from_numpy(v.astype(np.float64)) for k, v in found.items() if k != "names"}
    fits = found["weights"].shape == (terms, len(found["ell"])) and d == len(names)
    if not fits or not all(bool(v.isfinite().all()) for v in numbers.values()):
        raise InputError(f"{path}: the emulator's arrays do not fit together")
    numbers["exponents"] = numbers["exponents"].long()
    return Emulator(names, **numbers)
