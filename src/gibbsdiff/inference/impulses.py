"""Impulses: hot and dead pixels, and salt and pepper, which no Gaussian noise has.

A denoiser for Gaussian noise takes an impulse for a thing, and keeps it. A pixel that stands out of
all its neighbours tells nothing of what is behind it: it is missing, and inferred from the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.inference.encoding import Given
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.whitened import sticking_out

KIND, ALONE = "impulses", "single pixels"  # of the check's finding
MANY = 7e-4  # of the pixels: 145 photographs of 256² have up to 6.4e-4, half of them 1.5e-5
MOST = 0.05  # more of them are no impulses
OF_PHOTOGRAPHS = "uint8"


def impulses_in(posterior: Posterior) -> Tensor | None:
    """Pixels (H, W) of the picture that stand out of all their neighbours by more than its noise
    explains; None where there are none, or too many.
    """
    N = posterior.noise_power
    if N is None:
        return None
    y = posterior.observed[None].double()
    out = sticking_out(y, N[None].double())[0, 0] > 1
    if posterior.missing is not None:
        out &= ~posterior.missing
    return out if 0 < float(out.double().mean()) < MOST else None


def without_impulses(
    posterior_of: Callable[[Given], Posterior], given: Given, wanted: bool | None
) -> Posterior:
    """The posterior of a picture, or, where it has impulses, of what is left without them.

    Arguments:
        wanted: Whether impulses are taken out; None: of colour pictures of 8 bits that have many
            more of them than photographs have. A star may be a single pixel, and a photon.
    """
    found = posterior_of(given)
    if wanted is False or found.interrupted or found.calls == 0:  # given back at once
        return found
    if wanted is None and (given.encoding.dtype != OF_PHOTOGRAPHS or len(given.values) != 3):
        return found
    out = impulses_in(found)
    if out is None or (wanted is None and not _too_many(found, out)):
        return found
    try:
        left = posterior_of(given._replace(values=given.values.masked_fill(out, torch.nan)))
    except KeyboardInterrupt:
        return replace(found, interrupted=True)
    if left.interrupted:
        return replace(found, interrupted=True)
    note = f"{int(out.sum())} pixels stand out of all their neighbours: taken for missing"
    calls, seconds = found.calls + left.calls, found.seconds + left.seconds
    return replace(left, notes=(*left.notes, note), calls=calls, seconds=seconds)


def _too_many(posterior: Posterior, out: Tensor) -> bool:
    """Whether the check says so, which knows the noise, or their number."""
    misfits = () if posterior.check is None else posterior.check.misfits
    alarmed = any(f.kind == KIND and f.channel == ALONE for f in misfits)
    return alarmed or float(out.double().mean()) > MANY
