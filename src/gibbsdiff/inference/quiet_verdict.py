"""Whether quiet places tell noise from texture."""

from __future__ import annotations

import math

from torch import Tensor

FEWEST = 12  # patches
UNEVEN = 0.2  # κ: grass and gravel have 0.25 to 0.5, noise 0.15 at most
SMALL, ENOUGH = 0.15, 20.0  # |k| above which log p must gain so much by noise
GREY = 4.0  # log power of luma over chroma beyond which a pattern is texture
ALIKE, FALL, STEEP = 0.75, (0.12, 0.63), 3.0  # texture alone: share of patches, log power lost


def verdict(
    k: Tensor, power: Tensor, flat: Tensor, gain: Tensor, uneven: Tensor, count: int
) -> tuple[bool, str]:
    """Whether luma has quiet places, and if not, why.

    A picture that is alike everywhere and whose power falls towards small scales is as well a
    texture as noise: no patch tells. But texture is nearly grey, which noise is not, and scatters
    from place to place, κ, as noise does not.
    """
    small = k > SMALL
    if float(gain[0, small].max()) < ENOUGH or float(flat[0, small].max()) < FEWEST:
        return False, "no quiet place: noise and texture cannot be told apart"
    at = [int((k - end).abs().argmin()) for end in FALL]
    fall = float(power[0, at[0]].log() - power[0, at[1]].log())
    grey = math.inf
    if len(power) > 1:
        middle = (k > 0.1) & (k < 0.32)
        by_channel = power[:, middle].clamp(min=1e-12).log().mean(1)
        grey = float(by_channel[0] - by_channel[1:].mean())
    alike = float(flat[0, small].max()) > ALIKE * count
    scatters = float(uneven[0, small].max()) > UNEVEN
    if alike and fall > STEEP and grey > GREY and scatters:
        return False, "the picture is alike everywhere: noise and texture cannot be told apart"
    return True, ""
