r"""What a denoiser is shown of an observation, and what the likelihood of φ takes from y - x.

Most often there is nothing between: y is shown as it is, and eq. (8) sees all of y - x. Three cases
need more: a grey picture meets a network for colour; a picture that is not periodic, or lacks
pixels, meets a likelihood written for periodic grids; and φ of a large picture is stated on the
grid of the windows that it was found from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape, filtered, from_opponent, half_plane, power, to_opponent
from gibbsdiff.identity import digest_of
from gibbsdiff.inference.weights import Weights, independent_share
from gibbsdiff.noise.base import NoiseModel
from gibbsdiff.noise.covariance import NoiseCovariance, SpectralCovariance
from gibbsdiff.noise.level import Light
from gibbsdiff.noise.levelled import LevelledStatistic
from gibbsdiff.noise.stationary import StationaryNoise, Statistic
from gibbsdiff.streams import Streams

EDGE = 1 / 8  # part of each side over which the taper rises


@dataclass(frozen=True)
class ObservationModel:
    r"""The noise on a picture of H×W pixels, and how both are shown to a denoiser.

    `grey`: y (B, 1, H, W) is shown as colours. Equal channels g have the luminance √3 g, whose
    noise is √3 ε; iid chroma noise of that covariance makes it an RGB observation with noise
    √3 ε, and x is a third of the sum of the channels. φ is judged by the luminance alone.

    `window` w (1 or B, 1, H, W), for stationary noise: P = |F(w ε)|²/mean(w²), the tapered
    spectrum, without the mean of ε. The taper correlates neighbouring modes: the likelihood is
    scaled by the share of independent ones, (Σw²)²/(HW Σw⁴).

    `observed` (H, W), for noise without a spectrum: the pixels that its likelihood sees.

    `weights` w, for stationary noise, eq. (14): the whitened residual is weighted as well,
    P = N |F(w F*[N^(-½) F(window ε)])|²/mean((w window)²).

    `light`: the picture's brightness, for noise whose level goes with it, eq. (15).

    `stated_on`: the grid that φ belongs to, where that is another than the picture's: families
    normalise over their grid, and the same φ is another noise on another grid.
    """

    noise: NoiseModel
    shape: Shape
    grey: bool = False
    window: Tensor | None = None
    observed: Tensor | None = None
    stated_on: Shape | None = None
    weights: Weights | None = None
    light: Light | None = None

    def lit(self, rows: Tensor | None = None) -> NoiseModel:
        """The noise on the named images, by default all of them in order."""
        if self.light is None:
            return self.noise
        light = self.light if rows is None else self.light.rows(rows)
        return stationary(self.noise).lit(light)

    @property
    def levelled(self) -> bool:
        """Whether the level of the noise goes with the brightness."""
        return self.light is not None and stationary(self.noise).level_curve is not None

    def noise_covariance(
        self, phi: Tensor, dtype: torch.dtype, rows: Tensor | None = None
    ) -> NoiseCovariance:
        """Σ_φ of the pictures themselves."""
        noise = self.lit(rows)
        if self.stated_on is None:
            return noise.covariance(self.shape, phi, dtype)
        return on_grid(stationary(noise), self.shape, phi, self.stated_on, dtype)

    def covariance(
        self, phi: Tensor, dtype: torch.dtype, rows: Tensor | None = None
    ) -> NoiseCovariance:
        """Σ_φ of what the denoiser is shown of the named images."""
        covariance = self.noise_covariance(phi, dtype, rows)
        if not self.grey:
            return covariance
        return covariance.scaled(torch.full((len(phi),), math.sqrt(3), dtype=torch.float64))

    def show(self, y: Tensor, covariance: NoiseCovariance, rng: Streams) -> Tensor:
        """What the denoiser is given: y, or y with chroma noise of the current φ."""
        if not self.grey:
            return y
        chroma = covariance.draw(rng, 2)
        return from_opponent(torch.cat([math.sqrt(3) * y, chroma], 1))

    def take(self, x: Tensor) -> Tensor:
        """The signal in the channels of y."""
        return x.mean(1, keepdim=True) if self.grey else x

    def take_power(self, opponent: Tensor) -> Tensor:
        """A power or variance (B, C, ...) in opponent colours, in the channels of y."""
        return opponent[:, :1] / 3 if self.grey else opponent

    def counted(self, rows: Tensor) -> Tensor:
        """(B,) share of independent modes of the named images."""
        if self.weights is not None:
            return self.weights.share[rows]
        if self.window is None:
            return torch.ones(len(rows), dtype=torch.float64)
        return independent_share(self._rows(rows)).expand(len(rows))

    def statistic(
        self,
        residual: Tensor,
        rows: Tensor | None = None,
        variance: Tensor | None = None,
        N: Tensor | None = None,
        g: Tensor | None = None,
        most: float | None = None,
    ) -> Any:
        """What the likelihood needs of ε = y - x. `rows` names the image that each residual is of;
        by default they are all images in order.

        `variance` (B, C, H, W//2+1) is added to the power: the part of E|ε̂|² not in residual. `N`
        whitens a residual that is weighted; by default the weights' own. Noise with a level map
        needs ε itself, for every g; with one g (B, 1, H, W) given it is the statistic of ε/g.
        No mode has a power of more than `most` N: of noise itself e^-most of them would.
        """
        if self.levelled and g is None:
            return self._for_every_level(residual, rows)
        if g is not None:
            residual = residual / g
            if self.window is None and self.weights is None and variance is None:
                # g may be what HMC moves: the statistic must be differentiable in it.
                return stationary(self.noise).statistic_of(residual.double())
        if self.window is None and self.weights is None and variance is None:
            return self.noise.statistic(residual, observed=self.observed)
        noise = stationary(self.noise)
        grouping = noise.grouping(self.shape)
        rows = torch.arange(len(residual)) if rows is None else rows
        P, share = self.power(residual, rows, N), self.counted(rows).view(-1, 1, 1)
        if most is not None and N is not None:
            P = torch.minimum(P, most * N)
        if variance is not None:
            P = P + variance
        # The mean of a cut field holds what is slower than the cut, not N(0).
        counts = torch.ones_like(grouping.k.k) if self.window is None else grouping.k.k > 0
        share, h = share * counts, self.mode_weights(rows)
        P, channels = noise.by_spectrum(P if h is None else P * h)
        P = grouping.sum(P) * share
        if h is not None:
            share = share * grouping.sum(noise.by_spectrum(h)[0] / channels) / grouping.k.weight
        return Statistic(grouping.k, P, channels, share)

    def _for_every_level(self, residual: Tensor, rows: Tensor | None) -> LevelledStatistic:
        """ε, and how it is seen when it is divided by some g."""
        rows = torch.arange(len(residual)) if rows is None else rows
        assert self.light is not None
        ones = torch.ones_like(residual[:, :1], dtype=torch.float64)
        return LevelledStatistic(
            residual.double(),
            self.light.rows(rows),
            lambda part: self.statistic(part, rows, g=ones),
            self.pixels_counted(rows),
        )

    def pixels_counted(self, rows: Tensor) -> Tensor:
        """How much a pixel counts, (1 or B, 1, H, W): share · t²/mean t² under a window t."""
        t = self.whole_window(rows)
        if t is None:
            return torch.ones(1, 1, *self.shape, dtype=torch.float64)
        share = self.counted(rows).view(-1, 1, 1, 1)
        return share * t.square() / t.square().mean((-2, -1), keepdim=True)

    def mode_weights(self, rows: Tensor) -> Tensor | None:
        """h of the named images, (B, C, H, W//2+1); None is 1."""
        if self.weights is None or self.weights.modes is None:
            return None
        return self.weights.modes[rows]

    def power(self, residual: Tensor, rows: Tensor, N: Tensor | None = None) -> Tensor:
        """P of ε in every mode and opponent channel, through window and weights,
        (B, C, H, W//2+1): E P = N_φ for noise of that spectrum, if N is N_φ or there are no
        weights.
        """
        shown = to_opponent(residual.double())
        if self.window is not None:
            w = self._rows(rows).double()
            mean = (w * shown).sum((-2, -1), keepdim=True) / w.sum((-2, -1), keepdim=True)
            shown = (shown - mean) * w
        if self.weights is None:
            P = power(shown)
        else:
            N = self.weights.whitening(rows) if N is None else N
            assert N is not None
            white = filtered(shown, N.double().rsqrt())
            P = N * power(self.weights.of(rows) * white)
        v = self.whole_window(rows)
        P = P if v is None else P / v.square().mean((-2, -1), keepdim=True)
        if self.weights is None or N is None:
            return P
        return P - self.weights.excess[rows].view(-1, 1, 1, 1) * N

    def whole_window(self, rows: Tensor) -> Tensor | None:
        """Window times weights of the named images, (1 or B, 1, H, W); None is 1."""
        parts = [] if self.window is None else [self._rows(rows).double()]
        if self.weights is not None:
            parts.append(self.weights.of(rows))
        return math.prod(parts[1:], start=parts[0]) if parts else None

    def weighted(
        self,
        maps: Tensor,
        images: int,
        *,
        together: bool = False,
        excess: Tensor | None = None,
        modes: Tensor | None = None,
    ) -> ObservationModel:
        """The same with weights (1 or B, 1, H, W) on the places of `images` images."""
        v = maps.double() if self.window is None else maps.double() * self.window.double()
        share = independent_share(v.expand(images, -1, -1, -1), together)
        excess = torch.zeros_like(share) if excess is None else excess
        return replace(self, weights=Weights(maps.double(), share, excess, modes=modes))

    def digest(self) -> str | None:
        """What it depends on beside the noise, for the identity of a run."""
        own: tuple[Any, ...] = (self.shape, self.grey, self.stated_on, self.window, self.observed)
        if self.light is not None:
            own = (*own, self.light.map, self.light.whole)
        if self.weights is None:
            return digest_of(*own)
        return digest_of(*own, self.weights.name or self.weights.maps)

    def _rows(self, rows: Tensor) -> Tensor:
        assert self.window is not None
        return self.window if len(self.window) == 1 else self.window[rows]


def stationary(noise: NoiseModel) -> StationaryNoise:
    """The noise, if it has a spectrum; otherwise an `InputError` that says what needs one."""
    if not isinstance(noise, StationaryNoise):
        raise InputError(f"{noise} has no spectrum: the marginal method and tapers need one")
    return noise


def taper(shape: Shape, missing: Tensor | None = None, edge: float = EDGE) -> Tensor:
    """(1, 1, H, W): a cosine rise over a part of each side, and zero where pixels are missing."""
    rises = []
    for n in shape:
        width = max(1.0, edge * n)
        to_border = torch.minimum(torch.arange(n) + 0.5, n - 0.5 - torch.arange(n)).double()
        rises.append(0.5 - 0.5 * torch.cos(math.pi * (to_border / width).clamp(max=1)))
    w = (rises[0][:, None] * rises[1])[None, None]
    return w if missing is None else w * (~missing)[None, None]


def on_grid(
    noise: StationaryNoise, shape: Shape, phi: Tensor, like: Shape, dtype: torch.dtype
) -> SpectralCovariance:
    """N_φ(k) as it is on the grid `like`, on the wave vectors of another grid."""
    here = half_plane(shape)
    modes = noise.grouping(like).k
    raised = here.without_zero
    log_n = noise.log_spectra(modes.with_frequencies(raised.kx, raised.ky), phi)
    N = torch.exp(log_n[..., -len(here.kx) :]).to(dtype).unflatten(-1, (shape[0], -1))
    descriptor, level = noise.descriptor(like, phi).to(dtype), noise.level_map(phi)
    return SpectralCovariance(
        N,
        shape,
        descriptor,
        noise.shape_parameters(phi).to(dtype),
        level_map=None if level is None else level.to(dtype=dtype),
    )
