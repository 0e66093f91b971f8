"""The standard deviation of x | y in every pixel, from a denoiser's error covariance."""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.fourier import OPPONENT
from gibbsdiff.inference.observation import ObservationModel
from gibbsdiff.noise.covariance import Covariance


def pixel_sd(
    observation: ObservationModel, error: Covariance | None, channels: int
) -> Tensor | None:
    """√diag E_t in the channels of the picture, (B, C, H, W); None without an error model.

    Opponent channels err independently: Var x_i = Σ_j O_ji² Var_j.
    """
    variance = None if error is None else error.pixel_variance()
    if variance is None:
        return None
    variance = variance.expand(-1, channels, -1, -1)
    taken = observation.take_power(variance).clamp(min=0)
    if taken.shape[1] == 3:
        taken = torch.einsum("ji,bjhw->bihw", OPPONENT.square().to(taken), taken)
    return taken.sqrt()
