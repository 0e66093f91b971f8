r"""Error bars that know how wrong the network is, eq. (12).

N̂ = |y-D|² + Ê is off by a factor 1 + ρ(|k|) q, q the `overlap` of x-D and y-D, and ρ changes from
image to image. At the mode g(φ̂, ρ) = 0, so that ∂φ̂/∂ρ = H⁻¹ ∂g/∂ρ with H the information, and
E[ρ ρᵀ], measured on held-out images, becomes a covariance of φ̂ that adds to the posterior's own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import Calibration, overlap
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.fourier import between_references, half_plane
from gibbsdiff.inference.marginal import Marginal, Mode, added


@torch.no_grad()
def response(marginal: Marginal, mode: Mode) -> Tensor:
    """∂φ̂/∂ρ at the 8 reference frequencies of every channel: (B, d, 8 C), channels outermost.

    ∂g_i/∂ρ_j = ½ Σ_k w h_j ∂_i log N q, with h_j the hat function of log|k| around knot j.
    """
    shape = marginal.shape
    rows, owner = marginal.rows(len(mode.phi))
    k = half_plane(shape)
    hats = between_references(shape) * k.weight
    slopes = marginal.slopes(k, mode.phi)[owner]
    counted = marginal.view.counted(rows)
    q = overlap(mode.seen.E, mode.seen.N).flatten(2).double()
    G = 0.5 * torch.einsum("b,bim,bcm,jm->bicj", counted, slopes, q, hats).flatten(2)
    G = added(G, owner, len(mode.phi))
    width = marginal.width
    unit = mode.covariance / width[:, None] / width
    return width[:, None] * (unit @ G)


def with_model_error(
    marginal: Marginal, mode: Mode, calibration: Calibration | None = None
) -> Mode:
    """The mode with A E[ρ ρᵀ] Aᵀ added to its covariance, A = ∂φ̂/∂ρ.

    E[ρ ρᵀ] is that of a calibration, by default the denoiser's; a denoiser without one makes no
    error, and the mode stays as it is.
    """
    denoiser = marginal.denoiser
    if calibration is None and isinstance(denoiser, SpectralDenoiser):
        calibration = denoiser.calibration
    if calibration is None:
        return mode
    A = response(marginal, mode)
    # A grey picture is its luminance alone.
    scatter = calibration.scatter[: A.shape[-1], : A.shape[-1]].double()
    return replace(mode, covariance=mode.covariance + A @ scatter @ A.mT)
