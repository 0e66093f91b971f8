r"""Listening where the network knows, eq. (14): weights of places in the score of φ.

At the true φ every place of a picture adds a score of zero mean, so that any weights that are given
leave an estimating equation of zero mean; and what is wrong with a network sits where it is unsure,
at edges and in texture. The weights are powers of what the noise shows of itself in a place,

    w(p) = max(1 - e(p)/N̄, floor)^a

with e(p) the variance of x - D in a pixel, the mean of the channels, smoothed over a few pixels,
and N̄ the noise's. They are frozen before the last search: the score stays smooth in φ.

Such weights know the noise a little. Where it happens to be weak a picture looks smooth, and the
network is surer of it: they choose places of weak noise, and would find too little. How much too
little is seen on a replicate of the observation, a draw of x | y under noise ε' drawn anew: by its
own weights w' its noise has less power than by w, which do not know it. That excess,

    b = Σ w'² ε'²/Σ w'² - Σ w² ε'²/Σ w²        (ε' whitened: E ε'² = 1)

is taken off the power of the weighted residual.

The same holds for modes: where s = Ê/N is near 1 the network keeps y as it is, the noise shows
nothing of itself, and what the network errs by is all that the score hears. Modes have the weights

    h(k) = (1 - s(k))^p

with s in the chosen places, frozen as well. They cost some information: Cov φ̂ = H⁻¹ V H⁻¹, with H
the information of the weighted score and V its variance, instead of H⁻¹.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.tweedie import through
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, filtered, half_plane
from gibbsdiff.noise.covariance import Covariance, NoiseCovariance, SpectralCovariance

FLOOR = 0.02  # least share of the noise that a place is taken to show


class Weights(NamedTuple):
    """Maps w (1 or B, 1, H, W), the share (B,) of independent modes that they leave, the `excess`
    b (B,) of noise in the places that they chose, and the power N (1 or B, 1 or C, H, W//2+1) of
    the noise that whitens a residual before it is weighted, where it is not that of the current φ.
    `modes` h (B, C, H, W//2+1) are weights of modes. `name` stands for all of it in the identity of
    a run.
    """

    maps: Tensor
    share: Tensor
    excess: Tensor
    N: Tensor | None = None
    modes: Tensor | None = None
    name: str | None = None

    def of(self, rows: Tensor) -> Tensor:
        """The maps of the named images."""
        return self.maps if len(self.maps) == 1 else self.maps[rows]

    def whitening(self, rows: Tensor) -> Tensor | None:
        """N of the named images."""
        return self.N if self.N is None or len(self.N) == 1 else self.N[rows]


@dataclass(frozen=True)
class Sureness:
    """The rule by which weights are made: the smoothing in pixels (sd), the exponent p of `modes`,
    and that of places, a = slope · n^0.6 up to `most`, for n pixels that tell of one φ: the more
    there are, the less it costs to leave some out, and the more the network's errors count beside
    the noise's own.
    """

    slope: float
    most: float
    smoothing: float
    modes: float

    def shown(self, error: Covariance | None, noise: NoiseCovariance, channels: int) -> Tensor:
        """1 - e(p)/(g² N̄), (B, 1, H, W), from the error of x in opponent colours; of a grey picture
        that is shown as colours `channels` is 1, and its luminance alone counts.
        """
        variance = None if error is None else error.pixel_variance()
        if variance is None:
            raise InputError("weights: this denoiser does not say where in a picture it is unsure")
        e = smoothed(variance[:, :channels].mean(1, keepdim=True), self.smoothing)
        of_noise = noise.level.to(e).square().view(-1, 1, 1, 1)
        if isinstance(noise, SpectralCovariance) and noise.level_map is not None:
            of_noise = of_noise * noise.level_map.g.to(e).square()
        return (1 - e / of_noise).clamp(FLOOR, 1).double()

    def weights(self, shown: Tensor, *, together: bool = False) -> Tensor:
        """w of images, or of parts of one picture `together`. The largest is 1: powers of small
        numbers would vanish.
        """
        largest = shown.amax() if together else shown.amax((1, 2, 3), keepdim=True)
        pixels = shown[0].numel() * (len(shown) if together else 1)
        return (shown / largest).pow(self.exponent(pixels))

    def modes_of(self, s: Tensor, shown: Tensor, window: Tensor) -> Tensor:
        """h (B, C, H, W//2+1) from Ê/N of whole images: less in places chosen by the `window`
        (B, 1, H, W), by how much less the error is there, and smoothed as they smooth spectra.
        """
        e, v2 = 1 - shown, window.square()
        least = (v2 * e).sum((1, 2, 3)) / v2.sum((1, 2, 3)) / e.mean((1, 2, 3)).clamp(min=1e-12)
        there = through(s.double() * least.clamp(max=1).view(-1, 1, 1, 1), window)
        return (1 - there).clamp(0, 1).pow(self.modes)

    def exponent(self, pixels: int) -> float:
        """a for so many pixels."""
        return float(min(self.most, self.slope * pixels**0.6))

    @property
    def name(self) -> str:
        """For the identity of a run: the maps follow from it, the image and the denoiser."""
        return f"sure {self.slope:g} {self.most:g} {self.smoothing:g} {self.modes:g}"


def independent_share(v: Tensor, together: bool = False) -> Tensor:
    """(B,) of independent modes that windows v (B, 1, H, W) leave, each image's own part.

    One image has (Σv²)²/(HW Σv⁴). Images that tell of one φ `together` are weighted among each
    other as well: mean v² of each, times Σv²/Σv⁴ over all.
    """
    second, fourth = (v.double().pow(p).mean((1, 2, 3)) for p in (2, 4))
    if together:
        return second * second.sum() / fourth.sum()
    return second.square() / fourth


def excess_of(own: Tensor, other: Tensor, white: Tensor, *, together: bool = False) -> Tensor:
    """b (B,): mean square of whitened noise (B, C, H, W) by windows that know it, less that by
    `other` ones which do not; of parts of one picture, over all of them.
    """
    square = white.double().square().mean(1, keepdim=True)

    def seen(v: Tensor) -> Tensor:
        of_noise, of_all = ((v.square() * part).sum((1, 2, 3)) for part in (square, 1.0))
        if together:
            return (of_noise.sum() / of_all.sum()).expand(len(v))
        return of_noise / of_all

    return seen(own) - seen(other)


def check_maps(maps: Tensor, images: int, shape: Shape) -> Tensor:
    """Weights that a user gives: finite, not negative, not all zero; a map for all or for each."""
    found = torch.as_tensor(maps, dtype=torch.float64)
    found = found.reshape(-1, 1, *found.shape[-2:]) if found.dim() >= 2 else found
    if tuple(found.shape[-2:]) != shape or len(found) not in (1, images):
        raise InputError(f"weights: {tuple(maps.shape)} does not fit pictures of {shape}")
    if not bool(torch.isfinite(found).all()) or bool((found < 0).any()):
        raise InputError("weights: they must be finite, and not negative")
    if not bool((found.amax((1, 2, 3)) > 0).all()):
        raise InputError("weights: nowhere above zero")
    return found / found.amax()


def smoothed(x: Tensor, sd: float) -> Tensor:
    """x (B, 1, H, W) by a Gaussian of this sd in pixels, as if periodic."""
    shape = (x.shape[-2], x.shape[-1])
    k = half_plane(shape).k.reshape(shape[0], -1).to(x)
    return filtered(x, torch.exp(-2 * (torch.pi * sd * k).square()))


def weights_given(given: Any) -> Any:
    """A map as a tensor; whether it fits is seen where it is used."""
    if given is None or isinstance(given, str):
        return given
    try:
        return torch.as_tensor(given, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        raise InputError('weights: "sure", None, or a map (H, W) of numbers') from None
