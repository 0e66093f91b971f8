"""Mixtures of dust and CMB whose truth is known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.cosmo.skies import Sky, draw_cmb
from gibbsdiff.data.maps import halve, read_snapshots
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, filtered, half_plane
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.streams import Streams

#: One snapshot, 2×2 means of its 256² maps: no model was trained on it. It was made by
#: `gibbsdiff cmb simulate --maps 6 --size 256 --mach 5 --seed 101 --coarse 2.5`.
SHIPPED = Path(__file__).parents[1] / "data" / "dust_demo.npz"
SHIPPED_SIDE = 128
SIMULATED = "dust of the package, simulated with seed 101"

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
    sky: Sky = "flat",
) -> Mixture:
    """dust (1, H, W) plus a CMB drawn at the truth (σ, H0, ω_b), on a sky of one kind.

    Without a `unit` the CMB has its true amplitude: the unit is √V_fid/σ, in µK.
    """
    phi = noise.check(torch.tensor([truth], dtype=torch.float64))
    shape = (dust.shape[-2], dust.shape[-1])
    cmb = draw_cmb(noise, shape, phi, Streams(seed, [(0, 1)]), sky)[0]
    if unit is None:
        unit = noise.fiducial_variance(shape) ** 0.5 / truth[0]
    return Mixture(dust + cmb, unit, dust, cmb, truth, source)


def held_out(path: str | Path, side: int, card: dict[str, Any]) -> tuple[Tensor, list[str]]:
    """Maps of a file that the model was not trained on, on the scale of its training maps:
    (n, 1, side, side), and what each of them is.

    Of the file that the model was trained on they are the test block; of a shorter one, all.
    """
    snapshots = read_snapshots(path)
    finest, slabs = snapshots.shape[-1], snapshots.shape[1]
    times = (finest // side).bit_length() - 1
    if finest != side << times:
        raise InputError(f"{path}: maps of side {finest} cannot be halved to {side}")
    first, last = card["config"]["data"]["blocks"]["test"]
    if last >= len(snapshots):
        first, last = 0, len(snapshots) - 1
    maps = halve(snapshots[first : last + 1].flatten(0, 1)[:, None], times)
    places = [(i, j) for i in range(first, last + 1) for j in range(slabs)]
    source = SIMULATED if Path(path) == SHIPPED else str(path)
    scale = card["maps"]
    names = [f"{source}, snapshot {i}, slab {j}" for i, j in places]
    return (maps - scale["mean"]) / scale["sd"], names


def dust_from_file(
    path: str | Path, side: int, card: dict[str, Any], seed: int = 0
) -> tuple[Tensor, str]:
    """One of the held-out maps of a file, by the seed: (1, side, side), and what it is."""
    maps, names = held_out(path, side, card)
    which = int(Streams(seed, [(0, 0)]).integers(0, len(maps) - 1))
    return maps[which], names[which]


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
    """Dust where no maps are given: the package's own at its side, elsewhere a stand-in, and a
    line that says which.
    """
    if side == SHIPPED_SIDE:
        return dust_from_file(SHIPPED, side, card, seed)
    level = card["maps"]["mean"] / card["maps"]["sd"]
    return lognormal(signal, (side, side), level, seed), LOGNORMAL
