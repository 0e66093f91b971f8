r"""Draws of x in many calls with the moments of one call, for one image.

With D = D(y) the posterior mean and Ê the power of x - D, eq. (13), draws should have, per mode,

    E (x-D)* D = 0,    E (x-D)* (y-D) = 0,    E |x-D|² = Ê

A kernel in many calls has them only if D is right at every level that it passes. If x - D(z)
goes with z by a per cent of S_x at each of them, which one call does not show, draws lose or gain
several per cent of their power, and more calls do not help. What trial draws x' lack around each
reference frequency is made good in all draws:

    x = D + γ ∗ (x' - D - a ∗ (D-m) - b ∗ (y-D))

with a and b the regression of x' - D and γ² = Ê over the power of what is left. Gaussian around D,
as a draw by one call is, it does not become: γ is a filter near 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.diffusion.error_model import in_every_mode
from gibbsdiff.diffusion.solvers import Draw, Sampler
from gibbsdiff.fourier import (
    REFERENCE,
    between_references,
    fft,
    filtered,
    from_opponent,
    half_plane,
    to_opponent,
)
from gibbsdiff.identity import digest_of
from gibbsdiff.inference.fingerprint import callable_digest
from gibbsdiff.noise.covariance import NoiseCovariance
from gibbsdiff.streams import Streams

BELIEF = 0.1  # sd of a and b, before they are measured
FEW = 10.0  # modes that γ = 1 counts for beside those of the trial draws


@dataclass(frozen=True)
class Matched:
    """A sampler whose draws are corrected by a, b and log γ, (3, C, 8)."""

    sampler: Sampler
    table: Tensor

    def __call__(self, denoiser: Denoiser, y: Tensor, noise: NoiseCovariance, rng: Streams) -> Draw:
        """The sampler's draw with the moments of one call; its mean and calls are as they were."""
        draw = self.sampler(denoiser, y, noise, rng)
        D, shape = draw.mean, (y.shape[-2], y.shape[-1])
        a, b, log_gain = in_every_mode(self.table.to(y), shape)
        off = filtered(to_opponent(centred(D)), a) + filtered(to_opponent(y - D), b)
        around = filtered(to_opponent(draw.x - D) - off, log_gain.exp())
        return draw._replace(x=D + from_opponent(around))

    def digest(self) -> str | None:
        """The sampler's, marked: the table follows from it and the image."""
        own = callable_digest(self.sampler)
        return own and digest_of("matched", own)


@torch.no_grad()
def matched(
    sampler: Sampler, denoiser: Denoiser, y: Tensor, noise: NoiseCovariance, rng: Streams
) -> tuple[Matched, int]:
    """The sampler for one image y (1, C, H, W), and the calls made: a trial draw for each stream.

    The denoiser's error must have a spectrum, and be that of this image: `Denoiser.adapted`.
    """
    rows = torch.zeros(len(rng), dtype=torch.int64)
    draw = sampler(denoiser, y[rows], noise.rows(rows), rng)
    error = denoiser(y, noise).error
    E = None if error is None else error.spectrum()
    assert E is not None
    found = Matched(sampler, lacking(draw.x, draw.mean, y, E))
    return found, int(draw.calls.sum()) + 1


def lacking(x: Tensor, D: Tensor, y: Tensor, E: Tensor) -> Tensor:
    """a, b and log γ of draws x (n, C, H, W) around D, (3, C, 8); E (1, C, H, W//2+1) is what the
    power of x - D should be.

    a and b minimise Σ w |x - D - a (D-m) - b (y-D)|²/Ê and (a² + b²)/BELIEF² at each knot.
    """
    shape = (x.shape[-2], x.shape[-1])
    knots, weight = between_references(shape), half_plane(shape).weight
    e, d, r = (
        fft(to_opponent(part)).flatten(2).to(torch.complex128)
        for part in (x - D, centred(D), y - D)
    )
    tables = []
    for c in range(x.shape[1]):
        own = weight / E[0, c].double().flatten()
        fields = (d[:, c], r[:, c])
        gram = [
            torch.cat([(knots * _product(p, q, own)) @ knots.T for q in fields], 1) for p in fields
        ]
        wanted = torch.cat([knots @ _product(e[:, c], p, own) for p in fields])
        A = torch.cat(gram) + torch.eye(2 * len(REFERENCE), dtype=torch.float64) / BELIEF**2
        a, b = torch.linalg.solve(A, wanted).chunk(2)
        left = e[:, c] - (a @ knots) * fields[0] - (b @ knots) * fields[1]
        power = knots @ _product(left, left, own)
        gain = (len(x) * (knots @ weight) + FEW) / (power + FEW)
        tables.append(torch.stack([a, b, 0.5 * gain.log()]))
    return torch.stack(tables, 1)


def centred(D: Tensor) -> Tensor:
    """D without its mean level, which no filter may change."""
    return D - D.mean((-2, -1), keepdim=True)


def _product(p: Tensor, q: Tensor, weight: Tensor) -> Tensor:
    return (p.conj() * q).real.sum(0) * weight
