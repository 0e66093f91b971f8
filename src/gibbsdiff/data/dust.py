"""Dust maps from our own simulation: driven isothermal turbulence, seen as column densities."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.streams import Streams

#: Forcing lives at 1 ≤ |k| ≤ LARGEST cycles per box, strongest in the middle.
LARGEST = 3

#: The forcing field changes this often, in turnovers, and maps are taken this far apart.
REFRESH, APART = 0.05, 0.5

#: rms acceleration over Mach²: this much keeps the gas at its Mach number.
STRENGTH = 3.0

#: From rest, turbulence needs this many turnovers to forget how it began.
SETTLE = 3.0


class Forcing:
    """A Gaussian acceleration field that forgets itself in one turnover T (Ornstein-Uhlenbeck).

    Modes 1 ≤ |k| ≤ 3 weighted by a parabola around 2; `solenoidal` ζ weighs the divergence-free
    part and 1 - ζ the compressive one. `strength` is the rms acceleration. Update j draws from
    the stream keyed (j,), so a simulation goes on from its state and the number of updates.
    """

    def __init__(
        self, size: int, strength: float, turnover: float, seed: int, solenoidal: float = 0.5
    ) -> None:
        n = np.arange(-LARGEST, LARGEST + 1)
        k = np.stack(np.meshgrid(n, n, n, indexing="ij"), -1).reshape(-1, 3)
        length = np.linalg.norm(k, axis=1)
        weight = np.clip(1 - ((length - 2) / 1.001) ** 2, 0, None) * (length > 0)
        self.used = weight > 0
        self.k = k[self.used] / length[self.used, None]
        self.weight = np.sqrt(weight[self.used])[:, None]
        self.seed, self.turnover, self.solenoidal = seed, turnover, solenoidal
        # E|a|² = Σ w² (2ζ² + (1-ζ)²): two directions across k, one along it.
        power = (self.weight**2).sum() * (2 * solenoidal**2 + (1 - solenoidal) ** 2)
        self.scale = strength / math.sqrt(power)
        phase = np.exp(2j * np.pi * n[:, None] * np.arange(size) / size)
        self.waves = phase.astype(np.complex64)
        self.updates = 0
        self.modes = np.zeros((len(self.k), 3), dtype=np.complex128)
        self.advance(math.inf)

    def advance(self, dt: float) -> None:
        """c ← f c + √(1-f²) noise, f = exp(-dt/T): exact for any dt."""
        draw = Streams(self.seed, [(self.updates,)]).normal(len(self.k), 3, 2)[0].numpy()
        f = math.exp(-dt / self.turnover)
        noise = self.weight * (draw[..., 0] + 1j * draw[..., 1])
        self.modes = f * self.modes + math.sqrt(1 - f * f) * noise
        self.updates += 1

    def field(self) -> NDArray[np.float32]:
        """a(x) = Re Σ_k [ζ c + (1 - 2ζ) k̂ (k̂·c)] e^{2πi k·x}: (3, n, n, n)."""
        along = (self.modes * self.k).sum(1, keepdims=True) * self.k
        zeta = self.solenoidal
        side = 2 * LARGEST + 1
        c = np.zeros((3, side**3), dtype=np.complex64)
        c[:, self.used] = self.scale * (zeta * self.modes + (1 - 2 * zeta) * along).T
        partly = np.einsum("cijl,ix,jy->cxyl", c.reshape(3, side, side, side), *2 * [self.waves])
        real = np.concatenate([partly.real, -partly.imag], -1)
        return real @ np.concatenate([self.waves.real, self.waves.imag])


class Turbulence:
    """Driven isothermal gas in a periodic box of side 1: sound speed 1, mean density 1.

    T = 1/(2 Mach) is a turnover: half a box at the rms speed. The forcing has the rms
    acceleration 3 Mach², which keeps the rms speed near Mach (in small boxes, within a fifth).
    """

    def __init__(
        self,
        size: int = 256,
        mach: float = 5.0,
        seed: int = 0,
        solenoidal: float = 0.5,
        cfl: float = 0.7,
    ) -> None:
        if size < 8 or size % 2:
            raise InputError(f"size: {size} cells; the box needs an even number of at least 8")
        if not (math.isfinite(mach) and mach > 0):
            raise InputError(f"mach: {mach:g} is not a speed")
        self.size, self.mach, self.cfl = size, mach, cfl
        self.turnover = 1 / (2 * mach)
        self.state = np.zeros((4, size, size, size), dtype=np.float32)
        self.state[0] = 1
        self.forcing = Forcing(size, STRENGTH * mach**2, self.turnover, seed, solenoidal)
        self.acceleration = self.forcing.field()
        self.time = self.refreshed = self.fastest = 0.0
        self.steps = 0

    def step(self) -> None:
        """One step: the gas along three axes, in alternating order, then the forcing."""
        gas = kernels()
        # The margin is for the speed that this step's kick may add.
        ratio = self.cfl / (max(self.fastest, 0.5) + 1 + 0.1 * self.mach)
        dt = ratio / self.size
        if self.time - self.refreshed > REFRESH * self.turnover:
            self._refresh()
        for axis in (2, 1, 0) if self.steps % 2 else (0, 1, 2):
            gas.sweep(self.state, axis, ratio)
        self.fastest = float(gas.kick(self.state, self.acceleration, np.float32(dt)))
        self.time += dt
        self.steps += 1

    def run(self, turnovers: float) -> None:
        """Step until so many turnovers have passed since the start."""
        while self.time < turnovers * self.turnover:
            self.step()
        if not np.isfinite(self.fastest):
            raise ArithmeticError(f"the simulation broke down at step {self.steps}")

    def _refresh(self) -> None:
        self.forcing.advance(self.time - self.refreshed)
        self.acceleration = self.forcing.field()
        self.refreshed = self.time
        # Forcing does not push the box as a whole, but dense gas gets more of it than thin gas.
        drift = self.state[1:].mean((1, 2, 3), dtype=np.float64).astype(np.float32)
        self.state[1:] -= drift[:, None, None, None] * self.state[0]

    @property
    def rms_mach(self) -> float:
        """√ of the mean of |u|² over the volume."""
        squares = ((m / self.state[0]) ** 2 for m in self.state[1:])
        return math.sqrt(sum(float(s.mean(dtype=np.float64)) for s in squares))

    def column_density(self) -> NDArray[np.float32]:
        """Mean density along the line of sight through each half of the box: (6, n, n).

        Two halves along each of three axes.
        """
        half = self.size // 2
        maps = [
            np.moveaxis(self.state[0], axis, 0)[part].mean(0, dtype=np.float64)
            for axis in range(3)
            for part in (slice(half), slice(half, None))
        ]
        return np.stack(maps).astype(np.float32)

    def refined(self) -> Turbulence:
        """The same gas on a grid twice as fine. A cell becomes eight equal ones; what is smaller
        grows anew within the turnover of that scale, about a third of the box's.
        """
        f = self.forcing
        fine = Turbulence(2 * self.size, self.mach, f.seed, f.solenoidal, self.cfl)
        state = self.state.repeat(2, 1).repeat(2, 2).repeat(2, 3)
        fine.resume({**self.checkpoint(), "state": state})
        return fine

    def checkpoint(self) -> dict[str, Any]:
        """All that `resume` needs."""
        return {
            "state": self.state,
            "modes": self.forcing.modes,
            "counts": np.array([self.steps, self.forcing.updates]),
            "clocks": np.array([self.time, self.refreshed, self.fastest]),
        }

    def resume(self, saved: dict[str, Any]) -> None:
        """Go on from a checkpoint, bit by bit."""
        self.state, self.forcing.modes = saved["state"], saved["modes"]
        self.steps, self.forcing.updates = (int(n) for n in saved["counts"])
        self.time, self.refreshed, self.fastest = (float(t) for t in saved["clocks"])
        self.acceleration = self.forcing.field()


def kernels() -> ModuleType:
    """The compiled part; one clear line if numba is not there."""
    try:
        from gibbsdiff.data import hydro
    except ImportError:
        raise InputError("numba is not installed: pip install 'gibbsdiff[cosmo]'") from None
    return hydro


def simulate(
    path: Path,
    maps: int,
    size: int = 256,
    mach: float = 5.0,
    seed: int = 0,
    tick: Callable[[int], None] = lambda _: None,
    coarse: float = 0.0,
) -> None:
    """At least `maps` dust maps into an npz: maps (snapshots, 6, n, n), times, mach.

    Snapshots are half a turnover apart; `times` are in turnovers, `mach` is the rms Mach number
    of each. The six maps of a snapshot show the same gas: split them by time, never by map.
    A checkpoint beside the file is written after each snapshot and removed at the end; `tick`
    is called with the number of maps that are ready. The first `coarse` turnovers are run on a grid
    half as fine, at a sixteenth of the cost.
    """
    if not 0 <= coarse < SETTLE:
        raise InputError(f"coarse: {coarse:g} turnovers; the gas settles in {SETTLE:g}")
    box = Turbulence(size, mach, seed)
    snapshots = -(-maps // 6)
    kept = path.with_name(path.name.removesuffix(".npz") + ".checkpoint.npz")
    settings = np.array([size, mach, seed, coarse], dtype=np.float64)
    done: dict[str, list[Any]] = {"maps": [], "times": [], "mach": []}
    if kept.exists():
        saved = _load(kept)
        if not np.array_equal(saved.get("settings", ()), settings):
            raise InputError(f"{kept}: is of another simulation; move it away")
        box.resume(saved)
        done = {key: list(saved[key]) for key in done}
    elif coarse:
        half = Turbulence(size // 2, mach, seed)
        half.run(coarse)
        box = half.refined()
    kernels()
    tick(6 * len(done["maps"]))
    while len(done["maps"]) < snapshots:
        box.run(SETTLE + APART * len(done["maps"]))
        done["maps"].append(box.column_density())
        done["times"].append(box.time / box.turnover)
        done["mach"].append(box.rms_mach)
        _save(kept, settings=settings, **box.checkpoint(), **done)
        tick(6 * len(done["maps"]))
    _save(path, **{key: values[:snapshots] for key, values in done.items()})
    kept.unlink(missing_ok=True)


def _save(path: Path, **arrays: Any) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_atomically(path, buffer.getvalue())


def _load(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as why:
        raise InputError(f"{path}: not a checkpoint of a simulation ({why})") from None
