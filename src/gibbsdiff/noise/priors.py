"""Gaussian priors on φ inside its box: a density, exact draws, and a curvature."""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.streams import Streams

TRIES = 64


class GaussianPrior:
    """exp(-½ (φ-m)ᵀ Λ (φ-m)), cut at the walls of a box.

    Parameters without a prior of their own have a row and a column of zeros in Λ: they are uniform
    on the box.

    Arguments:
        mean: m (d,).
        precision: Λ (d, d), symmetric, not negative.
    """

    def __init__(self, mean: Tensor, precision: Tensor) -> None:
        self.mean, self.precision = mean.double(), precision.double()

    @classmethod
    def independent(cls, mean: Tensor, sd: Tensor) -> GaussianPrior:
        """One sd (d,) for each parameter; infinite: uniform."""
        return cls(mean, torch.diag(sd.double() ** -2))

    def __call__(self, phi: Tensor) -> Tensor:
        """log p(φ) up to a constant: (..., d) -> (...)."""
        off = phi - self.mean
        # Not `off @ precision`: BLAS rounds by batch size.
        return -0.5 * (off[..., :, None] * self.precision * off[..., None, :]).sum((-2, -1))

    def given(self, free: list[int], values: Tensor) -> GaussianPrior:
        """The prior of the `free` parameters, the others having their values (d,)."""
        rest = [i for i in range(len(values)) if i not in free]
        own = self.precision[free][:, free]
        if not rest:
            return GaussianPrior(self.mean[free], own)
        pull = self.precision[free][:, rest] @ (values.double() - self.mean)[rest]
        # Parameters without a prior of their own have no pull: the pseudo-inverse leaves them.
        return GaussianPrior(self.mean[free] - torch.linalg.pinv(own) @ pull, own)

    def draw(self, rng: Streams, low: Tensor, high: Tensor) -> Tensor:
        """(B, d), exact: by inversion where parameters are independent, and otherwise the first of
        some Gaussian draws that is inside the box.
        """
        L = self.precision
        if torch.equal(L, torch.diag(L.diagonal())):
            return self._by_inversion(rng.uniform(len(L)), low, high)
        uniform = L.diagonal() == 0
        safe = L + torch.diag(uniform.to(L))
        factor = torch.linalg.cholesky(safe)
        z = rng.normal(TRIES, len(L))
        off = torch.linalg.solve_triangular(factor.mT, z.mT, upper=True).mT
        flat = low + rng.uniform(TRIES, len(L)) * (high - low)
        phi = torch.where(uniform, flat, self.mean + off)
        inside = ((phi >= low) & (phi <= high)).all(-1)
        first = inside.to(torch.int8).argmax(-1)
        return phi[torch.arange(len(phi)), first].clamp(low, high)

    def _by_inversion(self, u: Tensor, low: Tensor, high: Tensor) -> Tensor:
        sd = self.precision.diagonal() ** -0.5
        known = torch.isfinite(sd)
        scale = torch.where(known, sd, 1.0)
        ends = [torch.special.ndtr((end - self.mean) / scale) for end in (low, high)]
        within = (ends[0] + u * (ends[1] - ends[0])).clamp(1e-300, 1 - 1e-16)
        phi = self.mean + scale * torch.special.ndtri(within)
        return torch.where(known, phi, low + u * (high - low)).clamp(low, high)
