"""Isothermal gas in a periodic box, compiled: MUSCL-Hancock steps with an HLL flux.

Sound speed 1. The state (4, nx, ny, nz), float32, is density and the three momenta. Each sweep
works on bundles of parallel lines, so that the innermost loop runs over contiguous lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float32]
Kernel = TypeVar("Kernel", bound=Callable[..., Any])

#: Lines per bundle, at most: a bundle's buffers stay in the cache.
LANES = 64

ZERO, HALF, ONE, TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)

#: A face keeps at least this part of its cell's density.
FLOOR = np.float32(0.05)


def compiled(*signature: str) -> Callable[[Kernel], Kernel]:
    """Compile with numba. The numpy error model is what lets loops with divisions vectorise."""
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": True, "cache": True}
    compiler: Any = njit
    return compiler(*signature, **options)


@compiled()
def limited(backward: np.float32, forward: np.float32) -> np.float32:
    """The monotonised-central slope: the least of both differences, doubled, and their mean."""
    centred = HALF * (backward + forward)
    size = min(TWO * min(abs(backward), abs(forward)), abs(centred))
    size = size if backward * forward > ZERO else ZERO
    return size if centred > ZERO else -size


@compiled()
def component(axis: int, c: int) -> int:
    """Where the state keeps density (c = 0) and the momenta along (1) and across (2, 3)."""
    return 0 if c == 0 else 1 + (axis + c - 1) % 3


@compiled()
def lane(state: Array, axis: int, c: int, i: int, row: int) -> Array:
    """The contiguous line of cells at place i of a sweep along axis 0 or 1."""
    return state[c, i, row] if axis == 0 else state[c, row, i]


@compiled()
def load(state: Array, axis: int, row: int, first: int, W: Array) -> None:
    """Density and velocities of a bundle into W (4, n+4, lanes), two ghost cells at each end.

    The velocity along the sweep comes first. Lanes lie along z, or along y in a sweep along z.
    """
    n, lanes = state.shape[1 + axis], W.shape[2]
    for i in range(n + 4):
        j = (i - 2 + n) % n
        for c in range(4):
            of = component(axis, c)
            if axis == 2:
                for k in range(lanes):
                    W[c, i, k] = state[of, row, first + k, j]
            else:
                line = lane(state, axis, of, j, row)[first : first + lanes]
                for k in range(lanes):
                    W[c, i, k] = line[k]
        for c in range(1, 4):
            for k in range(lanes):
                W[c, i, k] /= W[0, i, k]


@compiled()
def predict(W: Array, ratio: np.float32, left: Array, right: Array) -> None:
    """Both face values of each cell half a step later, from limited slopes δ:

    ρ - λ/2 (u δρ + ρ δu) ± δρ/2,  u - λ/2 (u δu + δρ/ρ) ± δu/2,  v - λ/2 u δv ± δv/2.
    """
    half = HALF * ratio
    for i in range(1, W.shape[1] - 1):
        for k in range(W.shape[2]):
            rho, u = W[0, i, k], W[1, i, k]
            d_rho = limited(rho - W[0, i - 1, k], W[0, i + 1, k] - rho)
            d_u = limited(u - W[1, i - 1, k], W[1, i + 1, k] - u)
            rho_half = rho - half * (u * d_rho + rho * d_u)
            u_half = u - half * (u * d_u + d_rho / rho)
            left[0, i, k] = max(rho_half - HALF * d_rho, FLOOR * rho)
            right[0, i, k] = max(rho_half + HALF * d_rho, FLOOR * rho)
            left[1, i, k] = u_half - HALF * d_u
            right[1, i, k] = u_half + HALF * d_u
        for c in range(2, 4):
            for k in range(W.shape[2]):
                v = W[c, i, k]
                d_v = limited(v - W[c, i - 1, k], W[c, i + 1, k] - v)
                v_half = v - half * W[1, i, k] * d_v
                left[c, i, k] = v_half - HALF * d_v
                right[c, i, k] = v_half + HALF * d_v


@compiled()
def fluxes(left: Array, right: Array, F: Array) -> None:
    """F (4, n+1, lanes): HLL for density and normal momentum; the mass flux carries the rest."""
    for i in range(F.shape[1]):
        for k in range(F.shape[2]):
            rho_l, u_l = right[0, i + 1, k], right[1, i + 1, k]
            rho_r, u_r = left[0, i + 2, k], left[1, i + 2, k]
            s_l = min(min(u_l, u_r) - ONE, ZERO)
            s_r = max(max(u_l, u_r) + ONE, ZERO)
            m_l, m_r = rho_l * u_l, rho_r * u_r
            p_l, p_r = m_l * u_l + rho_l, m_r * u_r + rho_r
            inverse = ONE / (s_r - s_l)
            F[0, i, k] = (s_r * m_l - s_l * m_r + s_l * s_r * (rho_r - rho_l)) * inverse
            F[1, i, k] = (s_r * p_l - s_l * p_r + s_l * s_r * (m_r - m_l)) * inverse
        for c in range(2, 4):
            for k in range(F.shape[2]):
                mass = F[0, i, k]
                F[c, i, k] = mass * (right[c, i + 1, k] if mass > ZERO else left[c, i + 2, k])


@compiled()
def store(state: Array, axis: int, row: int, first: int, ratio: np.float32, F: Array) -> None:
    """U ← U - λ (F_{i+½} - F_{i-½}) for a bundle."""
    lanes = F.shape[2]
    for i in range(state.shape[1 + axis]):
        for c in range(4):
            of = component(axis, c)
            if axis == 2:
                for k in range(lanes):
                    state[of, row, first + k, i] -= ratio * (F[c, i + 1, k] - F[c, i, k])
            else:
                line = lane(state, axis, of, i, row)[first : first + lanes]
                for k in range(lanes):
                    line[k] -= ratio * (F[c, i + 1, k] - F[c, i, k])


@compiled("void(f4[:,:,:,::1], i8, f4, i8)")
def sweep_bundles(state: Array, axis: int, ratio: np.float32, lanes: int) -> None:
    """One step of the gas along an axis, by bundles of so many parallel lines."""
    n = state.shape[1 + axis]
    W = np.empty((4, n + 4, lanes), np.float32)
    left, right = np.empty_like(W), np.empty_like(W)
    F = np.empty((4, n + 1, lanes), np.float32)
    for row in range(state.shape[2] if axis == 0 else state.shape[1]):
        for first in range(0, state.shape[2] if axis == 2 else state.shape[3], lanes):
            load(state, axis, row, first, W)
            predict(W, ratio, left, right)
            fluxes(left, right, F)
            store(state, axis, row, first, ratio, F)


@compiled("f4(f4[:,:,:,::1], f4[:,:,:,::1], f4)")
def kick(state: Array, acceleration: Array, dt: np.float32) -> np.float32:
    """Momentum ← momentum + dt ρ a; returns the largest |u_i| of any cell."""
    rho = state[0].ravel()
    fastest = ZERO
    for c in range(3):
        m, a = state[1 + c].ravel(), acceleration[c].ravel()
        for i in range(rho.size):
            m[i] += dt * rho[i] * a[i]
            fastest = max(fastest, abs(m[i] / rho[i]))
    return fastest


def sweep(state: Array, axis: int, ratio: float) -> None:
    """One step of the gas along an axis, in place; ratio λ = Δt/Δx, (|u| + 1) λ < 1."""
    across = state.shape[2] if axis == 2 else state.shape[3]
    lanes = max(k for k in range(1, LANES + 1) if across % k == 0)
    sweep_bundles(state, axis, np.float32(ratio), lanes)
