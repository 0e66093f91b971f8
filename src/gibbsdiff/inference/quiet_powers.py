"""What quiet places of a picture tell of its noise: powers by |k| and channel, and how sure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape, radial_bins
from gibbsdiff.noise.level_curves import LevelCurve
from gibbsdiff.noise.stationary import Statistic

#: Luma and chroma: sd of log power at |k| = 0.07 that texture adds, and the power of |k| by which
#: it falls.
TEXTURE = ((4.5, 2.2), (1.2, 1.5))
LEAST_SD = 0.2  # of log power, in any band: noise is never quite what a law says
#: Of photographs, by κ: log power is too large by 9 κ² ± 7 κ², and by 0.1 at any.
SCATTERED, SCATTERED_SD, SURE_SD = 9.0, 7.0, 0.1


@dataclass(frozen=True)
class Quiet:
    """Noise power by groups of modes, for each of C opponent channels.

    `k` (G,) is |k| of the groups; `modes` (C, G) how many independent modes were averaged; `power`
    (C, G) their mean power, that of ε/g with g of mean square 1 over the picture; `sd` (C, G) of
    its logarithm, which all groups of one `band` (G,) have in common. `curve` (n,) has the
    parameters of its `form`, with their `curve_sd`; `light` (n,) and `level` (n,) have log g² by
    brightness, without the curve. `flat` (C, G) is about how many patches are flat;
    `uneven` (C, G) is κ, by which powers scatter from place to place beyond chance. `texture`
    (C, G) is the sd of log power that texture in all patches alike may add; None: by scale.
    """

    shape: Shape
    k: Tensor
    band: Tensor
    modes: Tensor
    power: Tensor
    sd: Tensor
    flat: Tensor
    gain: Tensor
    curve: Tensor
    curve_sd: Tensor
    form: LevelCurve
    light: Tensor
    level: Tensor
    trusted: bool
    reason: str
    uneven: Tensor
    texture: Tensor | None = None

    def by_scatter(self, luma_alone: bool = False) -> Quiet:
        """The same, less the texture that its scatter tells: that in all patches, which the law
        takes for noise, is not as even as noise is.

        Arguments:
            luma_alone: Of chroma nothing is told so: coarse rounding scatters as texture does.
        """
        own, doubt = self.uneven.square(), self._with_the_next().square()
        texture = torch.hypot(SCATTERED_SD * doubt, torch.full_like(doubt, SURE_SD))
        power = self.power * torch.exp(-SCATTERED * own)
        if luma_alone:
            texture[1:], power[1:] = self._by_scale()[1:].sqrt(), self.power[1:]
        return replace(self, power=power, texture=texture)

    def louder(self, by: Tensor, sd: Tensor) -> Quiet:
        """The same, of a picture that has more noise than its flat places, in log power (C, G)."""
        return replace(self, power=self.power * by.exp(), sd=torch.hypot(self.sd, sd))

    def _with_the_next(self) -> Tensor:
        """κ (C, G), or in luma that of the next smaller scale if it is more: texture is there at
        large scales if it is at small ones, and the scatter of one band may miss it. Not in
        chroma, which has moiré at small scales alone.
        """
        order = list(dict.fromkeys(self.band.tolist()))
        each = torch.stack([self.uneven[:, self.band == b].amax(1) for b in order], 1)
        following = torch.cat([each[:, 1:], each[:, -1:]], 1)
        following[1:] = 0.0
        index = torch.tensor([order.index(b) for b in self.band.tolist()])
        return torch.maximum(each, following)[:, index]

    @property
    def believed(self) -> bool:
        """Whether anything of it is noise: if luma is texture in all places, scatter may still
        leave chroma, where texture is rare.
        """
        return self.trusted or (self.texture is not None and bool((self.counted[1:] > 0).any()))

    def statistic(self, spectra: int | None = None) -> Statistic:
        """What `noise.log_likelihood(phi, …)` takes for the Whittle likelihood of these powers.

        Groups count as many modes as explain their scatter and what the law does not know. The
        picture's own modes come first and count nothing: families that are normalised over a
        grid need them.

        Arguments:
            spectra: 1 sums over channels, for noise that is equal in all of them.
        """
        grid = radial_bins(self.shape).k
        k = grid.with_frequencies(self.k, torch.zeros_like(self.k))
        counts, P = self.counted, self.counted * self.power
        if spectra == 1:
            counts, P = counts.sum(0, keepdim=True), P.sum(0, keepdim=True)
        before = torch.zeros(len(P), len(grid.weight), dtype=torch.float64)
        return QuietStatistic(
            k, torch.cat([before, P], 1)[None], 1, None, torch.cat([before, counts], 1)[None]
        )

    @property
    def level_sd(self) -> Tensor:
        """sd (n,) of the curve: at least what brightness alone leaves open."""
        return self.curve_sd.clamp(min=torch.tensor(self.form.quiet_sd).to(self.curve_sd))

    @property
    def counted(self) -> Tensor:
        """Modes (C, G) of a χ² whose logarithm scatters as much as `power` does: 2/n + m sd² for
        the m groups of a band, which are wrong together.
        """
        together = (self.band[:, None] == self.band).sum(1)
        unknown = self._by_scale() if self.texture is None else self.texture.square()
        counted = 2 / (2 / self.modes + together * (self.sd**2 + unknown))
        # Less than one mode tells nothing; but if texture has a hundred times the noise's power,
        # P/N would heed it all the same.
        return torch.where(counted < 1, 0.0, counted)

    def _by_scale(self) -> Tensor:
        """Variance (C, G) of log power where κ is not asked: the law of patch powers takes texture
        that is in all patches for noise, at large scales more than at small ones, and in luma more
        than in chroma.
        """
        rows = (TEXTURE[c > 0] for c in range(len(self.sd)))
        sd = torch.stack([sd * (0.07 / self.k) ** fall for sd, fall in rows])
        return sd.square() + LEAST_SD**2


@dataclass(frozen=True)
class QuietStatistic(Statistic):
    """Powers at frequencies that are no modes of the picture's grid; `counts` (1, R, M)."""

    counts: Tensor = field(default_factory=lambda: torch.zeros(0))

    @property
    def modes(self) -> Tensor:
        """How many modes each group stands for."""
        return self.counts
