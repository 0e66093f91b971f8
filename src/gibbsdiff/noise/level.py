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

from gibbsdiff.fourier import turned
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, LevelCurve

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

    If g goes with the brightness, log g = form(curve, l) - offset, with `curve` (B, n) the values
    of its parameters, and `offset` (B,). `plane` (B, 1, H, W) is what a network is shown, whatever
    its input, where that is held constant.
    """

    g: Tensor
    curve: Tensor | None = None
    offset: Tensor | None = None
    form: LevelCurve = BY_BRIGHTNESS
    plane: Tensor | None = None

    @classmethod
    def by_light(cls, curve: Tensor, light: Light, form: LevelCurve = BY_BRIGHTNESS) -> LevelMap:
        """The map of parameters (B, n), of mean square 1 over the whole picture."""
        form = form.on(light.whole)
        whole = form.log_level(curve, light.whole[None])
        offset = 0.5 * (torch.logsumexp(2 * whole, -1) - torch.log(_count(whole)))
        log_g = form.log_level(curve, light.map.flatten(1)) - offset[:, None]
        g = torch.exp(log_g).reshape(len(curve), 1, *light.map.shape[-2:])
        return cls(g, curve, offset, form) if form.parameters else cls(g)

    def shown(self, z: Tensor) -> Tensor:
        """log g as a network sees it in its input z (B, C, H, W): held constant under ∂/∂z."""
        if self.plane is not None:
            return self.plane
        if self.curve is None or self.offset is None:
            log_g = self.g.log().expand(len(z), -1, -1, -1)
        else:
            light = brightness(z.detach())
            flat = self.form.log_level(self.curve.to(z), light.flatten(1))
            flat = flat - self.offset.to(z)[:, None]
            log_g = flat.reshape(light.shape)
        return log_g.clamp(-LARGEST, LARGEST)

    def held(self, z: Tensor) -> LevelMap:
        """The same for inputs near z, which are all shown what z is."""
        return replace(self, plane=self.shown(z))

    def rows(self, index: Tensor) -> LevelMap:
        """Those of some images of the batch."""
        return LevelMap(
            self.g if len(self.g) == 1 else self.g[index],
            None if self.curve is None else self.curve[index],
            None if self.offset is None else self.offset[index],
            self.form,
            None if self.plane is None else self.plane[index],
        )

    def turned(self, which: Tensor, *, back: bool = False) -> LevelMap:
        """g of pictures turned by the symmetry `which` (B,) of each; the curve stays."""
        return replace(self, g=turned(self.g.expand(len(which), -1, -1, -1), which, back=back))

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> LevelMap:
        """The same on another device, in another floating-point type."""

        def moved(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device=device, dtype=dtype)

        return replace(
            self,
            g=self.g.to(device=device, dtype=dtype),
            curve=moved(self.curve),
            offset=moved(self.offset),
            plane=moved(self.plane),
        )


def _count(values: Tensor) -> Tensor:
    return torch.tensor(float(values.shape[-1]), dtype=values.dtype, device=values.device)
