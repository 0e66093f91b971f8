r"""DPS and ΠGDM with A = Σ_φ^(-½): guided draws of x | y, φ, as in the paper's appendix.

Whitened, the problem is linear with unit noise, Σ^(-½) y = Σ^(-½) x + white noise, and the prior
is sampled by diffusion with white noise. In the VE scaling z = x + t·white the ancestral step of
eq. (7) gets an added drift, which should be the likelihood's score:

    z_s = D + r (z - D) + n + (1-r) t² g,   Cov n = (1-r) r t²,   r = s²/t²,   g = ∇_z log p(y | z)

With the true g this samples p(x | y) as steps grow. Both methods guess p(y | z):

    DPS (Chung et al. 2023)     p(y | z) ≈ N(D, Σ)             g = Jᵀ Σ⁻¹ (y - D),   J = ∂D/∂z
    ΠGDM (Song et al. 2023)     p(y | z) ≈ N(D, r_t² I + Σ)    g = Jᵀ (r_t² I + Σ)⁻¹ (y - D)

where r_t² stands for the covariance of x given z. Each step calls D once and goes back through
it once. D must be differentiable in z.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.signal import Signal
from gibbsdiff.diffusion.solvers import Draw, geometric, reverse_step
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, filtered, from_opponent, half_plane, to_opponent
from gibbsdiff.noise import WhiteNoise
from gibbsdiff.noise.covariance import NoiseCovariance, PixelCovariance, SpectralCovariance
from gibbsdiff.streams import Streams

Guide = Callable[[Tensor, Tensor, float, float], Tensor]
"""(z, D(z), t, s) -> what is added to z_s; D(z) carries the graph back to z."""


def dps(
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    rng: Streams,
    *,
    steps: int = 100,
    highest: float = 1.0,
    floor: float = 0.004,
    strength: float = 1.0,
    weight: Literal["norm", "score"] = "norm",
    signal: Signal | None = None,
) -> Draw:
    """Diffusion posterior sampling, a `Sampler` once its options are bound.

    Arguments:
        steps: Calls of D, at levels that fall by equal factors from `highest` to `floor`.
        highest: Where the prior's diffusion starts, at N(m, S_x + highest² I). A network must
            have been trained there: 1 is the highest level that the package's own has met.
            An exact denoiser takes any level, and needs one well above √S_x.
        strength: ζ. "norm" adds -ζ ∇_z ‖Σ^(-½)(y - D)‖, which is the authors' algorithm (the
            factors √ᾱ of its VP scaling are left to ζ); "score" adds ζ (1-r) t² g.
        signal: m and S_x of the start; the denoiser's own by default.

    The draw's `mean` is the draw itself: guidance has no posterior mean in one call.
    """
    if weight not in ("norm", "score"):
        raise ValueError(f"weight is 'norm' or 'score', not {weight!r}")

    def guide(z: Tensor, x_hat: Tensor, t: float, s: float) -> Tensor:
        residual = y - x_hat.detach()
        pull = _solve(noise, 0.0, residual)
        drift = _pulled_back(x_hat, z, pull)
        if weight == "score":
            return strength * (t**2 - s**2) * drift
        norm = (residual * pull).sum((1, 2, 3), keepdim=True).sqrt()
        return strength * drift / norm

    return _guided(denoiser, y, rng, guide, steps, highest, floor, signal)


def pigdm(
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    rng: Streams,
    *,
    steps: int = 100,
    highest: float = 1.0,
    floor: float = 0.004,
    strength: float = 1.0,
    weight: Literal["score", "adaptive"] = "score",
    regularisation: Literal["time", "constant"] = "time",
    variance: float | None = None,
    signal: Signal | None = None,
) -> Draw:
    """Pseudo-inverse guidance, a `Sampler` once its options are bound; see `dps` for the rest.

    Arguments:
        weight: "score" adds (1-r) t² g; "adaptive" adds r_t² g at every step however short,
            which is the authors' algorithm. `strength` multiplies either.
        regularisation: "time" has r_t² = v t²/(v + t²), the variance of a white signal of
            variance v given z; with v = 1 it is the authors' t²/(1 + t²) for data of unit
            variance. "constant" has r² = v at all levels.
        variance: v; by default the mean of S_x over modes and channels, a pixel's variance.

    If S_x is white with variance v, "time" is exact for any Σ as steps grow. If S_x falls, it holds
    the large scales for better known, and the small ones for worse known, than they are.
    """
    if weight not in ("score", "adaptive"):
        raise ValueError(f"weight is 'score' or 'adaptive', not {weight!r}")
    if regularisation not in ("time", "constant"):
        raise ValueError(f"regularisation is 'time' or 'constant', not {regularisation!r}")
    v = _variance(denoiser, y, signal) if variance is None else variance
    if not v > 0:
        raise InputError(f"variance must be positive, not {v:g}")

    def guide(z: Tensor, x_hat: Tensor, t: float, s: float) -> Tensor:
        r2 = v * t**2 / (v + t**2) if regularisation == "time" else v
        g = _pulled_back(x_hat, z, _solve(noise, r2, y - x_hat.detach()))
        return strength * (t**2 - s**2 if weight == "score" else r2) * g

    return _guided(denoiser, y, rng, guide, steps, highest, floor, signal)


def _guided(
    denoiser: Denoiser,
    y: Tensor,
    rng: Streams,
    guide: Guide,
    steps: int,
    highest: float,
    floor: float,
    signal: Signal | None,
) -> Draw:
    """The reverse diffusion of the prior with white noise, drifted by `guide`."""
    if not 0 < floor < highest:
        raise InputError(f"levels need 0 < floor < highest, not {floor:g} and {highest:g}")
    start = torch.tensor([highest], dtype=torch.float64)
    levels = highest * geometric(start, steps, floor, ratio=1 - 1e-12).u[0]
    white = partial(WhiteNoise().covariance, _shape(y), dtype=y.dtype)
    z = _start(denoiser, y, highest, signal, rng)
    each = torch.ones(len(y), dtype=torch.float64)
    for t, s in pairwise(levels.tolist()):
        here = white(t * each[:, None])
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            x_hat = denoiser(z, here).mean
        added = guide(z, x_hat, t, s)
        r = (s / t) ** 2 * each
        z = reverse_step(z.detach(), x_hat.detach(), here, r, r, None, rng) + added
    return Draw(z, z.clone(), torch.full((len(y),), steps))


def _pulled_back(x_hat: Tensor, z: Tensor, pull: Tensor) -> Tensor:
    """Jᵀ pull."""
    out: Tensor = torch.autograd.grad(x_hat, z, pull)[0]
    return out


def _solve(noise: NoiseCovariance, r2: float, residual: Tensor) -> Tensor:
    """(r_t² I + Σ)⁻¹ residual = Aᵀ (r_t² A Aᵀ + I)⁻¹ A residual, diagonal where Σ is."""
    if isinstance(noise, PixelCovariance):
        return residual / (r2 + noise.variance)
    if not isinstance(noise, SpectralCovariance):
        raise TypeError(f"guidance cannot invert {type(noise).__name__}")
    return from_opponent(filtered(to_opponent(residual), 1 / (r2 + noise.power)))


def _start(
    denoiser: Denoiser, y: Tensor, highest: float, signal: Signal | None, rng: Streams
) -> Tensor:
    """z ~ N(m, S_x + highest² I); the prior's own draw plus noise where it is no Gaussian."""
    shape, channels = _shape(y), y.shape[1]
    known = _signal(denoiser, signal)
    if known is not None:
        power = (known.power(shape) + highest**2).expand(len(y), -1, -1, -1)
        z = known.mean + SpectralCovariance(power, shape).draw(rng, channels)
    elif hasattr(denoiser, "prior"):
        z = denoiser.prior(shape, rng, channels) + highest * rng.normal(channels, *shape)
    else:
        raise InputError("guidance starts from the prior: give its `signal`, a mean and a spectrum")
    return z.to(y)


def _variance(denoiser: Denoiser, y: Tensor, signal: Signal | None) -> float:
    known = _signal(denoiser, signal)
    if known is None:
        raise InputError("ΠGDM needs the signal's `variance`: its denoiser has no spectrum")
    return float(half_plane(_shape(y)).mean(known.power(_shape(y)).flatten(2)).mean())


def _signal(denoiser: Denoiser, signal: Signal | None) -> Signal | None:
    return getattr(denoiser, "signal", None) if signal is None else signal


def _shape(y: Tensor) -> Shape:
    return (y.shape[-2], y.shape[-1])
