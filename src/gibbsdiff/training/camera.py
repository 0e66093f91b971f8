r"""Noise as cameras leave it, for training: a filter for each opponent channel, and level maps.

White noise of the sensor is demosaiced, smoothed and subsampled: in each channel it gets a roll-off
H²(k) = exp(-(|k|/kc)^p) + e^f, in chroma at much larger scales than in luma. Luma may have a part
of green chroma's noise, eq. (17). Its level goes with the brightness, the counts or the place,
eq. (15).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import interpolate

CHANNELS = 3
WHITE = 0.4  # part of the camera's noises that were white before its filters
LUMA_CUT, CHROMA_CUT = (0.15, 0.8), (0.07, 0.6)  # kc, log-uniform
LUMA_PART, CHROMA_PART = 0.55, 0.85  # how often a channel is filtered at all
POWER, FLOOR = (1.4, 2.2), (-3.0, -8.0)  # p and f, uniform
RATIO, RATIO2 = 0.8, 0.3  # sd of the log-power of chroma over luma, and of the two chromas
LEAST_COUNT = math.exp(-5.8)  # of read noise over light
LARGEST = 3.0  # of |log g| before it is normalised
FIELD = 5  # knots of a map by place, along each side
LUMA, GREEN = 0, 2  # of the opponent channels
BETA, BETA_SD = 0.65, 0.15  # of eq. (17): of sensors, and somewhat wider


class Filters(NamedTuple):
    """H² of every image and opponent channel, all (B, 3) but for the first two and the last.

    `camera` (B, 1) tells whose noise is a camera's, where it is not H = 1; `white` (B, 1) whose
    noise was white before; `beta` (B, 1) how much of green chroma's noise luma has, eq. (17).
    """

    camera: Tensor
    white: Tensor
    filtered: Tensor
    cut: Tensor
    power: Tensor
    floor: Tensor
    offset: Tensor
    beta: Tensor

    def log_power(self, k: Tensor) -> Tensor:
        """log H² and the channel's offset, luma with what it has of green chroma's noise: |k| (M,)
        -> (B, 3, M).
        """
        roll = -((k / self.cut[..., None]) ** self.power[..., None])
        log_h = torch.logaddexp(roll, self.floor[..., None])
        own = torch.where(self.filtered[..., None], log_h, 0.0) + self.offset[..., None]
        of_green = 2 * torch.log(self.beta) + own[:, GREEN]
        return torch.cat([torch.logaddexp(own[:, LUMA], of_green)[:, None], own[:, 1:]], 1)

    def own(self, power: Tensor) -> Tensor:
        """N (B, 3, M) without what luma has of green chroma's noise."""
        luma = power[:, LUMA] - self.beta.square() * power[:, GREEN]
        return torch.cat([luma.clamp(min=0)[:, None], power[:, 1:]], 1)

    def together(self, noise: Tensor) -> Tensor:
        """Independent noise in opponent channels, (B, 3, H, W), luma's joined by β of green's."""
        luma = noise[:, LUMA] + self.beta[:, :, None] * noise[:, GREEN]
        return torch.cat([luma[:, None], noise[:, 1:]], 1)


def draw_filters(
    count: int, rng: torch.Generator, part: float, together_part: float = 0.0
) -> Filters:
    """Those of a batch, a `part` of which is a camera's; in a `together_part` of these luma has a
    part of green chroma's noise.
    """
    camera = torch.rand(count, 1, generator=rng) < part
    u = torch.rand(count, CHANNELS, 6, generator=rng)
    n = torch.randn(count, CHANNELS, 2, generator=rng)
    luma, chroma = u[:, :1], u[:, 1:2].expand(-1, CHANNELS - 1, -1)
    each = torch.cat([luma, chroma], 1)  # both chroma channels have one filter
    cut = torch.cat(
        [_log_uniform(luma[..., 0], LUMA_CUT), _log_uniform(chroma[..., 0], CHROMA_CUT)], 1
    )
    filtered = torch.cat([luma[..., 3] < LUMA_PART, chroma[..., 3] < CHROMA_PART], 1)
    shared = RATIO * n[:, 1:2, 0]
    offset = torch.cat([torch.zeros(count, 1), shared, shared + RATIO2 * n[:, 2:3, 1]], 1)
    goes = camera & (u[:, 1, 5:6] < together_part)
    beta = torch.where(goes, (BETA + BETA_SD * n[:, 0, 1:2]).clamp(min=0), 0.0)
    return Filters(
        camera,
        camera & (u[:, 0, 5:6] < WHITE),
        filtered & camera,
        cut,
        POWER[0] + (POWER[1] - POWER[0]) * each[..., 1],
        FLOOR[0] + (FLOOR[1] - FLOOR[0]) * each[..., 2],
        torch.where(camera, offset, 0.0),
        beta,
    )


class LevelLaw(NamedTuple):
    """What the level of each image's noise goes with: u (B, 4) chooses and scales it, `field`
    (B, 1, 5, 5) is that of a place; a `part` of the images has a level map at all.
    """

    u: Tensor
    field: Tensor
    part: float

    def rows(self, index: Tensor) -> LevelLaw:
        """The laws of some images of the batch."""
        return LevelLaw(self.u[index], self.field[index], self.part)

    def g(self, light: Tensor) -> Tensor:
        """g (B, 1, H, W) of mean square 1, for a brightness (B, 1, H, W)."""
        has, which, first, second = self.u.to(light)[:, :, None, None, None].unbind(1)
        off = light - 0.5
        by_light = (-1.2 + 2.7 * first) * off + (-3.0 + 4.5 * second) * off.square()
        # Counts: the variance is read noise plus light.
        by_counts = 0.5 * torch.log(LEAST_COUNT**second + light.clamp(min=0))
        by_place = 0.6 * first * self._smooth(light)
        log_g = torch.where(which > 0.6, by_counts, by_light)
        log_g = torch.where(which < 0.3, by_place, log_g)
        log_g = log_g - log_g.mean((1, 2, 3), keepdim=True)
        g = torch.exp(torch.where(has < self.part, log_g, 0.0).clamp(-LARGEST, LARGEST))
        return g / g.square().mean((1, 2, 3), keepdim=True).sqrt()

    def _smooth(self, light: Tensor) -> Tensor:
        size = (light.shape[-2], light.shape[-1])
        return interpolate(self.field.to(light), size=size, mode="bicubic", align_corners=True)


def draw_levels(count: int, rng: torch.Generator, part: float) -> LevelLaw:
    """The laws of a batch."""
    u = torch.rand(count, 4, generator=rng)
    return LevelLaw(u, torch.randn(count, 1, FIELD, FIELD, generator=rng), part)


def _log_uniform(u: Tensor, ends: tuple[float, float]) -> Tensor:
    return torch.exp(math.log(ends[0]) + u * math.log(ends[1] / ends[0]))
