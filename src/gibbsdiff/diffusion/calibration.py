"""Corrections to a trained network that are measured on held-out images: c of eq. (7), a gain."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import NoiseError
from gibbsdiff.fourier import Shape, between_references

#: Knots of log(N/S_x): from noise 1e4 times weaker than the signal to 1e4 times stronger.
LOG_RATIO = torch.linspace(-9.0, 9.0, 10, dtype=torch.float64)


@dataclass(frozen=True)
class Calibration:
    """log c(|k|, N/S_x) per opponent channel, (C, 8, 10), bilinear in log|k| and log(N/S_x).

    `scatter` (8 C, 8 C), channels outermost, is what changes from image to image, eq. (12): the
    second moment of ρ in N̂/N - 1 = ρ q, with N̂ = |y-D|² + Ê, Ê of eq. (13) and q the `overlap`,
    around the `bias` (8 C,), its median; `weighted` has both for the weights of eq. (14). `camera`
    and `camera_weighted` have them for noise with a spectrum for each channel or a level map,
    eq. (15).
    `gain`, a table like log c, corrects the mean to D + gain ∗ (y-D): an error x-D that goes
    with y-D could have been removed, and would count twice in N̂.
    """

    log_c: Tensor
    scatter: Tensor
    gain: Tensor | None = None
    bias: Tensor | None = None
    weighted: NoiseError | None = None
    camera: NoiseError | None = field(default=None, metadata={"later": True})
    camera_weighted: NoiseError | None = field(default=None, metadata={"later": True})

    def noise_error(self, weighted: bool, camera: bool) -> NoiseError:
        """Bias and scatter, the nearest that was measured."""
        with_camera = (self.camera_weighted if weighted else None, self.camera) if camera else ()
        for found in (*with_camera, self.weighted if weighted else None):
            if found is not None:
                return found
        bias = self.scatter.new_zeros(len(self.scatter)) if self.bias is None else self.bias
        return NoiseError(bias, self.scatter)

    def factor(self, N: Tensor, S_x: Tensor, shape: Shape) -> Tensor:
        """c in every mode: N (B, 1, H, W//2+1), S_x (1, C, H, W//2+1) -> (B, C, H, W//2+1)."""
        return torch.exp(between(self.log_c, N, S_x, shape))


def overlap(E: Tensor, N: Tensor) -> Tensor:
    """q = √(s (1-s)), s = E/N: what a unit correlation of x-D and y-D would do to N̂/N.

    s is held below 0.95: where D keeps y as it is, s nears 1 and q vanishes, though D errs.
    """
    s = (E / N).clamp(1e-4, 0.95)
    return torch.sqrt(s * (1 - s))


def between(table: Tensor, N: Tensor, S_x: Tensor, shape: Shape) -> Tensor:
    """A table (C, 8, 10) of (|k|, N/S_x) in every mode: (B, C, H, W//2+1)."""
    along_k = between_references(shape).to(N)
    ratio = torch.log(N / S_x).flatten(2).clamp(float(LOG_RATIO[0]), float(LOG_RATIO[-1]))
    place = (ratio - LOG_RATIO[0].to(N)) / (LOG_RATIO[1] - LOG_RATIO[0]).to(N)
    places = place.expand(-1, len(table), -1).unbind(1)
    channels = []
    # One channel at a time: the ten rows of its table in every mode are large enough.
    for own, at in zip(table.to(N), places, strict=True):
        rows = own.T @ along_k
        lower = at.floor().clamp(0, len(LOG_RATIO) - 2)
        # For every image the two rows of the table that enclose its ratio.
        below, above = (rows.gather(0, (lower + step).long()) for step in (0, 1))
        channels.append(below + (at - lower) * (above - below))
    return torch.stack(channels, 1).unflatten(-1, (shape[0], -1))
