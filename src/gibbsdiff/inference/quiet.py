r"""The noise of a picture from its quiet places, without a network.

Patches of 32², 64² and 128², half overlapping, under Hann's window, in opponent colours: the
smallest at small scales, as most pictures have some small flat places, the larger ones at scales
that a small patch does not resolve. In every band of |k| and every channel the law of patch powers
(`quiet_law`) tells the noise's level, and the patches that are likely flat its shape in the band.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape, half_plane, radial_bins
from gibbsdiff.inference.periodograms import (
    LEAST,
    Patches,
    band_powers,
    inside_of,
    on_full_plane,
    patches,
    unclipped,
)
from gibbsdiff.inference.quiet_law import (
    Law,
    fit,
    independent_modes,
    independent_patches,
)
from gibbsdiff.inference.quiet_verdict import FEWEST, verdict
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, LevelCurve
from gibbsdiff.noise.stationary import Statistic

#: Side of the patches, and the edges in |k| of the groups of modes in each band that they tell.
BANDS: tuple[tuple[int, tuple[tuple[float, ...], ...]], ...] = (
    (
        32,
        (
            (3 / 32 - 1e-3, 0.14),
            (0.14, 0.2),
            (0.2, 0.25, 0.32, 0.4),
            (0.4, 0.5, 0.6, 0.72),
        ),
    ),
    (64, ((3 / 64 - 1e-3, 3 / 32 - 1e-3),)),
    (128, ((3 / 128 - 1e-3, 3 / 64 - 1e-3),)),
)
#: Luma and chroma: sd of log power at |k| = 0.07 that texture adds, and the power of |k| by which
#: it falls.
TEXTURE = ((4.5, 2.2), (1.2, 1.5))
LEAST_SD = 0.2  # of log power, in any band: noise is never quite what a law says
UNKNOWN = 6.0  # sd of log power where no noise is told from texture; less by what is gained


@dataclass(frozen=True)
class Quiet:
    """Noise power by groups of modes, for each of C opponent channels.

    `k` (G,) is |k| of the groups; `modes` (C, G) how many independent modes were averaged; `power`
    (C, G) their mean power, that of ε/g with g of mean square 1 over the picture; `sd` (C, G) of
    its logarithm, which all groups of one `band` (G,) have in common. `curve` (n,) has the
    parameters of its `form`, with their `curve_sd`; `light` (n,) and `level` (n,) have log g² by
    brightness, without the curve. `flat` (C, G) is about how many patches are flat;
    `uneven` (C, G) is κ, by which powers scatter from place to place beyond chance.
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
        # The law of patch powers takes texture that is in all patches for noise: at large scales
        # more than at small ones, and in luma more than in chroma.
        texture = torch.stack(
            [
                sd * (0.07 / self.k) ** fall
                for sd, fall in (TEXTURE[c > 0] for c in range(len(self.sd)))
            ]
        )
        unknown = texture.square() + LEAST_SD**2
        counted = 2 / (2 / self.modes + together * (self.sd**2 + unknown))
        # Less than one mode tells nothing; but if texture has a hundred times the noise's power,
        # P/N would heed it all the same.
        return torch.where(counted < 1, 0.0, counted)


@dataclass(frozen=True)
class QuietStatistic(Statistic):
    """Powers at frequencies that are no modes of the picture's grid; `counts` (1, R, M)."""

    counts: Tensor = field(default_factory=lambda: torch.zeros(0))

    @property
    def modes(self) -> Tensor:
        """How many modes each group stands for."""
        return self.counts


