"""How hard the CMB makes guidance: the eigenvalues of Σ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.cosmo.mock import Mixture
from gibbsdiff.fourier import Shape
from gibbsdiff.noise.cmb import CMBNoise
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.streams import Streams


class Eigenvalues(NamedTuple):
    """Of Σ: the largest over the smallest; and the largest of Σ^(-½)."""

    condition: float
    largest: float


def eigenvalues(noise: StationaryNoise, shape: Shape, phi: Tensor) -> list[Eigenvalues]:
    """The eigenvalues of Fᵀ diag(N) F are N: max N / min N, and 1/√min N, for every φ (n, d)."""
    log_N = noise.log_power(noise.grouping(shape, exact=True).k, phi)
    low, high = log_N.amin(-1), log_N.amax(-1)
    pairs = zip(torch.exp(high - low).tolist(), torch.exp(-low / 2).tolist(), strict=True)
    return [Eigenvalues(*pair) for pair in pairs]


def eigenvalue_rows(mixture: Mixture, sides: Sequence[int] = (128, 256)) -> dict[str, Eigenvalues]:
    """At the mixture's φ, and the least and the largest over 200 draws of the prior, by side."""
    assert mixture.truth is not None
    noise, rows = CMBNoise(), {}
    for side in sides:
        phi = torch.cat([noise.check([mixture.truth]), noise.draw_prior(Streams.batch(0, 200))])
        here, *drawn = eigenvalues(noise, (side, side), phi)
        rows[f"{side}², this mixture"] = here
        for word, end in (("least", min), ("most", max)):
            ends = (end(getattr(e, f) for e in drawn) for f in Eigenvalues._fields)
            rows[f"{side}², prior, {word}"] = Eigenvalues(*ends)
    return rows
