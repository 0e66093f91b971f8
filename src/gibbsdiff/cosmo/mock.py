"""Mixtures of dust and CMB whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import InputError
from gibbsdiff.data.maps import halve, read_snapshots
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.fourier import Shape, filtered, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams

LOGNORMAL = "a lognormal field with the mean, sd and spectrum of the training maps, not dust"


@dataclass(frozen=True)
class Mixture:
    """y = dust + CMB, (1, H, W) each, in units of the dust's sd; `unit` is that sd in µK."""

    y: Tensor
    unit: float
    dust: Tensor | None = None
    cmb: Tensor | None = None
    truth: tuple[float, ...] | None = None
    source: str = ""
    header: Any = None

    @property
    def shape(self) -> Shape:
        """H and W."""
        return (self.y.shape[-2], self.y.shape[-1])


def mock(
    truth: tuple[float, float, float],
    dust: Tensor,
    noise: CMBNoise,
    seed: int = 0,
    *,
    unit: float | None = None,
    source: str = "",
) -> Mixture:
    """dust (1, H, W) plus a CMB drawn at the truth (σ, H0, ω_b).

    Without a `unit` the CMB has its true amplitude: the unit is √V_fid/σ, in µK.
    """
    phi = noise.check(torch.tensor([truth], dtype=torch.float64))
    shape = (dust.shape[-2], dust.shape[-1])
    cmb = noise.draw(shape, phi, Streams(seed, [(0, 1)]), dtype=torch.float32)[0]
    if unit is None:
        unit = noise.fiducial_variance(shape) ** 0.5 / truth[0]
    return Mixture(dust + cmb, unit, dust, cmb, truth, source)


def dust_from_file(
    path: str | Path, side: int, card: dict[str, Any], seed: int = 0
) -> tuple[Tensor, str]:
    """A map of a file, by the seed, on the scale of the model's training maps: (1, side, side).

    Of the file that the model was trained on it is a map of the test block.
    """
    snapshots = read_snapshots(path)
    finest = snapshots.shape[-1]
    times = (finest // side).bit_length() - 1
    if finest != side << times:
        raise InputError(f"{path}: maps of side {finest} cannot be halved to {side}")
    first, last = card["config"]["data"]["blocks"]["test"]
    if last >= len(snapshots):
        first, last = 0, len(snapshots) - 1
    which = Streams(seed, [(0, 0)])
    snapshot, slab = (
        int(which.integers(first, last)),
        int(which.integers(0, snapshots.shape[1] - 1)),
    )
    x = halve(snapshots[snapshot, slab][None, None], times)[0]
    scale = card["maps"]
    return (x - scale["mean"]) / scale["sd"], f"{path}, snapshot {snapshot}, slab {slab}"


def lognormal(signal: Signal, shape: Shape, level: float, seed: int = 0) -> Tensor:
    """level (e^{g - s²/2} - 1) with a Gaussian g such that the spectrum is S_x: (1, H, W).

    The covariances obey ξ_x = level² (e^{ξ_g} - 1); what of ξ_g's spectrum comes out negative
    is set to zero. `level` is the mean of the positive field over its sd.
    """
    S_x = signal.power(shape)[0, 0]
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    delta = zero.clone()
    delta[..., 0, 0] = 1
    xi = filtered(delta, S_x)
    spectrum = torch.fft.rfft2(torch.log1p((xi / level**2).clamp(min=-0.99))).real.clamp(min=0)
    variance = float(half_plane(shape).mean(spectrum.flatten(1)))
    white = Streams(seed, [(0, 0)]).normal(*shape)
    g = filtered(white, spectrum.sqrt())
    return (level * torch.expm1(g - variance / 2)).float()


def dust_like(signal: Signal, side: int, card: dict[str, Any], seed: int) -> tuple[Tensor, str]:
    """A stand-in for dust where there are no maps, and a line that says so."""
    level = card["maps"]["mean"] / card["maps"]["sd"]
    return lognormal(signal, (side, side), level, seed), LOGNORMAL
