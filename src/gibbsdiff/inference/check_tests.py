r"""Where a whitened residual could betray a wrong model of the noise, each place as one `Finding`.

Powers are means of |ẑ|² or z² over what the model says, R = 1 if it is right. R of n independent
modes is χ²_n/n, and eq. (12) adds the sd τ by which a network errs:

    z = (R^⅓ - 1 + 2/(9n)) / √(2/(9n) + τ²/9)                          (Wilson and Hilferty)

In a band τ² = aᵀ Cov ρ a with a the mean of √(s/(1-s)) around each reference frequency: N̂/N - 1 =
ρ √(s(1-s)) is so much of N - Ê. Elsewhere it is a constant measured on held-out photographs, times
the same root, `TAU`; benchmarks/check.py measures it again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

from gibbsdiff.fourier import between_references, fft, half_plane
from gibbsdiff.inference.model_check import Finding, channel_names
from gibbsdiff.inference.weights import smoothed
from gibbsdiff.inference.whitened import Whitened

EDGES = (0.0, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 0.71)  # of bands of |k|
FEWEST = 64  # independent modes or pixels that a test needs
BINS = 5  # of brightness
BLOCKS = 4  # along each side
LOW = 1 / 16  # |k| from which rows, columns and coherence are looked at: pictures have both
SMOOTH = 4.0  # pixels (sd) over which the expected variance is smoothed for tails
WILD = 5.0  # sd beyond which a pixel is an impulse
SHOWN = 0.3  # of the mean residual's power that a place must have
NATURAL = 1e-4  # of the pixels of a photograph that look like impulses, give or take half of it
#: τ/√(s/(1-s)), by benchmarks/check.py on 44 held-out photographs: the largest |z| of model noise
#: stays below the check's threshold. Rows and columns: some photographs have bands of their own.
TAU = {
    "brightness": 0.06,
    "place": 0.2,
    "rows": 1.0,
    "columns": 1.0,
    "tails": 0.2,
    "blocks": 0.05,
    "coherence": 0.1,
}
LEAST = {"rows": 0.2, "columns": 0.2}  # τ where nothing else is wrong


def findings(w: Whitened) -> list[Finding]:
    """All tests of pictures that share φ."""
    return [*_bands(w), *_by_light(w), *_by_place(w), *_lines(w), *_tails(w), *_eight(w),
            *_coherence(w)]  # fmt: skip


def chi_square(R: float, n: float, tau: float) -> tuple[float, float]:
    """The sd of R, and how many sd it is off."""
    bare = 2 / (9 * max(n, 1.0))
    z = (max(R, 0.0) ** (1 / 3) - 1 + bare) / math.sqrt(bare + tau**2 / 9)
    return math.sqrt(2 / max(n, 1.0) + tau**2), z


def _powers(w: Whitened) -> tuple[Tensor, Tensor]:
    """|ẑ|² under the window, and the number of independent modes, (B, C, M)."""
    shape = (w.z.shape[-2], w.z.shape[-1])
    P = fft(w.z).abs().square() / w.window.square().mean((-2, -1), keepdim=True)
    n = w.kept.flatten(2) * half_plane(shape).weight * w.counted.view(-1, 1, 1)
    return P.flatten(2), n


def _root(w: Whitened) -> Tensor:
    """√(s/(1-s)) in every mode that is kept, (B, C, M)."""
    s = w.share.clamp(0, 0.95)
    return ((s / (1 - s)).sqrt() * w.kept).flatten(2)


def _mean_root(w: Whitened) -> float:
    n = _powers(w)[1]
    return float((_root(w) * n).sum() / n.sum().clamp(min=1))


def _tau(w: Whitened, kind: str) -> float:
    return 0.0 if w.scatter is None else TAU[kind] * _mean_root(w) + LEAST.get(kind, 0.0)


def _bands(w: Whitened) -> Iterator[Finding]:
    shape = (w.z.shape[-2], w.z.shape[-1])
    (P, n), root, hats = _powers(w), _root(w), between_references(shape)
    k, names = half_plane(shape).k, channel_names(w.z.shape[1])
    for c, name in enumerate(names):
        for low, high in pairwise(EDGES):
            inside = (k > low) & (k <= high)
            count = n[:, c, inside]
            total = float(count.sum())
            if total < FEWEST:
                continue
            R = float((P[:, c, inside] * count).sum()) / total
            tau = 0.0
            if w.scatter is not None:
                a = torch.einsum("bm,jm->j", count * root[:, c, inside], hats[:, inside]) / total
                own = w.scatter[8 * c : 8 * c + 8, 8 * c : 8 * c + 8]
                tau = float((a @ own @ a).clamp(min=0).sqrt())
            sd, z = chi_square(R, total, tau)
            where = f"|k| {low:.2f}-{high:.2f}"
            yield Finding("band", name, where, R, sd, z, low, high)


def _groups(w: Whitened, group: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """R of groups of pixels (B, 1, H, W) over that of all, and their independent pixels."""
    z2, L = w.z.square().sum(1), w.expected.sum(1)
    inside = w.kept.double().mean((1, 2, 3)).view(-1, 1, 1)
    v2 = w.window.square()[:, 0]
    sums = []
    for part in (z2, L, v2, v2.square() / inside / w.z.shape[1]):
        zero = torch.zeros(count, dtype=torch.float64)
        sums.append(zero.index_add(0, group[:, 0].flatten(), part.flatten()))
    # A group of which the denoiser shows next to nothing tells nothing.
    told = sums[1] > SHOWN * sums[2] * sums[1].sum() / sums[2].sum()
    R = torch.where(told, sums[0] / torch.where(told, sums[1], 1.0), 1.0)
    R = torch.where(told, R / (sums[0][told].sum() / sums[1][told].sum()), 1.0)
    return R, told * sums[2].square() / sums[3].clamp(min=1e-30)


def _by_light(w: Whitened) -> Iterator[Finding]:
    seen = w.window.flatten() > 0.1 * w.window.max()
    edges = w.light.flatten()[seen].quantile(torch.arange(1, BINS).double() / BINS)
    group = torch.bucketize(w.light, edges)
    R, n = _groups(w, group, BINS)
    tau = _tau(w, "brightness")
    zero = torch.zeros(BINS, dtype=torch.float64)
    v2 = w.window.square().flatten()
    weight = zero.index_add(0, group.flatten(), v2)
    light = zero.index_add(0, group.flatten(), v2 * w.light.flatten()) / weight
    for j in range(BINS):
        if float(n[j]) >= FEWEST:
            sd, z = chi_square(float(R[j]), float(n[j]), tau)
            where = f"brightness {float(light[j]):.2f}"
            yield Finding("brightness", "", where, float(R[j]), sd, z, float(light[j]))
    # The trend: a straight line through the logarithms.
    precision = (n > 0) / (2 / n.clamp(min=1) + tau**2)
    centred = light - (precision * light).sum() / precision.sum()
    slope = float((precision * centred * R.clamp(min=1e-3).log()).sum())
    slope /= float((precision * centred.square()).sum())
    span = float(light[-1] - light[0])
    sd = span / float((precision * centred.square()).sum()) ** 0.5
    ratio = math.exp(slope * span)
    yield Finding("trend", "", "from dark to bright", ratio, sd, slope * span / sd)


def _by_place(w: Whitened) -> Iterator[Finding]:
    images, _, height, width = w.z.shape
    rows, columns = (max(1, min(BLOCKS, side // 32)) for side in (height, width))
    y = torch.arange(height) * rows // height
    x = torch.arange(width) * columns // width
    image = torch.arange(images).view(-1, 1, 1, 1) * rows * columns
    group = image + (y[:, None] * columns + x)[None, None]
    count = images * rows * columns
    R, n = _groups(w, group, count)
    if count == 1:
        return
    tau = _tau(w, "place")
    for j in range(count):
        if float(n[j]) >= FEWEST * 8:
            sd, z = chi_square(float(R[j]), float(n[j]), tau)
            row, column = divmod(j % (rows * columns), columns)
            where = f"row {row + 1} of {rows}, column {column + 1} of {columns}"
            yield Finding("place", "", where, float(R[j]), sd, z, float(j))


def _lines(w: Whitened) -> Iterator[Finding]:
    shape = (w.z.shape[-2], w.z.shape[-1])
    k = half_plane(shape)
    P, n = _powers(w)
    for kind, line in (("rows", k.kx == 0), ("columns", k.ky == 0)):
        on = line & (k.k > LOW)
        for name, part in _luma_and_chroma(w.z.shape[1]):
            count = n[:, part][..., on]
            total = float(count.sum())
            if total >= FEWEST / 2:
                expected = (w.modes.flatten(2)[:, part][..., on] * count).sum()
                R = float((P[:, part][..., on] * count).sum() / expected.clamp(min=0.1 * total))
                sd, z = chi_square(R, total, _tau(w, kind))
                yield Finding(kind, name, "", R, sd, z)


def _luma_and_chroma(channels: int) -> list[tuple[str, list[int]]]:
    if channels == 3:
        return [("luma", [0]), ("chroma", [1, 2])]
    return [("", list(range(channels)))]


def _standard(w: Whitened) -> tuple[Tensor, Tensor, float]:
    """z over its own sd in every pixel, where it is seen, and the independent pixels."""
    v2 = w.window.square()
    channels = [smoothed(part, SMOOTH) for part in w.expected.split(1, 1)]
    whole = w.expected.sum((-2, -1), keepdim=True) / v2.sum((-2, -1), keepdim=True)
    L = torch.cat(channels, 1) / smoothed(v2, SMOOTH).clamp(min=1e-6 * float(v2.max()))
    L = torch.maximum(L, 0.2 * whole) * v2
    seen = (w.window > 0.3 * w.window.max()).expand_as(w.z)
    inside = float(w.kept.double().mean())
    return w.z / L.clamp(min=1e-30).sqrt(), seen, float(seen.sum()) * inside


def _tails(w: Whitened) -> Iterator[Finding]:
    t, seen, n = _standard(w)
    for name, part in _luma_and_chroma(w.z.shape[1]):
        own = t[:, part][seen[:, part]]
        own = own / own.square().mean().sqrt()
        count = n * len(part) / w.z.shape[1]
        if count < 8 * FEWEST:
            continue
        R = float(own.pow(4).mean()) / 3
        tau = _tau(w, "tails")
        sd = math.sqrt(24 / count / 9 + tau**2)
        yield Finding("tails", name, "", R, sd, (R - 1) / sd)
        wild = float((own.abs() > WILD).sum())
        yield _impulses(name, wild, len(own))
    # Its neighbours must be seen as well.
    seen = -max_pool2d(-w.window, 3, 1, 1) > 0.02 * w.window.max()
    yield _impulses("single pixels", float((w.sticking_out[seen] > 1).sum()), int(seen.sum()))


def _impulses(name: str, wild: float, count: int) -> Finding:
    """So many are too many where photographs have up to `NATURAL` of all pixels."""
    expected = max(NATURAL * count, 1.0)
    z = (wild - expected) / math.sqrt(expected + (0.5 * NATURAL * count) ** 2)
    return Finding("impulses", name, f"{wild:.0f} of {count}", wild / expected, 1.0, z)


def _eight(w: Whitened) -> Iterator[Finding]:
    shape = (w.z.shape[-2], w.z.shape[-1])
    tau = _tau(w, "blocks")
    for kind, axis in (("columns", -1), ("rows", -2)):
        if shape[axis] < 64:
            continue
        phase = torch.arange(shape[axis]) % 8
        group = (phase if axis == -1 else phase[:, None]).expand(shape).expand_as(w.window)
        R, n = _groups(w, group, 8)
        chi2 = float(((R - 1).square() / (2 / n.clamp(min=1) + tau**2)).sum())
        sd = float((2 / n.clamp(min=1) + tau**2).mean().sqrt())
        z = ((chi2 / 7) ** (1 / 3) - 1 + 2 / 63) / math.sqrt(2 / 63)
        worst = int((R - 1).abs().argmax())
        yield Finding("blocks", "", f"{kind} {worst} of 8", float(R[worst]), sd, z)


def _coherence(w: Whitened) -> Iterator[Finding]:
    channels = w.z.shape[1]
    if channels != 3:
        return
    shape = (w.z.shape[-2], w.z.shape[-1])
    k, names = half_plane(shape).k, channel_names(channels)
    F = fft(w.z).flatten(2)
    weight = half_plane(shape).weight * w.counted.view(-1, 1)
    for low, high in ((LOW, 0.25), (0.25, 0.71)):
        for a, b in ((0, 1), (0, 2), (1, 2)):
            both = (w.kept[:, a] & w.kept[:, b]).flatten(1) & (k > low) & (k <= high)
            n = both * weight
            total = float(n.sum())
            if total < FEWEST:
                continue
            cross = float((n * (F[:, a] * F[:, b].conj()).real).sum())
            own = [float((n * F[:, i].abs().square()).sum()) for i in (a, b)]
            c = cross / math.sqrt(own[0] * own[1])
            sd = math.sqrt(1 / total + _tau(w, "coherence") ** 2)
            yield Finding("coherence", f"{names[a]} and {names[b]}", f"|k| {low:.2f}-{high:.2f}",
                          1 + abs(c), sd, c / sd, low, high)  # fmt: skip
