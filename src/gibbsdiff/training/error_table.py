"""Measuring the error model on held-out images: c of eq. (7), and how good it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gibbsdiff.diffusion.boundary import on_device
from gibbsdiff.diffusion.calibration import LOG_RATIO, Calibration
from gibbsdiff.diffusion.spectral import SpectralDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import REFERENCE, between_references, fft, half_plane, to_opponent
from gibbsdiff.noise.stationary import StationaryNoise
from gibbsdiff.training.evaluation import PHI, SIGMA, observed

#: Noise levels and slopes that the table is measured at.
LEVELS = (0.02, 0.06, 0.2, 0.6)
SLOPES = (-1.0, 0.0, 1.0)

FINE = 4  # bins between two knots of the table
RIDGE = 1.0  # belief that log c is 0, of sd 1,
SMOOTH = 4.0  # and that it changes from knot to knot by an sd of 0.5


class Errors(NamedTuple):
    """True and predicted error power per mode, opponent colours: (B, C, H, W//2+1)."""

    true: Tensor
    predicted: Tensor
    noise: Tensor
    """N(k), (B, 1, H, W//2+1)."""
    residual: Tensor
    """|y-D|²."""
    shared: Tensor
    """Re (x-D)* (y-D)."""


class ErrorCheck(NamedTuple):
    """Ratio of true to predicted error power at one (σ, φ), over images."""

    sigma: float
    phi: float | tuple[float, ...]
    median: float
    within: float
    """The factor that 90 % of the images are within."""
    bands: tuple[float, ...]
    """Mean over images of the ratio around each reference frequency, eq. (5), all channels."""


def quadrants(images: Tensor) -> Tensor:
    """(B, C, H, W) -> (4 B, C, H/2, W/2): the four quarters of each image, one after another."""
    rows = [half for strip in images.chunk(2, -2) for half in strip.chunk(2, -1)]
    return torch.stack(rows, 1).flatten(0, 1)


@torch.no_grad()
def errors(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: float,
    phi: float | tuple[float, ...],
    seed: int = 2,
    batch: int = 16,
    family: StationaryNoise | None = None,
) -> Iterator[Errors]:
    """Denoise y = x + ε at the true (σ, φ), and compare |x̂ - D̂|² with Ê of eq. (11).

    The noise is a power law, or of a `family` as in `observed`.
    """
    near = on_device(denoiser, next(denoiser.parameters()).device)
    for first in range(0, len(images), batch):
        x = images[first : first + batch]
        y, noise = observed(x, sigma, phi, seed, first, family)
        mean, error = near(y, noise)
        predicted = None if error is None else error.spectrum()
        assert predicted is not None
        e, r = (fft(to_opponent(part - mean)).to(torch.complex128) for part in (x, y))
        known = (predicted.double(), noise.power, r.abs().square(), (e.conj() * r).real)
        yield Errors(e.abs().square(), *known)


def fit_factor(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = LEVELS,
    phi: Sequence[float | tuple[float, ...]] = SLOPES,
    seed: int = 2,
    family: StationaryNoise | None = None,
    gain: Tensor | None = None,
) -> Tensor:
    """log c of the denoiser's heads, whatever table it has now; with this `gain`: (C, 8, 10).

    With |x̂ - D̂|² ~ c Ê χ²/n in every mode, log c = Σ h_j(log|k|) h_r(log N/S_x) log c_jr is
    a gamma regression: the table minimises ½ Σ n [log c + |x̂ - D̂|²/(c Ê)] plus a penalty on
    log c_jr and on its differences, so that it tends to c = 1 where there are no data.
    Images, not modes, are independent: n is w, but every image counts at most once around a |k|.
    """
    if len(images) < 2:
        raise InputError("calibration compares images: it needs two or more")
    bare = bare_with(denoiser, gain)
    shape = (images.shape[-2], images.shape[-1])
    S_x = denoiser.signal.power(shape)
    weight = half_plane(shape).weight
    u = place_in_k(shape)
    bins = _Bins(images.shape[1])
    for i, (s, p) in enumerate(product(sigma, phi)):
        for e in errors(bare, images, s, p, seed + i, family=family):
            ratio = (e.true / e.predicted).flatten(2)
            v = place_in_ratio(e.noise.double(), S_x).flatten(2).expand_as(ratio)
            bins.add(u.expand_as(ratio), v, weight.expand_as(ratio), ratio)
    return bins.fit(len(images))


def bare_with(denoiser: SpectralDenoiser, gain: Tensor | None) -> SpectralDenoiser:
    """The denoiser with c = 1 and this gain."""
    if gain is None:
        return SpectralDenoiser(denoiser.network, denoiser.signal)
    knots = gain.shape[0] * gain.shape[1]
    plain = Calibration(torch.zeros_like(gain), torch.zeros(knots, knots).double(), gain)
    return SpectralDenoiser(denoiser.network, denoiser.signal, plain)


def check_errors(
    denoiser: SpectralDenoiser,
    images: Tensor,
    sigma: Sequence[float] = SIGMA,
    phi: Sequence[float | tuple[float, ...]] = PHI,
    seed: int = 1000,
    family: StationaryNoise | None = None,
) -> list[ErrorCheck]:
    """How well the predicted error power is the true one, image by image and band by band."""
    shape = (images.shape[-2], images.shape[-1])
    weight = half_plane(shape).weight
    hats = between_references(shape) * weight
    reports = []
    for s, p in product(sigma, phi):
        totals, bands = [], []
        for e in errors(denoiser, images, s, p, seed, family=family):
            true, predicted = e.true.flatten(2), e.predicted.flatten(2)
            totals.append((true * weight).sum((1, 2)) / (predicted * weight).sum((1, 2)))
            bands.append((true.sum(1) @ hats.T) / (predicted.sum(1) @ hats.T))
        ratio = torch.cat(totals)
        factor = torch.quantile(ratio.log().abs(), 0.9).exp()
        each = torch.cat(bands).mean(0).tolist()
        reports.append(ErrorCheck(s, p, float(ratio.median()), float(factor), tuple(each)))
    return reports


def as_rows(reports: Sequence[ErrorCheck]) -> list[dict[str, Any]]:
    """Reports as a card keeps them."""
    return [
        {
            "sigma": r.sigma,
            "phi": list(r.phi) if isinstance(r.phi, tuple) else r.phi,
            "median": round(r.median, 4),
            "within": round(r.within, 4),
            "bands": [round(b, 3) if math.isfinite(b) else None for b in r.bands],
        }
        for r in reports
    ]


class _Bins:
    """Sums over fine bins of (log|k|, log N/S_x), none of which straddles a knot of the table."""

    def __init__(self, channels: int) -> None:
        self.columns = FINE * (len(LOG_RATIO) - 1)
        self.rows = FINE * (len(REFERENCE) - 1)
        # w, w ratio, w u, w v
        self.sums = torch.zeros(4, channels, self.rows * self.columns, dtype=torch.float64)

    def add(self, u: Tensor, v: Tensor, weight: Tensor, ratio: Tensor) -> None:
        """Add modes (B, C, M) at the places u, v in units of knots."""
        row = (FINE * u).long().clamp(0, self.rows - 1)
        column = (FINE * v).long().clamp(0, self.columns - 1)
        index = row * self.columns + column
        added = (weight, weight * ratio, weight * u, weight * v)
        for total, values in zip(self.sums, added, strict=True):
            for c in range(len(total)):
                total[c].index_add_(0, index[:, c].flatten(), values[:, c].flatten())

    def fit(self, images: int) -> Tensor:
        """The regression, channel by channel, by Fisher scoring: log c (C, 8, 10)."""
        return torch.stack([self._fit(images, *sums) for sums in self.sums.unbind(1)])

    def _fit(self, images: int, w: Tensor, total: Tensor, u: Tensor, v: Tensor) -> Tensor:
        in_row = w.reshape(self.rows, -1).sum(1).repeat_interleave(self.columns)
        seen = w > 0
        n = (w * (images / in_row.clamp(min=images)))[seen]
        ratio = (total / w)[seen].clamp(min=1e-12)
        along_k = hats_of((u / w)[seen], len(REFERENCE))
        along_ratio = hats_of((v / w)[seen], len(LOG_RATIO))
        X = (along_k[:, :, None] * along_ratio[:, None, :]).flatten(1)
        belief = penalty()
        information = 0.5 * X.T @ (n[:, None] * X) + belief
        theta = torch.linalg.solve(information, 0.5 * X.T @ (n * ratio.log()))
        for _ in range(50):
            gradient = 0.5 * X.T @ (n * (ratio * torch.exp(-X @ theta) - 1)) - belief @ theta
            theta = theta + torch.linalg.solve(information, gradient).clamp(-1, 1)
        return theta.reshape(len(REFERENCE), len(LOG_RATIO))


def penalty() -> Tensor:
    """RIDGE + SMOOTH times squared differences along both axes of the table, (80, 80)."""
    in_k, in_ratio = (torch.eye(n, dtype=torch.float64) for n in (len(REFERENCE), len(LOG_RATIO)))
    step_k, step_ratio = in_k.diff(dim=0), in_ratio.diff(dim=0)
    rough = torch.kron(step_k.T @ step_k, in_ratio) + torch.kron(in_k, step_ratio.T @ step_ratio)
    return RIDGE * torch.eye(len(rough), dtype=torch.float64) + SMOOTH * rough


def hats_of(place: Tensor, knots: int) -> Tensor:
    """Weights of linear interpolation between the knots 0, 1, ...: (...) -> (..., knots)."""
    return (1 - (place[..., None] - torch.arange(knots)).abs()).clamp(min=0)


def place_in_k(shape: tuple[int, int]) -> Tensor:
    """log|k| in units of the reference frequencies' index, (M,)."""
    return torch.arange(len(REFERENCE)).double() @ between_references(shape)


def place_in_ratio(N: Tensor, S_x: Tensor) -> Tensor:
    """log N/S_x in units of the table's knots."""
    step = LOG_RATIO[1] - LOG_RATIO[0]
    return ((torch.log(N / S_x) - LOG_RATIO[0]) / step).clamp(0, len(LOG_RATIO) - 1)
