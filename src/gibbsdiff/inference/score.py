"""What one call of a denoiser says at some φ, and the score made of it, eq. (11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance, SpectralCovariance


class ScoreAt(NamedTuple):
    """What one call of the denoiser says at some φ: D(y), its error's power Ê, as far as windows
    and weights keep it, and the noise's power N, all in the channels of y. With a level map g,
    eq. (15), E and N are those of (x - D)/g and ε/g, and `trace` is that of ∂D/∂y in every pixel.
    `around` (B, C, H, W) is the sd of x around D by the denoiser's own word, `beyond` what a probe
    found of Ê/N beyond that word.
    """

    mean: Tensor
    E: Tensor
    N: Tensor
    around: Tensor
    beyond: Tensor
    g: Tensor | None = None
    trace: Tensor | None = None


class Called(NamedTuple):
    """What the denoiser says of some images at some φ: D and its error's power by its own word, in
    the channels of y, the sd of x around D, D of other y nearby, how y is shown, and the estimate
    as it came.
    """

    covariance: NoiseCovariance
    mean: Tensor
    E: Tensor
    around: Tensor
    mean_of: Callable[[Tensor], Tensor]
    show: Callable[[Tensor], Tensor]
    estimate: tuple[Tensor, Covariance | None]


class Score(NamedTuple):
    """∂_u log p(u | y) (n, d), the information J of eq. (11) (n, d, d), the score's variance V,
    which is another where modes are weighted, eq. (14), and what they came from.
    """

    gradient: Tensor
    information: Tensor
    variance: Tensor
    at: ScoreAt


def sum_by_owner(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Sums of the rows that belong to one problem."""
    out = values.new_zeros(count, *values.shape[1:])
    return out.index_add_(0, owner, values)


def level_of(covariance: NoiseCovariance) -> Tensor | None:
    """g of eq. (15), if there is one."""
    level = covariance.level_map if isinstance(covariance, SpectralCovariance) else None
    return None if level is None else level.g


def known(part: Tensor | None) -> Tensor:
    """A part of an error that must be there."""
    if part is None:
        raise InputError("the marginal method needs a denoiser whose error has a spectrum")
    return part
