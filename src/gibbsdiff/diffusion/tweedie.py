r"""The error of a denoiser by its own derivative: Tweedie's second formula, eq. (13).

For the posterior mean D, Cov[x | y] = ∂D/∂y N, so that Ê(k) = N(k) ∂D̂(k)/∂ŷ(k). A network that is
nearly D knows its error so without having been taught it: where y is kept whole, E = N however the
image looks, and heads that guess E from the image's look cannot be as sure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from gibbsdiff.fourier import (
    between_references,
    fft,
    from_opponent,
    half_plane,
    to_opponent,
)
from gibbsdiff.noise.covariance import SpectralCovariance
from gibbsdiff.streams import Streams

FEW = 4.0  # modes that a band's prediction is worth beside what a probe finds in it
MOST = 4.0  # factor by which a probe may correct a prediction

Aux = TypeVar("Aux")


def derivative(
    mean_of: Callable[[Tensor], tuple[Tensor, Aux]],
    z: Tensor,
    noise: SpectralCovariance,
    seed: int = 0,
) -> tuple[Tensor, Tensor, Aux]:
    """D(z), ∂D̂(k)/∂ẑ(k) in every mode, (B, C, H, W//2+1), and what else `mean_of` says.

    One probe tells the diagonal without bias: ū · N^(-½) ∂D/∂z N^½ u with |u| = 1 and random
    phases. Phases, not white noise: what D does to each mode alone is then seen without scatter.
    With N^½ the matrix is symmetric, and small scales, where N is little, do not drown large ones.
    The same probe at every call keeps a score that is made of it smooth in φ.
    """
    # A key of its own: a probe that is the noise of z itself would tell another slope.
    stream = Streams(seed, [(13, 13, 13)])
    white = fft(stream.normal(z.shape[1], *noise.shape, dtype=z.dtype).to(z.device))
    u, root = white / white.abs(), noise.power.sqrt()
    probe = from_opponent(torch.fft.irfft2(u * root, s=noise.shape, norm="ortho"))
    seen: Any = torch.func.jvp(mean_of, (z,), (probe.expand_as(z).contiguous(),), has_aux=True)
    mean, moved, aux = seen
    return mean, (u.conj() * fft(to_opponent(moved))).real / root, aux


def own_factor(share: Tensor, J: Tensor, noise: SpectralCovariance) -> Tensor:
    """log c of one image around the reference frequencies, (B, C, 8): by what factor Ê = N J is
    more than a prediction of which Ê/N is the `share`.

    A band of few modes has the factor of a probe diluted by `FEW` modes of the prediction itself.
    Made on the CPU, in double precision.
    """
    hats = between_references(noise.shape) * half_plane(noise.shape).weight
    said, found = (part.flatten(2).cpu().double() @ hats.T for part in (share, J))
    prior = FEW * said / hats.sum(1).clamp(min=1e-9) + 1e-12
    return torch.log(((found + prior) / (said + prior)).clamp(1 / MOST, MOST))
