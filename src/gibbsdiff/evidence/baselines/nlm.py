"""Non-local means, as scikit-image has it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from gibbsdiff.evidence.baselines.interface import (
    Array,
    as_image,
    one_image,
    pixels_last,
    white_sigma,
)
from gibbsdiff.noise.covariance import SpectralCovariance


def non_local_means(y: Tensor, noise: SpectralCovariance | None = None) -> Tensor:
    """Told nothing: σ from `estimate_sigma`, the noise taken for white; `noise` is ignored.

    Patches of 5×5 within 6 pixels, all channels together, h = 0.8 σ: what scikit-image's
    own example recommends.
    """
    from skimage.restoration import denoise_nl_means

    image = one_image(y)
    sigma = white_sigma(image)
    if sigma == 0:
        return image.clone()
    method: Callable[..., Array] = denoise_nl_means
    axis = -1 if image.shape[0] == 3 else None
    return as_image(
        method(
            pixels_last(image),
            patch_size=5,
            patch_distance=6,
            h=0.8 * sigma,
            sigma=sigma,
            fast_mode=False,
            channel_axis=axis,
        ),
        image,
    )
