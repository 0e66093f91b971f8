"""Pictures in a figure: observed, denoised, a sample, uncertainty, residual."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.plots.arithmetic import SIDE, block_mean, block_size
from gibbsdiff.plots.style import NORMAL, SMALL, VERMILION


def filled(posterior: Posterior) -> Tensor:
    """y, with the posterior mean where it was not observed: there the residual is zero."""
    if posterior.missing is None:
        return posterior.observed
    return torch.where(posterior.missing, posterior.mean, posterior.observed)


def window(mean: Tensor) -> tuple[float, float]:
    """The values shown as black and white: 0 and 1, or the range of data on another scale."""
    small = block_mean(mean, 256).double().numpy()
    low, high = np.quantile(small, [0.005, 0.995])
    if low >= -0.1 and high <= 1.1:
        return 0.0, 1.0
    return float(low), float(max(high, low + 1e-12))


def picture(
    axis: Axes, image: Tensor, title: str = "", limits: tuple[float, float] = (0.0, 1.0)
) -> None:
    """(C, H, W) in grey or, for C = 3, in colour; of other numbers of channels their mean."""
    small = block_mean(image).double()
    low, high = limits
    shown = ((small - low) / (high - low)).clamp(0, 1)
    if len(shown) == 3:
        axis.imshow(shown.permute(1, 2, 0).numpy(), interpolation="nearest")
    else:
        axis.imshow(shown.mean(0).numpy(), cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    _frame(axis, title)


def uncertainty(axis: Axes, posterior: Posterior, title: str = "uncertainty") -> None:
    """The sd of x | y in every pixel (root mean square over channels), in the input's units."""
    if posterior.sd is None:
        raise InputError("uncertainty: this posterior has no map of it")
    sd = block_mean(posterior.sd.square().mean(0, keepdim=True).sqrt())[0] * posterior.unit
    values = sd.double().numpy()
    high = float(np.quantile(values, 0.995))
    low = float(np.quantile(values, 0.005))
    # From zero, unless that leaves most of the colours unused.
    low = 0.0 if low < 0.5 * high else low
    if high - low <= 1e-9 * abs(high):
        low, high = 0.0, high if high > 0 else 1.0
    drawn = axis.imshow(values, cmap="viridis", vmin=low, vmax=high, interpolation="nearest")
    _frame(axis, title)
    _bar(axis, drawn, _unit("sd of x given y", posterior), values, low, high)


def residual(axis: Axes, posterior: Posterior, title: str = "residual y − mean") -> None:
    """y - E[x | y], mean over channels, in the input's units: noise and nothing else, one hopes."""
    difference = (filled(posterior) - posterior.mean).mean(0, keepdim=True)
    values = block_mean(difference)[0].double().numpy() * posterior.unit
    high = float(np.quantile(np.abs(values), 0.995)) or 1.0
    drawn = axis.imshow(values, cmap="RdBu_r", vmin=-high, vmax=high, interpolation="nearest")
    _frame(axis, title)
    colours = "mean over channels" if len(posterior.mean) > 1 else "difference"
    _bar(axis, drawn, _unit(colours, posterior), values, -high, high)


def mark_missing(axis: Axes, missing: Tensor | None) -> None:
    """Colour the pixels that were not observed: the more of a block, the more opaque it is."""
    if missing is None or not bool(missing.any()):
        return
    share = block_mean(missing[None].float())[0].numpy()
    overlay = np.empty((*share.shape, 4))
    overlay[..., :3] = to_rgb(VERMILION)
    overlay[..., 3] = share
    axis.imshow(overlay, interpolation="nearest")


def remark(posterior: Posterior) -> str:
    """What a reader should know of how the pictures are shown; empty if nothing."""
    height, width = posterior.mean.shape[-2:]
    block = block_size(height, width, SIDE)
    parts = [f"{width} × {height} pixels"]
    if block > 1:
        parts.append(f"shown as means over {block} × {block}")
    count = 0 if posterior.missing is None else int(posterior.missing.sum())
    if count:
        parts.append(f"{count} missing, in orange")
    if posterior.sd is None:
        parts.append("no map of the uncertainty")
    return ", ".join(parts)


def _unit(text: str, posterior: Posterior) -> str:
    return text if posterior.unit == 1 else f"{text}, input's units"


def _frame(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize=NORMAL)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_linewidth(0.4)


def _bar(axis: Axes, drawn: Any, text: str, values: Any, low: float, high: float) -> None:
    above, below = bool((values > high).any()), bool((values < low).any())
    extend = {(True, True): "both", (True, False): "max", (False, True): "min"}
    figure = axis.get_figure()
    assert figure is not None
    # Inside the picture's own frame of reference, so that pictures in a row stay level.
    thick = 0.04 * values.shape[1] / values.shape[0]
    place = axis.inset_axes((0.0, -1.75 * thick, 1.0, thick))
    bar = figure.colorbar(
        drawn,
        cax=place,
        orientation="horizontal",
        extend=extend.get((above, below), "neither"),
        extendfrac=0.03,
    )
    place.tick_params(labelsize=SMALL, length=2)
    place.locator_params(nbins=4)
    bar.set_label(text, fontsize=SMALL)
    bar.outline.set_linewidth(0.4)
