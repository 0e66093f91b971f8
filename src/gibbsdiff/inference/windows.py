"""Large pictures: φ from windows that share it, then x for the whole frame."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from gibbsdiff.fourier import Shape
from gibbsdiff.inference.observation import ObservationModel, stationary, taper

LARGE = 512**2  # pixels above which φ is taken from windows
SIDE, MOST = 256, 4  # windows of 256², at most 4 × 4
USEFUL = 0.3  # of a window's taper that must be observed


class Windows(NamedTuple):
    """Parts (n, C, h, w) of a picture with their observation model, and that of the whole picture
    with φ stated on the windows' grid.
    """

    parts: Tensor
    local: ObservationModel
    whole: ObservationModel


def places(shape: Shape, side: int = SIDE, most: int = MOST) -> list[tuple[int, int]]:
    """Corners of windows that do not overlap, spread evenly: at most `most` along each side."""
    along = []
    for n in shape:
        size, count = min(side, n), max(1, min(most, n // side))
        gap = (n - count * size) / count
        along.append([int((i + 0.5) * gap) + i * size for i in range(count)])
    return [(top, left) for top in along[0] for left in along[1]]


def cut(y: Tensor, observation: ObservationModel, pages: int = 1) -> Windows:
    """The windows of a picture y (1, C, H, W) with a taper; scores of eq. (11) add up over them.

    Of `pages` of one height under each other no window has parts of two.
    """
    assert observation.window is not None
    shape = observation.shape
    page = (shape[0] // pages, shape[1])
    small = (min(SIDE, page[0]), min(SIDE, page[1]))
    corners = [(t + i * page[0], left) for i in range(pages) for t, left in places(page)]
    cuts = [(slice(t, t + small[0]), slice(left, left + small[1])) for t, left in corners]
    parts = torch.cat([y[..., rows, columns] for rows, columns in cuts])
    seen = torch.cat([observation.window[..., rows, columns] > 0 for rows, columns in cuts])
    window = taper(small) * seen
    useful = window.mean((1, 2, 3)) > USEFUL  # a window of missing pixels says nothing
    keep = useful if bool(useful.any()) else torch.ones_like(useful)
    light = observation.light
    if light is not None:
        maps = torch.cat([light.map[..., rows, columns] for rows, columns in cuts])
        light = light.part(maps[keep])
    local = replace(observation, shape=small, window=window[keep], light=light)
    return Windows(parts[keep], local, replace(observation, stated_on=small))


def scale_to_whole(windows: Windows, phi: Tensor) -> Tensor:
    """(d,) factors that state φ (1, d) for the whole picture: the amplitude, if the family has one,
    becomes the pixel standard deviation of the same N(k) on the larger grid.
    """
    noise = stationary(windows.whole.noise)
    scale = torch.ones(len(noise.names), dtype=torch.float64)
    if noise.amplitude in noise.names:
        level = windows.whole.noise_covariance(phi, torch.float32).level
        local = noise.covariance(windows.local.shape, phi).level
        scale[noise.names.index(noise.amplitude)] = float(level) / float(local)
    return scale
