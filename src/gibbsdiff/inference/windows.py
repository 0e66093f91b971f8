"""Large pictures: φ from windows that share it, then x in one call for the whole frame."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import Denoiser
from gibbsdiff.fourier import Shape
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.model_error import with_model_error
from gibbsdiff.inference.observation import View, on_grid, taper
from gibbsdiff.inference.pipeline import Options
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.inference.uncertainty import pixel_sd
from gibbsdiff.noise.base import StationaryNoise
from gibbsdiff.streams import Streams

LARGE = 512**2  # pixels above which φ is taken from windows
SIDE, MOST = 256, 4  # windows of 256², at most 4 × 4


def places(shape: Shape, side: int = SIDE, most: int = MOST) -> list[tuple[int, int]]:
    """Corners of windows that do not overlap, spread evenly: at most `most` along each side."""
    along = []
    for n in shape:
        count = max(1, min(most, n // side))
        gap = (n - count * side) / count
        along.append([int((i + 0.5) * gap) + i * side for i in range(count)])
    return [(top, left) for top in along[0] for left in along[1]]


def from_windows(
    y: Tensor, noise: StationaryNoise, denoiser: Denoiser, view: View, options: Options
) -> Posterior:
    """Scores of eq. (11) add up over windows; the noise's N(k) then stands on the whole grid.

    σ is stated for the whole picture: the pixel standard deviation of that N(k).
    """
    assert view.window is not None
    shape = view.shape
    small = (min(SIDE, shape[0]), min(SIDE, shape[1]))
    cuts = [(slice(t, t + small[0]), slice(left, left + small[1])) for t, left in places(shape)]
    parts = torch.cat([y[..., rows, columns] for rows, columns in cuts])
    seen = torch.cat([view.window[..., rows, columns] > 0 for rows, columns in cuts])
    window = taper(small) * seen
    useful = window.mean((1, 2, 3)) > 0.3  # a window of missing pixels says nothing
    keep = useful if bool(useful.any()) else torch.ones_like(useful)
    parts, window = parts[keep], window[keep]
    local = View(noise, small, view.grey, window)
    marginal = Marginal(parts, noise, denoiser, local, shared=True, seed=options.seed)
    start = regression_start(parts, noise).median(0, keepdim=True).values
    mode = marginal.mode(start)
    raw = mode.covariance[0].diagonal().sqrt()
    mode = with_model_error(marginal, mode)
    phi = marginal.draws(mode, options.draws, options.seed, points=0, chains=options.chains)[0]

    covariance = on_grid(noise, shape, mode.phi, small, y.dtype)
    if view.grey:
        covariance = covariance.scaled(torch.full((1,), 3.0, dtype=torch.float64).sqrt())
    with torch.no_grad():
        shown = view.show(y, covariance, Streams(options.seed, [(0, 1)]))
        mean, error = denoiser(shown, covariance)
        sd = pixel_sd(view, error, shown.shape[1])[0]
    N = view.take_power(covariance.power)
    ratio = float(replace(covariance, power=N).level) / float(
        noise.covariance(small, mode.phi).level
    )
    phi, raw = _whole_picture(noise, phi, raw, ratio)
    notes = [f"φ from {len(parts)} windows of {small[0]}×{small[1]}, x from one call"]
    found = bool(mode.converged.all())
    if not found:
        notes.append("the search for the mode did not end")
    return Posterior(
        noise.names,
        phi,
        y[0],
        view.take(mean)[0],
        sd,
        method="marginal, windows",
        calls=marginal.calls + 1,
        raw_sd=tuple(raw.tolist()),
        noise_power=N[0, 0],
        found=found,
        notes=tuple(notes),
    )


def _whole_picture(
    noise: StationaryNoise, phi: Tensor, raw: Tensor, ratio: float
) -> tuple[Tensor, Tensor]:
    """The amplitude, if the family has one, as that of the same N(k) on the larger grid."""
    if noise.amplitude not in noise.names:
        return phi, raw
    scale = torch.ones(len(noise.names), dtype=torch.float64)
    scale[noise.names.index(noise.amplitude)] = ratio
    return phi * scale, raw * scale
