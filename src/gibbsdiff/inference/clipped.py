r"""Places of a picture where noise was cut off at an end of the range: they tell too little of it.

Noise of sd σ around m that is cut off at 0 has lost, with t = m/σ,

    Φ(-t) (1 - t²) + t φ(t) + μ²,   μ = φ(t) - t Φ(-t)     of its power σ² if the pixels stay,
    t φ(t)/Φ(t) + (φ(t)/Φ(t))²                             if those at 0 are left out

at t = 2, where 2 % are at 0, that is 4 % or 11 %: pixels at 0 are the ones with the largest
deviations. So it is places that are left out, with all their pixels, and only where much is at an
end; elsewhere what is lost goes with the brightness, and a level map says it.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, max_pool2d

from gibbsdiff.inference.posterior import Posterior

SIDE = 9  # of a place, that of `brightness`
BEYOND = 0.25  # of the range, at least, that a source reaches out of it
AROUND = 5  # pixels, side of what is hidden around a pixel of such a source
SHARE = 0.3  # of a channel of a place at an end: there t < ½, and half of the power is lost
NEAR = (1.1, 0.95)  # sd of a place between its mean and an end: the second is that share of white
ENOUGH = 0.8  # of the picture must be left: with less, what is left is not like the rest
SOLID = (0.2, 0.5)  # of the picture at an end without a gap: perhaps made so, and surely
EQUAL, MOST = 0.3, 0.5  # of neighbours: there is no noise between these


def hidden_places(y: Tensor, missing: Tensor | None = None, full: float = 1.0) -> Tensor | None:
    """Pixels (H, W) of y (1, C, H, W) on [0, full] that say nothing of the noise: missing, or in a
    place where many are at an end of the range; None if there are none.
    """
    if made_so(y, full):
        return missing
    ends = _mean(((y <= 0) | (y >= full)).double()).amax(1)[0]
    near = _sd_to_the_end(y.double(), full)
    for places in (ends > SHARE) | (near < NEAR[0]), (ends > SHARE) | (near < NEAR[1]):
        part = float(places.double().mean())
        if 0 < part <= 1 - ENOUGH:
            return places if missing is None else places | missing
    return missing


def _sd_to_the_end(y: Tensor, full: float) -> Tensor:
    """How many of its own sd the mean of each place (H, W) is away from the nearer end."""
    mean = _mean(y)
    sd = (_mean(y.square()) - mean.square()).clamp(min=1e-12).sqrt()
    return (torch.minimum(mean, full - mean) / sd).amin(1)[0]


def _mean(y: Tensor) -> Tensor:
    """Over each place."""
    return avg_pool2d(y, SIDE, 1, SIDE // 2, count_include_pad=False)


def without_outshining(
    y: Tensor, hidden: Tensor | None, even: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """y (1, C, H, W) with what lies far beyond [0, 1], and beyond the rest of it, cut off where a
    network for pictures is at an end, and the hidden pixels with those around such places.

    Sources so bright need no denoising: they are given back as they are, by `outshining`. `even` is
    y with noise of one level, by which they are judged where its own is another in every place.
    """
    judged = y if even is None else even
    some = judged.flatten()[:: max(1, y.numel() // 1_000_000)].double()
    q = torch.quantile(some, torch.tensor([0.01, 0.03, 0.97, 0.99], dtype=torch.float64)).tolist()
    top, bottom = max(1 + BEYOND, 2 * q[2] - q[0]), min(-BEYOND, 2 * q[1] - q[3])
    beyond = (judged < bottom) | (judged > top)
    shown = torch.where(beyond, y.clamp(bottom, top), y)
    out = beyond.any(1)
    if not bool(out.any()):
        return y, hidden
    around = max_pool2d(out.double()[None], AROUND, 1, AROUND // 2)[0, 0] > 0
    return shown, around if hidden is None else around | hidden


def outshining(posterior: Posterior, given: Tensor) -> Posterior:
    """The posterior with what its picture did not show of the values given (C, H, W): there x is
    y, with the sd of the noise.
    """
    seen = torch.isfinite(given)
    out = seen & ((given - posterior.observed).abs() > 1e-4 * (1 + given.abs()))
    if not bool(out.any()):
        return posterior
    own = given.to(posterior.observed)
    level = torch.as_tensor(posterior.level).to(own)
    swap: dict[str, Tensor] = {}
    for name in ("observed", "mean", "average", "samples"):
        if (value := getattr(posterior, name)) is not None:
            swap[name] = torch.where(out, own, value)
    if posterior.sd is not None:
        swap["sd"] = torch.where(out, level, posterior.sd)
    part = float(out.any(0).double().mean())
    note = f"{100 * part:.2g} % of the pixels outshine the rest, and are given back as they are"
    return replace(posterior, notes=(*posterior.notes, note), **swap)  # type: ignore[arg-type]


def made_so(y: Tensor, full: float = 1.0) -> bool:
    """Whether a picture is at the ends of the range because it was drawn so: paper, letters. Noise
    that is cut off there leaves gaps, in one channel or another.
    """
    ends = ((y <= 0).all(1) | (y >= full).all(1))[0]
    solid = ends[:-1, :-1] & ends[1:, :-1] & ends[:-1, 1:]
    share = float(solid.double().mean())
    if share <= SOLID[0] or share > SOLID[1]:
        return share > SOLID[0]
    # A photograph may be overexposed in part; elsewhere it has noise.
    return _equal(y, ~ends) > EQUAL


def without_noise(y: Tensor, full: float = 1.0) -> bool:
    """Whether most neighbours in a picture of integers are equal: drawings, screens, letters. Noise
    of one level makes them so in less than a third.
    """
    ends = ((y <= 0).all(1) | (y >= full).all(1))[0]
    return _equal(y, torch.ones_like(ends) if made_so(y, full) else ~ends) > MOST


def _equal(y: Tensor, seen: Tensor) -> float:
    """The share of neighbours that are equal in all channels, along rows or columns: the less."""
    shares = []
    for axis in (-1, -2):
        n = y.shape[axis]
        same = (y.narrow(axis, 1, n - 1) == y.narrow(axis, 0, n - 1)).all(1)[0]
        both = seen.narrow(axis, 1, n - 1) & seen.narrow(axis, 0, n - 1)
        shares.append(float((same & both).sum()) / max(1.0, float(both.sum())))
    return min(shares)
