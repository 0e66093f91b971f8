"""The standard deviation of x | y in every pixel, from a denoiser's error covariance."""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.diffusion.denoiser import NetworkError
from gibbsdiff.errors import InputError
from gibbsdiff.fourier import OPPONENT, half_plane
from gibbsdiff.inference.observation import View
from gibbsdiff.noise.covariance import Covariance, SpectralCovariance


def pixel_sd(view: View, error: Covariance, channels: int) -> Tensor:
    """√diag E_t in the channels of the picture: (B, C, H, W).

    Opponent channels err independently: Var x_i = Σ_j O_ji² Var_j.
    """
    if isinstance(error, NetworkError):
        variance = error.variance
    elif isinstance(error, SpectralCovariance):
        mean = half_plane(view.shape).mean(error.power.flatten(2).double())
        variance = mean[..., None].expand(-1, channels, *view.shape).to(error.power)
    else:
        raise InputError("an uncertainty map needs a denoiser with an error model")
    taken = view.take_power(variance).clamp(min=0)
    if taken.shape[1] == 3:
        taken = torch.einsum("ji,bjhw->bihw", OPPONENT.square().to(taken), taken)
    return taken.sqrt()
