r"""Error bars that know how wrong the network is, eq. (12).

The network's error power is off by a factor c(|k|) that changes from image to image. At the mode
g(φ̂, c) = 0, so that ∂φ̂/∂log c = H⁻¹ ∂g/∂log c with H the information, and Cov(log c), measured
on held-out images, becomes a covariance of φ̂ that is added to the posterior's own. Where the error
of the noise's power N̂ itself was measured, c multiplies N̂ instead.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import Calibration
from gibbsdiff.diffusion.denoiser import SpectralDenoiser
from gibbsdiff.fourier import between_references, half_plane
from gibbsdiff.marginal import Marginal, Mode
from gibbsdiff.marginal.method import added


@torch.no_grad()
def response(marginal: Marginal, mode: Mode, of_noise: bool = False) -> Tensor:
    """∂φ̂/∂log c at the 8 reference frequencies of every channel: (B, d, 8 C), channels outermost.

    ∂g_i/∂log c_j = ½ Σ_k w h_j ∂_i log N Ê/N, with h_j the hat function of log|k| around knot j;
    without Ê/N if the factor is one `of_noise`.
    """
    shape = marginal.shape
    rows, owner = marginal.rows(len(mode.phi))
    share = (mode.seen.E / mode.seen.N).flatten(2).double()
    if of_noise:
        share = torch.ones_like(share)
    k = half_plane(shape)
    hats = between_references(shape) * k.weight
    slopes = marginal.slopes(k, mode.phi)[owner]
    counted = marginal.view.counted(rows)
    G = 0.5 * torch.einsum("b,bim,bcm,jm->bicj", counted, slopes, share, hats).flatten(2)
    G = added(G, owner, len(mode.phi))
    width = marginal.width
    unit = mode.covariance / width[:, None] / width
    return width[:, None] * (unit @ G)


def with_model_error(
    marginal: Marginal, mode: Mode, calibration: Calibration | None = None
) -> Mode:
    """The mode with A Cov(log c) Aᵀ added to its covariance, A = ∂φ̂/∂log c.

    Cov(log c) is that of a calibration, by default the denoiser's; a denoiser without one makes no
    error, and the mode stays as it is.
    """
    denoiser = marginal.denoiser
    if calibration is None and isinstance(denoiser, SpectralDenoiser):
        calibration = denoiser.calibration
    if calibration is None:
        return mode
    A = response(marginal, mode, calibration.of_noise)
    # A grey picture is its luminance alone.
    scatter = calibration.scatter[: A.shape[-1], : A.shape[-1]].double()
    return replace(mode, covariance=mode.covariance + A @ scatter @ A.mT)
