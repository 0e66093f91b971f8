"""What a browser is shown of a posterior: PNGs of both sides of the slider, and words.

Both sides are rendered here, by one stretch and with the profile of the input in both: browsers
turn pictures by their EXIF and we do not, and they know neither TIFF nor FITS.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from PIL import Image
from torch import Tensor

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.words import level_in_words, spectra_in_words
from gibbsdiff.plots.arithmetic import block_mean, block_size
from gibbsdiff.plots.channels import channel_spectra
from gibbsdiff.plots.pictures import filled, window

LARGEST = 4096  # pixels of a side; larger pictures are shown as means over blocks


class Views(NamedTuple):
    """Files by name, and what is said of them."""

    files: dict[str, bytes]
    facts: dict[str, Any]


def views(
    posterior: Posterior, title: str, profile: bytes | None = None, largest: int = LARGEST
) -> Views:
    """PNGs of y, of the denoised picture and of its uncertainty, the noise's spectrum as SVG, and
    the facts that go with them.
    """
    shown = picture_views(
        ("noisy", filled(posterior)),
        ("denoised", posterior.picture),
        posterior.sd,
        posterior.unit,
        profile,
        largest,
    )
    height, width = posterior.mean.shape[-2:]
    check = posterior.check
    facts = {
        "title": title,
        "size": [width, height],
        **shown.facts,
        "outcome": posterior.outcome,
        "good": posterior.good,
        "fits": None if check is None else check.fits,
        "verdict": "The noise model was not checked." if check is None else check.verdict,
        "words": noise_in_words(posterior),
        "summary": posterior.summary(),
        "spectrum": "spectrum.svg",
    }
    buffer = io.BytesIO()
    channel_spectra(posterior).savefig(buffer, format="svg", metadata={"Date": None})
    return Views({**shown.files, "spectrum.svg": buffer.getvalue()}, facts)


def picture_views(
    before: tuple[str, Tensor],
    after: tuple[str, Tensor],
    sd: Tensor | None,
    unit: float = 1.0,
    profile: bytes | None = None,
    largest: int = LARGEST,
) -> Views:
    """The two sides of a slider, named pictures (C, H, W) by the stretch of the second, and the
    standard deviation to lay over them.
    """
    height, width = after[1].shape[-2:]
    limits = window(after[1])
    block = block_size(height, width, largest)
    files = {
        f"{name}.png": png(block_mean(values, largest), limits, profile)
        for name, values in (before, after)
    }
    facts: dict[str, Any] = {
        "before": {"name": before[0], "file": f"{before[0]}.png"},
        "after": {"name": after[0], "file": f"{after[0]}.png"},
        "overlay": None,
        "block": block,
    }
    if sd is not None:
        rms = block_mean(sd.square().mean(0, keepdim=True).sqrt(), largest)[0].double().numpy()
        high = float(np.quantile(rms, 0.995)) or 1.0
        colours = colormaps["viridis"](np.clip(rms / high, 0, 1), bytes=True)[..., :3]
        files["uncertainty.png"] = _encoded(np.ascontiguousarray(colours))
        facts["overlay"] = {"file": "uncertainty.png", "high": f"{high * unit:.3g}"}
    return Views(files, facts)


def png(values: Tensor, limits: tuple[float, float], profile: bytes | None = None) -> bytes:
    """(C, H, W) as a PNG of 8 bits, `limits` shown as black and white."""
    low, high = limits
    levels = ((values.double() - low) / (high - low)).clamp(0, 1).mul(255).round().byte().numpy()
    if len(levels) not in (1, 3):
        levels = levels[:1]
    kind = profile[16:20] if profile else b""
    if kind == b"RGB " and len(levels) == 1:
        levels = np.repeat(levels, 3, axis=0)
    fits = kind == (b"RGB " if len(levels) == 3 else b"GRAY")
    pixels = levels[0] if len(levels) == 1 else np.ascontiguousarray(levels.transpose(1, 2, 0))
    return _encoded(pixels, profile if fits else None)


def noise_in_words(posterior: Posterior) -> list[str]:
    """The noise in words, whatever its family; of one spectrum for all channels, without their
    names.
    """
    N = posterior.noise_power
    if N is None:
        return []
    lines = spectra_in_words(N, posterior.observed.shape[-1], posterior.unit)
    if len(N) == 1:
        lines = [line.replace("noise in luma", "noise") for line in lines]
    return [*lines, *level_in_words(posterior.widened().phi.flatten(0, 1), posterior.names)]


def _encoded(pixels: np.ndarray, profile: bytes | None = None) -> bytes:
    buffer = io.BytesIO()
    options = {"icc_profile": profile} if profile else {}
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=4, **options)
    return buffer.getvalue()
