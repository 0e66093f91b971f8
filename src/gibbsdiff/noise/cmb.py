"""The cosmic microwave background as noise, whose spectrum depends on the cosmology."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, Wavevectors, half_plane
from gibbsdiff.noise.base import LogDensity, Range
from gibbsdiff.noise.emulator import COSMOLOGY, combined, load_emulator
from gibbsdiff.noise.families import positive, redraw_sigma
from gibbsdiff.noise.parameter import Parameter
from gibbsdiff.noise.stationary import StationaryNoise, Statistic
from gibbsdiff.streams import Streams

ARCMIN = math.pi / (180 * 60)


class CMBNoise(StationaryNoise):
    r"""N = σ² C_ℓ(φ) b_ℓ² / (Δ² V_fid) + n² on a periodic flat-sky grid of pixels Δ.

    ℓ = 2π|k|/Δ, and the zero mode has the spectrum of the fundamental one, |k| = 1/max(H, W).
    V_fid = mean of C_ℓ(fiducial)/Δ² over all H·W modes is the variance of a pixel for the
    Planck cosmology (H0 = 67.4, ω_b = 0.0224) on this very grid, before the beam. It does not
    change with φ, so a map of the fiducial cosmology has the standard deviation σ, and the
    amplitude of the spectrum informs on H0 and ω_b too. b_ℓ² = exp(-ℓ(ℓ+1) s²) is a Gaussian
    beam of full width at half maximum `beam` = √(8 ln 2) s; there is no pixel window.

    `pixel` and `beam` are in arcminutes; `white`, n, is the standard deviation of white noise
    in the units of σ. The parameters are sigma and those of the emulator: H0 and omega_b for
    the shipped one (ℓ ≤ 2000, the other parameters Planck's), or those of a file made by
    `gibbsdiff cmb emulator`.
    """

    def __init__(
        self,
        pixel: float = 8.0,
        lensed: bool = True,
        beam: float = 0.0,
        white: float = 0.0,
        sigma: Range = (0.05, 1.2),
        emulator: str | Path | None = None,
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        positive("sigma", sigma)
        for name, value in {"pixel": pixel, "beam": beam, "white": white}.items():
            if not (math.isfinite(value) and value >= 0 and (value > 0 or name != "pixel")):
                raise InputError(f"CMBNoise: {name} = {value:g} is not a size")
        self.emulator = load_emulator(emulator, lensed)
        self.pixel, self.lensed, self.beam, self.white = pixel, lensed, beam, white
        highest, reach = math.sqrt(2) * math.pi / (pixel * ARCMIN), float(self.emulator.ell[-1])
        if highest > reach:
            raise InputError(
                f"CMBNoise: pixels of {pixel:g} arcmin have modes up to multipole "
                f"{highest:.0f}, the emulator up to {reach:.0f}"
            )
        # With white noise, σ does more than scale N: the whole of φ is its shape.
        self.amplitude = "" if white else "sigma"
        box = zip(self.emulator.low.tolist(), self.emulator.high.tolist(), strict=True)
        cosmology = [
            Parameter(name, low, high, COSMOLOGY[name][1])
            for name, (low, high) in zip(self.emulator.names, box, strict=True)
        ]
        self._variance: dict[Shape, float] = {}
        self._cache: WeakKeyDictionary[Wavevectors, tuple[Tensor, Tensor]] = WeakKeyDictionary()
        super().__init__((Parameter("sigma", *sigma, r"\sigma"), *cosmology), prior, digest)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k != "_cache"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _cache=WeakKeyDictionary())

    @property
    def beam_width(self) -> float:
        """The beam's s, radians."""
        return self.beam * ARCMIN / math.sqrt(8 * math.log(2))

    def multipole(self, k: Wavevectors) -> Tensor:
        """ℓ = 2π|k|/Δ: (M,). The zero mode takes the fundamental's."""
        cycles = torch.where(k.k > 0, k.k, 1 / max(k.shape))
        return 2 * math.pi * cycles / (self.pixel * ARCMIN)

    def fiducial_variance(self, shape: Shape) -> float:
        """V_fid in µK²: the variance of a pixel at the fiducial cosmology, before the beam."""
        if shape not in self._variance:
            k = half_plane(shape)
            log_c = self.emulator.log_spectrum(self.emulator.fiducial, self.multipole(k))
            self._variance[shape] = float(k.mean(torch.exp(log_c))) / (self.pixel * ARCMIN) ** 2
        return self._variance[shape]

    def log_power(self, k: Wavevectors, phi: Tensor) -> Tensor:
        """log[σ² C_ℓ b_ℓ²/(Δ² V_fid) + n²]."""
        weights, offset = self._at(k)
        log_n = 2 * torch.log(phi[..., :1]) + offset
        log_n = log_n + combined(self.emulator.terms(phi[..., 1:]), weights)
        if self.white:
            log_n = torch.logaddexp(log_n, torch.full_like(log_n, 2 * math.log(self.white)))
        return log_n

    def redraw_amplitude(self, phi: Tensor, statistic: Statistic, rng: Streams) -> Tensor:
        """σ from p(σ | H0, ω_b, ε), exactly; with white noise there is no closed form."""
        if self.white:
            return super().redraw_amplitude(phi, statistic, rng)
        return redraw_sigma(self, phi, statistic, rng)

    def _made_of(self) -> tuple[Any, ...]:
        return self.pixel, self.beam, self.white, self.emulator.digest()

    def _at(self, k: Wavevectors) -> tuple[Tensor, Tensor]:
        """What does not depend on φ, once per set of modes: W(ℓ) and log[b_ℓ²/(Δ² V_fid)]."""
        if k not in self._cache:
            ell = self.multipole(k)
            scale = (self.pixel * ARCMIN) ** 2 * self.fiducial_variance(k.shape)
            offset = -ell * (ell + 1) * self.beam_width**2 - math.log(scale)
            self._cache[k] = (self.emulator.weights_at(ell), offset)
        return self._cache[k]