def quiet_patches(
    y: Tensor, usable: Tensor | None = None, form: LevelCurve | None = None
) -> Quiet | None:
    """The noise in quiet places of one picture (1, C, H, W) on [0, 1]; None where it is too small
    or hardly any of it usable.

    Arguments:
        usable: (H, W), False where pixels are missing or saturated. By default, where a channel
            is at 0 or 1.
        form: How the level goes with brightness; by default, as in photographs.
    """
    y = y.detach().double().cpu()
    seen = unclipped(y) if usable is None else usable.cpu()
    sizes = [(patches(y, seen, n), n, bands) for n, bands in BANDS if min(y.shape[-2:]) >= n]
    rows: list[tuple[Tensor, ...]] = []
    C = y.shape[1]
    light = Light.of(brightness(y), seen).whole
    form = (form or BY_BRIGHTNESS).on(light)
    curve, law, first, calm = None, None, None, None
    for found, _, bands in sizes:
        if found.powers.shape[1] < FEWEST:
            continue
        e, shapes, nu = band_powers(found, bands)
        rare = torch.tensor([c > 0 for c in range(C)]).repeat(len(bands))
        if law is None or first is None or calm is None:
            # A patch that is flat in the other bands of a channel is more likely so in this one,
            # and as these are independent, choosing by them has no bias.
            rough = fit(e, nu, found.light, rare=rare, form=form)
            each = rough.weight.unflatten(0, (-1, C)).clamp(1e-6, 1)
            others = each.log().sum(0) - each.log()
            counted = _enough(others.exp().flatten(0, 1))
            here = fit(e, nu, found.light, None, counted, rough.parameters, rare, form)
            law, curve, first = here, here.curve, found
            calm = here.weight.unflatten(0, (-1, C)).clamp(1e-6, 1).log().sum(0).exp()
        else:
            counted = inside_of(calm, first, found).repeat(len(bands), 1)
            here = fit(e, nu, found.light, curve, _enough(counted), rare=rare, form=form)
            calm_here = counted * here.weight
        if found is first:
            calm_here = calm.repeat(len(bands), 1)
        rows += _groups(found, bands, here, shapes, calm_here, form)
    if law is None or first is None or curve is None:
        return None
    # θ is the power where log g, without its constant, is 0; what is told is the picture's mean.
    log_g2 = 2 * form.log_level(curve[None], light[None])[0]
    raised = torch.logsumexp(log_g2, -1) - math.log(len(light))
    bins = _by_brightness(first, law)
    k, modes, power, sd, flat, gain, band, uneven = (_joined(rows, i) for i in range(8))
    order = k[0].argsort()
    k, modes, power, sd, flat, gain, band, uneven = (
        t[:, order] for t in (k, modes, power, sd, flat, gain, band, uneven)
    )
    trusted, reason = verdict(k[0], power, flat, gain, uneven, first.powers.shape[1])
    return Quiet(
        (y.shape[-2], y.shape[-1]),
        k[0],
        band[0].long(),
        modes,
        power * raised.exp(),
        sd,
        flat,
        gain,
        curve,
        law.covariance.diagonal().clamp(min=0).sqrt(),
        form,
        *bins,
        trusted,
        reason,
        uneven,
    )


def _enough(counted: Tensor) -> Tensor:
    """Weights (Q, P) not above 1, made less strict until they leave `FEWEST` patches."""
    rows = []
    for row in counted:
        power = 1.0
        while power > 0.01 and float((row**power).sum()) < 2 * FEWEST:
            power /= 1.5
        rows.append(row**power)
    return torch.stack(rows)


def _groups(
    found: Patches,
    bands: tuple[tuple[float, ...], ...],
    law: Law,
    shapes: Tensor,
    calm: Tensor,
    form: LevelCurve,
) -> list[tuple[Tensor, ...]]:
    """For every group of modes (C,) each of |k|, modes, power, sd, flat patches, gain, band, κ."""
    modes, C = half_plane((found.n, found.n)), len(found.powers)
    log_g2 = 2 * form.log_level(law.curve[None], found.light[None])[0]
    each = independent_patches(found.n)
    rows = []
    for j, edges in enumerate(bands):
        inside = (modes.k >= edges[0]) & (modes.k < edges[-1])
        for low, high in pairwise(edges):
            here = (modes.k >= low) & (modes.k < high)
            nu = independent_modes(on_full_plane(here.double(), found.n))
            w, whole = modes.weight * here, modes.weight * inside
            row = []
            for c in range(C):
                q = j * C + c
                u = calm[q]
                mean = (u * (-log_g2).exp()) @ found.powers[c] / u.sum().clamp(min=1e-9)
                # The patches' own level is that of a choice: the law knows better.
                own = ((mean / shapes[q]) @ whole / whole.sum()).clamp(min=LEAST)
                value = (mean @ w / w.sum()).clamp(min=LEAST) / own * law.log_theta[q].exp()
                flat = u.sum() ** 2 / u.square().sum().clamp(min=1e-9)
                k = torch.exp((w * modes.log_k).sum() / w.sum())
                row.append(
                    torch.stack(
                        [
                            k,
                            nu * each * flat,
                            value,
                            torch.hypot(law.sd[q], UNKNOWN / (1 + law.gain[q].clamp(min=0) / 3)),
                            flat,
                            law.gain[q],
                            torch.tensor(float(found.n * 10 + j)),
                            law.uneven[q],
                        ]
                    )
                )
            rows.append(tuple(torch.stack(row).T))
    return rows


def _joined(rows: list[tuple[Tensor, ...]], i: int) -> Tensor:
    return torch.stack([row[i] for row in rows], 1)


def _by_brightness(found: Patches, law: Law, bins: int = 8) -> tuple[Tensor, Tensor]:
    """Brightness, and log g² there relative to l = ½ by the likely flat patches, over all bands
    and channels, without the curve.
    """
    edges = torch.quantile(found.light, torch.linspace(0, 1, bins + 1).double()[1:-1])
    at = torch.bucketize(found.light, edges)
    off = (law.x - law.log_theta[:, None]).clamp(-5, 5)
    light, level = [], []
    for b in range(bins):
        u = law.weight[:, at == b]
        if u.shape[1] and float(u.sum()) > 1:
            light.append(found.light[at == b].mean())
            level.append((u * off[:, at == b]).sum() / u.sum())
    return torch.tensor(light).double(), torch.tensor(level).double()
