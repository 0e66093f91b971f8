r"""Reverse kernels and their levels: draws of x | y, φ from a denoiser, eq. (7).

Levels are relative to the observation's: u = 1 at y, where the noise has power N, and
u = 0 at x; the noise at u has power N u². States are in the VE scaling, z = x + noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser, as_denoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, Process
from gibbsdiff.diffusion.symmetry import LABEL, randomly_turned
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance
from gibbsdiff.streams import Streams


class Draw(NamedTuple):
    """A draw of x | y, φ; the posterior mean D(y) that came with it; calls per image (B,)."""

    x: Tensor
    mean: Tensor
    calls: Tensor


Sampler = Callable[[Denoiser, Tensor, NoiseCovariance, Streams], Draw]
"""How x | y, φ is drawn: `few_step` or `ddpm` with their options bound."""


class Levels(NamedTuple):
    """The levels u of a draw, (B, n+1), from 1 down to 0, and 0 from there on; and the factors
    v (B, n) of the ancestral variance (1-r) v N_t, of which v = r is the exact one, β̃.
    """

    u: Tensor
    ancestral: Tensor


def reverse_step(
    z_t: Tensor,
    x_hat: Tensor,
    noise: NoiseCovariance,
    r: Tensor,
    v: Tensor,
    error: Covariance | None,
    rng: Streams,
) -> Tensor:
    """Eq. (7), from level t to s with r = s²/t²: z_s = D + r (z_t - D) + n,
    Cov n = (1-r) v N_t + (1-r)² E_t, and v = r but for the authors' β.
    """
    channels = z_t.shape[1]
    keep = r.to(z_t).view(-1, 1, 1, 1)
    z_s = x_hat + keep * (z_t - x_hat)
    # Only the rows that need noise draw it, so that no row's stream depends on another's.
    noisy = torch.nonzero(v > 0).squeeze(-1)
    if len(noisy):
        scale = torch.sqrt((1 - r) * v).to(z_t).view(-1, 1, 1, 1)
        z_s[noisy] += scale[noisy] * noise.rows(noisy).draw(rng.rows(noisy), channels)
    if error is not None:
        z_s += (1 - keep) * error.draw(rng, channels)
    return z_s


@torch.no_grad()
def solve(
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    levels: Levels,
    rng: Streams,
    *,
    with_error: bool,
    turned: bool = False,
) -> Draw:
    """Eq. (7) from level to level. Images that reach u = 0 leave the batch.

    `with_error` takes the denoiser's own error covariance; without one E_t = 0. `turned`: each call
    is by a random symmetry of the square, D_T for D and E_T for E_t.
    """
    denoiser = as_denoiser(denoiser)
    u, ancestral = levels
    turns = rng.fold(LABEL) if turned else None
    z, first = y.clone(), torch.empty_like(y)
    calls = torch.zeros(len(y), dtype=torch.int64)
    for i in range(u.shape[1] - 1):
        rows = torch.nonzero(u[:, i] > 0).squeeze(-1)
        if len(rows) == 0:
            break
        t, s = u[rows, i], u[rows, i + 1]
        here = noise.rows(rows).scaled(t)
        if turns is None:
            x_hat, error = denoiser(z[rows], here)
        else:
            x_hat, error = randomly_turned(denoiser, z[rows], here, turns.rows(rows))
        calls[rows] += 1
        if i == 0:
            first = x_hat
        z[rows] = reverse_step(
            z[rows],
            x_hat,
            here,
            (s / t) ** 2,
            ancestral[rows, i],
            error if with_error else None,
            rng.rows(rows),
        )
    return Draw(z, first, calls)


def few_step(
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    rng: Streams,
    *,
    calls: int = 12,
    floor: float = 0.004,
    error: bool = True,
    turned: bool = False,
) -> Draw:
    """A draw of x | y, φ in few calls: eq. (7) with the denoiser's own error covariance.

    `error=False`, or a denoiser without an error model, has E = 0. The last step is from `floor`,
    or from one call's worth above, to 0. `turned` shows the picture to the denoiser by a random
    symmetry of the square at each call, as chains on pictures do.
    """
    levels = geometric(noise.level, calls, floor)
    return solve(denoiser, y, noise, levels, rng, with_error=error, turned=turned)


def ddpm(
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    rng: Streams,
    *,
    process: Process,
    steps: int = 5000,
    variance: Literal["beta", "posterior"] = "beta",
) -> Draw:
    """The paper's sampler: the reverse SDE from t*(σ), `steps` steps to the unit of time.

    As a sampler for Gibbs: `partial(ddpm, process=VariancePreserving())`.
    """
    levels = uniform_in_time(noise.level, process, steps, variance)
    return solve(denoiser, y, noise, levels, rng, with_error=False)


def ddpm_of(denoiser: Denoiser, process: Process | None = None) -> Sampler:
    """The paper's sampler on the denoiser's own process; one that has none takes the `process`
    given, or the paper's chain for pictures.

    A discrete chain takes its own steps, the reverse SDE of others 5,000 to the unit of time, as
    fine as the paper's chain: under a weak CMB coarser ones shift what Gibbs chains infer.
    """
    process = denoiser.process or process or DiscreteVariancePreserving()
    steps = process.steps if isinstance(process, DiscreteVariancePreserving) else 5000
    return partial(ddpm, process=process, steps=steps)


def geometric(level: Tensor, calls: int, floor: float = 0.004, ratio: float = 0.9) -> Levels:
    """Levels falling by equal factors to `floor`, then to 0, in at most `calls` steps.

    No step is shorter than `ratio`: an image with little noise is done sooner.
    """
    if calls < 1:
        raise ValueError(f"a draw takes at least one call, not {calls}")
    reach = torch.log(level.double() / floor)
    enough = torch.ceil(reach / -torch.log(torch.tensor(ratio, dtype=torch.float64)))
    count = enough.clamp(1, calls)[:, None]
    i = torch.arange(calls + 1, dtype=torch.float64)
    u = torch.where(i < count, torch.exp(-reach[:, None] * i / count), 0.0)
    return Levels(u, _exact(u))


def uniform_in_time(
    level: Tensor, process: Process, steps: int, variance: Literal["beta", "posterior"]
) -> Levels:
    """n = round(t* · steps) equal steps of time from t* to 0.

    "beta" takes the forward kernel's variance b_t² - (a_t/a_s)² b_s², which divided by a_s²
    is (a_t/a_s)² (1-r) N_t: v = (a_t/a_s)², and none in the last step, as the authors do.
    """
    if variance not in ("beta", "posterior"):
        raise ValueError(f"variance is 'beta' or 'posterior', not {variance!r}")
    start = process.time(level)
    count = torch.round(start * steps).clamp(min=1)[:, None]
    i = torch.arange(int(count.max()) + 1, dtype=torch.float64)
    t = start[:, None] * (1 - i / count).clamp(min=0)
    u = process.level(t) / level[:, None]
    u[:, 0] = 1.0
    if variance == "posterior":
        return Levels(u, _exact(u))
    a = process.a(t)
    v = (a[:, :-1] / a[:, 1:]) ** 2
    return Levels(u, torch.where(u[:, 1:] > 0, v, 0.0))


def _exact(u: Tensor) -> Tensor:
    t, s = u[:, :-1], u[:, 1:]
    return torch.where(t > 0, s / t.clamp(min=1e-300), 0.0) ** 2
