r"""Noise whose level changes over the picture: ε = g ⊙ stationary noise, eq. (15).

g (1, H, W) has the mean square 1, so that N(k) stays the mean power of ε. Where it goes with the
brightness, it is a curve of one smoothed map l of the picture, which does not depend on x:
Σ = g Σ₀ g is then a covariance like any other. A network is shown the curve at the brightness of
its own noisy input, as it was trained: by that of a clean picture it would copy it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

SIDE = 9  # pixels over which the brightness of a noisy picture is averaged
LARGEST = 3.0  # of |log g| that a network is shown, as in training
PARTS = 512  # quantiles that stand for all pixels of a larger picture


def brightness(z: Tensor, side: int = SIDE) -> Tensor:
    """The mean of the channels over side × side pixels: (B, C, H, W) -> (B, 1, H, W)."""
    light = pad(z.mean(1, keepdim=True), (side // 2,) * 4, mode="reflect")
    return avg_pool2d(light, side, 1)


@dataclass(frozen=True)
class Light:
    """The brightness l that g goes with, a `map` (1 or B, 1, H, W); `whole` (n,) has its quantiles
    over all observed pixels of the picture, which g has the mean square 1 over: `map` may be a part
    of it.
    """

    map: Tensor
    whole: Tensor

    @classmethod
    def of(cls, light: Tensor, observed: Tensor | None = None) -> Light:
        """Of one picture l (1, 1, H, W), observed (H, W) or everywhere."""
        one = light[0, 0].double()
        seen = (one.flatten() if observed is None else one[observed]).sort().values
        if len(seen) > PARTS:
            seen = seen[((torch.arange(PARTS) + 0.5) / PARTS * len(seen)).long()]
        return cls(light.double(), seen)

    def part(self, light: Tensor) -> Light:
        """Parts of the same picture."""
        return replace(self, map=light)

    def rows(self, index: Tensor) -> Light:
        """That of some images of the batch; one map serves all."""
        return self if len(self.map) == 1 else replace(self, map=self.map[index])


@dataclass(frozen=True)
class LevelMap:
    """g (1 or B, 1, H, W) of the images of a batch.

    If g goes with the brightness, log g = Σ_j curve_j (l - ½)^j - offset, with `curve` (B, n) for
    j = 1 … n, and `offset` (B,).
    """

    g: Tensor
    curve: Tensor | None = None
    offset: Tensor | None = None

    @classmethod
    def by_light(cls, curve: Tensor, light: Light) -> LevelMap:
        """The map of coefficients (B, n), of mean square 1 over the whole picture."""
        whole = log_level(curve, light.whole[None])
        offset = 0.5 * (torch.logsumexp(2 * whole, -1) - torch.log(_count(whole)))
        log_g = log_level(curve, light.map.flatten(1)) - offset[:, None]
        g = torch.exp(log_g).reshape(len(curve), 1, *light.map.shape[-2:])
        return cls(g, curve, offset)

    def shown(self, z: Tensor) -> Tensor:
        """log g as a network sees it in its input z (B, C, H, W): held constant under ∂/∂z."""
        if self.curve is None or self.offset is None:
            log_g = self.g.log().expand(len(z), -1, -1, -1)
        else:
            light = brightness(z.detach())
            flat = log_level(self.curve.to(z), light.flatten(1)) - self.offset.to(z)[:, None]
            log_g = flat.reshape(light.shape)
        return log_g.clamp(-LARGEST, LARGEST)

    def rows(self, index: Tensor) -> LevelMap:
        """Those of some images of the batch."""
        return LevelMap(
            self.g if len(self.g) == 1 else self.g[index],
            None if self.curve is None else self.curve[index],
            None if self.offset is None else self.offset[index],
        )

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> LevelMap:
        """The same on another device, in another floating-point type."""
        parts = (self.g, self.curve, self.offset)
        return LevelMap(*(None if p is None else p.to(device=device, dtype=dtype) for p in parts))  # type: ignore[arg-type]


def log_level(curve: Tensor, light: Tensor) -> Tensor:
    """Σ_j curve_j (l - ½)^j: (B, n), (1 or B, pixels) -> (B, pixels)."""
    powers = torch.stack([(light - 0.5) ** j for j in range(1, curve.shape[1] + 1)], 1)
    return (curve[..., None] * powers).sum(1)


def _count(values: Tensor) -> Tensor:
    return torch.tensor(float(values.shape[-1]), dtype=values.dtype, device=values.device)
