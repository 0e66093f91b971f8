r"""From the noise in flat places of a JPEG to that of the whole picture, by the file's own steps.

Quiet places tell the power V(|k|) of Y, Cb and Cr in flat blocks, after rounding. Coefficient
(u, v) of a block lies around |k| = √(u²+v²)/16, as widely as its basis function ψ_uv has it, and so

    V(k) = Σ_uv h_uv(k) f(√N(k_uv), q_uv),      h_uv = |ψ̂_uv|² / Σ |ψ̂|²      (at 2k if subsampled)

is solved for N, the noise before rounding. What it became in the picture is known from the picture:
a coefficient whose mean square over 3×3 blocks is above TEXTURED f + q²/9 was spread by texture, to
the D of that mean square, and has the noise n(D, s, q); others are flat. The mean of n over all
blocks, by h in each band, over V is what the power of quiet places is raised by. Block means (0, 0)
have no flat place: their steps are taken as fine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.fft import dctn
from scipy.ndimage import uniform_filter
from torch import Tensor

from gibbsdiff.fourier import OPPONENT
from gibbsdiff.inference.jpeg_rounding import Array, noise_in, survived
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.io.file_format import JpegSteps

#: Y, Cb and Cr of red, green and blue (JFIF).
PLANES = np.array([[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]])
SIDE = 8
TEXTURED = 2.5  # times f: means over 9 flat coefficients are seldom above
ALONE = 1.01 / 9  # of q²: one of them that is not 0 is no texture
#: Of log power, luma and chroma: a block's lost coefficients go together, and leave edges that no
#: sum over single ones has; by 14 photographs.
TOGETHER = (1.5, 1.0)
SHARE = 0.5  # of a raise is its sd: blocks are no mixture of Gaussians
ROUNDED = 1 / 12  # levels²: what is less than the rounding of pixels is not seen
LEAST = 1e-3  # levels²
STEPS, SHORTER, FARTHEST = 40, 0.7, 1.0  # of the solution for log N
LARGEST, WINDOWS, WIDTH = 1024**2, 4, 256  # a larger picture is looked at in 4×4 windows


class Raise(NamedTuple):
    """Of log power (C, G): what the picture has more than its flat places, and its sd."""

    mean: Tensor
    sd: Tensor


def jpeg_raise(quiet: Quiet, y: Tensor, steps: JpegSteps, full: float = 1.0) -> Raise | None:
    """For the powers of quiet places of the decoded y (1, C, H, W) on [0, full]; None if the file's
    planes are not those of y.
    """
    C = y.shape[1]
    if C not in (1, 3) or len(steps.tables) < C:
        return None
    to, back = _between(C)
    levels = 255 / full * y[0].detach().double().cpu().numpy()
    k, P = quiet.k.numpy(), quiet.power.numpy() * (255 / full) ** 2
    # Independent opponent channels; and where chroma is gone all of luma is Y.
    unseen = ROUNDED * np.square(_planes(C)).sum(1)[:, None]
    V = np.maximum(np.square(to) @ P - unseen, LEAST)
    log_r, log_high = np.zeros_like(V), np.zeros_like(V)
    for p in range(C):
        cells, size = _cells(levels, p, steps)
        basis, q = _shares(k, size), steps.tables[p].ravel()
        for out, seen in ((log_r, V[p]), (log_high, V[p] + unseen[p])):
            raised = _raised(seen, k, q, basis, cells, size)
            out[p] = np.log(np.maximum(raised, V[p]) / V[p])
    parts = np.square(back)[:, :, None] * V
    mean, high = (np.log((parts * np.exp(r)).sum(1) / parts.sum(1)) for r in (log_r, log_high))
    more = np.where(np.arange(C) > 0, TOGETHER[1], TOGETHER[0])[:, None]
    mean, high = more * mean, more * high
    sd = np.hypot(SHARE * mean, high - mean)
    return Raise(torch.from_numpy(mean), torch.from_numpy(sd))


def _planes(C: int) -> Array:
    return PLANES if C == 3 else np.ones((1, 1))


def _between(C: int) -> tuple[Array, Array]:
    """Planes of opponent colours, and the inverse."""
    if C == 1:
        return np.ones((1, 1)), np.ones((1, 1))
    to = PLANES @ OPPONENT.double().numpy().T
    return to, np.linalg.inv(to)


def _shares(k: Array, size: tuple[int, int]) -> Array:
    """h (G, 64), averaged over the directions of k; 0 beyond what a subsampled plane holds."""
    x = np.arange(SIDE)
    C = np.cos(np.pi * x[:, None] * (2 * x + 1) / (2 * SIDE))
    C = C * np.where(x[:, None] == 0, np.sqrt(1 / SIDE), np.sqrt(2 / SIDE))
    angle = np.linspace(0, np.pi / 2, 33)
    rows = []
    for one in k:
        down, across = one * np.sin(angle) * size[0], one * np.cos(angle) * size[1]
        held = (down <= 0.5) & (across <= 0.5)
        u, v = (
            np.square(np.abs(C @ np.exp(-2j * np.pi * x[:, None] * f[held])))
            for f in (down, across)
        )
        h = np.einsum("ut,vt->uv", u, v).ravel()
        rows.append(h / max(h.sum(), 1e-300))
    return np.array(rows)


def _cells(levels: Array, plane: int, steps: JpegSteps) -> tuple[Array, tuple[int, int]]:
    """Mean squares (..., rows, columns, 64) of the coefficients over 3×3 blocks of a plane, and
    over how many pixels its values are.
    """
    size = (steps.down, steps.across) if plane else (1, 1)
    weights = _planes(len(levels))[plane]
    found = []
    for part in _windows(levels, SIDE * steps.down, SIDE * steps.across):
        image = np.tensordot(weights, part, 1)
        H, W = (n // (SIDE * m) * SIDE for n, m in zip(image.shape, size, strict=True))
        image = image[: H * size[0], : W * size[1]]
        image = image.reshape(H, size[0], W, size[1]).mean((1, 3))
        blocks = image.reshape(H // SIDE, SIDE, W // SIDE, SIDE).swapaxes(1, 2)
        Q = dctn(blocks, axes=(2, 3), norm="ortho").reshape(*blocks.shape[:2], SIDE**2)
        found.append(uniform_filter(np.square(Q), (3, 3, 1), mode="nearest"))
    return np.concatenate([one.reshape(-1, SIDE**2) for one in found]), size


def _windows(levels: Array, down: int, across: int) -> list[Array]:
    """The picture, or windows all over it that begin where blocks begin."""
    H, W = levels.shape[-2:]
    if H * W <= LARGEST:
        return [levels]
    corners = [
        np.linspace(0, max(n - WIDTH, 0), WINDOWS).astype(int) // m * m
        for n, m in ((H, down), (W, across))
    ]
    return [levels[:, i : i + WIDTH, j : j + WIDTH] for i in corners[0] for j in corners[1]]


def _raised(
    V: Array, k: Array, q: Array, basis: Array, cells: Array, size: tuple[int, int]
) -> Array:
    """The picture's mean power (G,) of one plane from that of its flat places."""
    u = np.arange(SIDE) / (2 * SIDE)
    at = np.hypot(u[:, None] / size[0], u / size[1]).ravel()
    held = basis.sum(1) > 0
    log_k = np.log(k[held])
    h = basis[held]

    def flat(log_n: Array) -> tuple[Array, Array]:
        """s² and f of every coefficient."""
        s2 = np.exp(np.interp(np.log(np.maximum(at, 1e-6)), log_k, log_n))
        return s2, np.where(at == 0, s2, survived(np.sqrt(s2), q))

    log_n, log_v = np.log(V[held]), np.log(V[held])
    for _ in range(STEPS):
        now, more = (np.log(h @ flat(log_n + e)[1]) for e in (0.0, 0.05))
        slope = np.maximum((more - now) / 0.05, 1)
        log_n = log_n + np.clip(SHORTER * (log_v - now) / slope, -FARTHEST, FARTHEST)
    s2, f = flat(log_n)
    spread = cells > TEXTURED * f + ALONE * np.square(q)
    n = np.where(spread, noise_in(cells, np.sqrt(s2), q), f).mean(0)
    n = np.where(at == 0, s2, np.maximum(n, f))
    log_r = np.log((h @ n) / (h @ f))
    # Where a subsampled plane holds nothing, what is seen is the shadow of what it holds.
    return np.asarray(V * np.exp(np.interp(np.log(k), log_k, log_r)))
