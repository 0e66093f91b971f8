r"""The noise of a picture from its quiet places, without a network.

Patches of 32², 64² and 128², half overlapping, under Hann's window, in opponent colours: the
smallest at small scales, as most pictures have some small flat places, the larger ones at scales
that a small patch does not resolve. In every band of |k| and every channel the law of patch powers
(`quiet_law`) tells the noise's level, and the patches that are likely flat its shape in the band.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from gibbsdiff.fourier import half_plane
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
from gibbsdiff.inference.quiet_powers import Quiet
from gibbsdiff.inference.quiet_verdict import FEWEST, verdict
from gibbsdiff.noise.level import Light, brightness
from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, LevelCurve

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
UNKNOWN = 6.0  # sd of log power where no noise is told from texture; less by what is gained


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
