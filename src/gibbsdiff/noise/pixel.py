"""Noise that is independent from pixel to pixel with a variance that changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gibbsdiff.checks import as_images
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import Shape
from gibbsdiff.identity import digest_of
from gibbsdiff.noise.base import LogDensity, NoiseModel, Range
from gibbsdiff.noise.covariance import PixelCovariance
from gibbsdiff.noise.parameter import Parameter


@dataclass(frozen=True)
class PixelStatistic:
    """Σ_channels ε² of every pixel, (B, H, W), and which pixels count, (H, W) or all."""

    P: Tensor
    channels: int
    observed: Tensor | None = None

    def rows(self, index: Tensor) -> PixelStatistic:
        """The statistic of some images of the batch."""
        return PixelStatistic(self.P[index], self.channels, self.observed)


class PixelNoise(NoiseModel):
    """N(0, diag(v_φ)): `variance` maps φ (B, d) to v (B, H, W).

    Use `PixelNoise.affine` for a detector's read and shot noise, `PixelNoise.weighted`
    for a map that comes with its inverse variance. A `digest`, a text that you change whenever
    you change the function, lets checkpoints recognise it.
    """

    def __init__(
        self,
        variance: Callable[[Tensor], Tensor],
        parameters: list[Parameter],
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> None:
        super().__init__(parameters, prior, digest)
        self.variance = variance

    @classmethod
    def affine(
        cls,
        intensity: Any,
        alpha: Range = (1e-4, 1.0),
        beta: Range = (0.0, 1.0),
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> PixelNoise:
        """v = α + β · map: read noise plus shot noise that grows with the intensity."""
        where = _map(intensity, "intensity map")
        if bool((where < 0).any()):
            raise InputError("intensity map: has negative pixels, so α + β·map may be negative")
        if alpha[0] <= 0 or beta[0] < 0:
            raise InputError("alpha must start above 0 and beta at 0 or above: variances")

        def variance(phi: Tensor) -> Tensor:
            a, b = phi[:, 0, None, None], phi[:, 1, None, None]
            return a + b * where

        parameters = [Parameter("alpha", *alpha, r"\alpha"), Parameter("beta", *beta, r"\beta")]
        return cls(variance, parameters, prior, _digest("affine", where, prior, digest))

    @classmethod
    def weighted(
        cls,
        inverse_variance: Any,
        sigma: Range = (0.01, 1.0),
        prior: LogDensity | None = None,
        digest: str | None = None,
    ) -> PixelNoise:
        """v = σ² / inverse_variance, known up to its overall scale."""
        weight = _map(inverse_variance, "inverse-variance map")
        if bool((weight <= 0).any()):
            raise InputError("inverse-variance map: every pixel must be above 0")
        if sigma[0] <= 0:
            raise InputError(f"parameter sigma: must be positive, not from {sigma[0]:g}")

        def variance(phi: Tensor) -> Tensor:
            return phi[:, 0, None, None] ** 2 / weight

        parameters = [Parameter("sigma", *sigma, r"\sigma")]
        return cls(variance, parameters, prior, _digest("weighted", weight, prior, digest))

    def covariance(
        self, shape: Shape, phi: Tensor, dtype: torch.dtype = torch.float64
    ) -> PixelCovariance:
        """diag(v_φ)."""
        v = self.variance(phi)
        if v.shape[-2:] != shape:
            height, width = v.shape[-2:]
            raise InputError(
                f"{self}: its map is {height}×{width}, the image {shape[0]}×{shape[1]}"
            )
        return PixelCovariance(v[:, None].to(dtype))

    def statistic(self, noise: Any, observed: Tensor | None = None) -> PixelStatistic:
        """Σ_channels ε²; whatever ε is where pixels were not observed, it does not count."""
        if observed is not None:
            noise = torch.where(observed, torch.as_tensor(noise), 0.0)
        eps = as_images(noise, "noise", smallest=1).double()
        return PixelStatistic(eps.square().sum(1), eps.shape[1], observed)

    def log_likelihood(self, phi: Tensor, statistic: PixelStatistic) -> Tensor:
        """-½ Σ_pixels [C log(2π v) + ε²/v], over the observed pixels."""
        v = self.variance(phi)
        terms = statistic.channels * torch.log(2 * math.pi * v) + statistic.P / v
        if statistic.observed is not None:
            terms = torch.where(statistic.observed, terms, 0.0)
        return -0.5 * terms.sum((-2, -1))


def _digest(kind: str, where: Tensor, prior: LogDensity | None, given: str | None) -> str | None:
    """The given one, or that of the map, unless there is a prior that has no name."""
    return digest_of(kind, where) if given is None and prior is None else given


def _map(values: Any, name: str) -> Tensor:
    x = as_images(values, name, smallest=1).double()
    if x.shape[:2] != (1, 1):
        raise InputError(f"{name}: needs one plane (H, W), not shape {tuple(x.shape)}")
    return x[0, 0]
