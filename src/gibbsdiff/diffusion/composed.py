r"""The paper's chain on a Gaussian signal, all of its steps at once.

With x ~ N(m, S) and D the Wiener filter every step of eq. (7) is linear and diagonal in Fourier
space. With T_i = S + N u_i² it has the gain T_{i+1}/T_i, whose product telescopes:

    x - m = S/(S + N) ∗ (y - m) + n,   Cov n = S² Σ_i v_i N (u_i² - u_{i+1}²)/(S + N u_{i+1}²)²

So the chain's mean is exact, and its variance a Riemann sum of
∫ S² N d(u²)/(S + N u²)² = S N/(S + N).
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving
from gibbsdiff.diffusion.solvers import Draw, Levels, Sampler, uniform_in_time
from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance
from gibbsdiff.streams import Streams


def composed_ddpm(signal: GaussianDenoiser) -> Sampler:
    """The sampler with the law that `solvers.ddpm_of` has for this signal: thousands of steps cost
    one draw. Calls are those of the steps that it stands for.
    """
    return partial(_draw, signal, process=DiscreteVariancePreserving())


@torch.no_grad()
def _draw(
    signal: GaussianDenoiser,
    denoiser: Denoiser,
    y: Tensor,
    noise: NoiseCovariance,
    rng: Streams,
    *,
    process: DiscreteVariancePreserving,
) -> Draw:
    if not isinstance(noise, SpectralCovariance):
        raise InputError(f"stationary noise is needed here, not {type(noise).__name__}")
    levels = uniform_in_time(noise.level, process, process.steps, "beta")
    S = signal.signal.power(noise.shape).to(noise.power)
    mean = signal(y, noise).mean
    spread = SpectralCovariance(S * chain_variance(noise.power / S, levels), noise.shape)
    calls = (levels.u[:, :-1] > 0).sum(1)
    return Draw(mean + spread.draw(rng, y.shape[1]), mean, calls)


def chain_variance(ratio: Tensor, levels: Levels) -> Tensor:
    """Cov n/S of the chain, from N/S (B, C, H, W//2+1):
    Σ_i v_i N/S (u_i² - u_{i+1}²)/(1 + u_{i+1}² N/S)².
    """
    # Modes of equal |k| have equal N/S: each is summed once.
    modes, place = torch.unique(ratio.flatten(1), dim=1, return_inverse=True)
    square = levels.u.to(ratio) ** 2
    weight = levels.ancestral.to(ratio) * (square[:, :-1] - square[:, 1:])
    total = torch.zeros_like(modes)
    for i in range(weight.shape[1]):
        below = torch.addcmul(torch.ones_like(modes), modes, square[:, i + 1, None])
        total.addcdiv_(weight[:, i, None].expand_as(modes), below.square_())
    return (modes * total)[:, place].view_as(ratio)
