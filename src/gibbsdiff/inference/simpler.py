"""`noise="auto"`: photographs' noise, and the simplest family that says the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from gibbsdiff.fourier import half_plane
from gibbsdiff.inference.posterior import Posterior

AUTO = "auto"
SIMPLER = ("white", "power-law")  # the simplest first
FAR = 0.35  # rms of log N off a simpler family's, beyond which that is not tried
LARGE = 1 / 16  # |k| below which pictures hide the noise


def with_simpler(posterior_of: Callable[[str], Posterior], first: str) -> Posterior:
    """The posterior of the noise that a picture has by its kind and, as its `simpler`, that of the
    first simpler family whose spectrum it allows and which the check accepts.
    """
    found = posterior_of(first)
    # White noise and power laws have one level everywhere, and counted light has not.
    if found.interrupted or found.returned or found.line is not None:
        return found
    for name in SIMPLER:
        if not could_be(found, name):
            continue
        other = posterior_of(name)
        if other.interrupted:
            break
        if other.check is not None and other.check.fits and other.ended:
            return replace(found, simpler=other)
    return found


def could_be(posterior: Posterior, name: str) -> bool:
    """Whether spectra are near enough to a family's: log N of all channels a constant, or a line in
    log|k|, each mode counted once.
    """
    if posterior.noise_power is None:
        return False
    height, width = posterior.observed.shape[-2:]
    modes = half_plane((height, width))
    seen = (modes.k > LARGE) * modes.weight
    log_n = torch.log(posterior.noise_power.double().flatten(1))
    columns = [torch.ones_like(modes.k)]
    if name == "power-law":
        columns.append(modes.log_k)
    A = torch.stack(columns, 1) * seen.sqrt()[:, None]
    b = (log_n * seen.sqrt()).mean(0)
    line = torch.stack(columns, 1) @ torch.linalg.lstsq(A, b[:, None]).solution[:, 0]
    off = ((log_n - line).square() * seen).sum() / (seen.sum() * len(log_n))
    return float(off.sqrt()) < FAR
