r"""Error bars that know how wrong the network is, eq. (12).

N̂ = |y-D|² + Ê is off by a factor 1 + ρ(|k|) q, q the `overlap` of x-D and y-D, and ρ changes from
image to image. At the mode g(φ̂, ρ) = 0, so that ∂φ̂/∂ρ = H⁻¹ ∂g/∂ρ with H the information, and
Cov ρ, measured on held-out images, becomes a covariance of φ̂ that adds to the posterior's own. The
mean of ρ is taken off N̂ already.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.diffusion.calibration import overlap
from gibbsdiff.fourier import between_references, half_plane
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.score import ScoreAt, sum_by_owner
from gibbsdiff.inference.search import Mode


@torch.no_grad()
def score_by_rho(marginal: Marginal, phi: Tensor, at: ScoreAt) -> Tensor:
    """∂g/∂ρ at the 8 reference frequencies of every channel, in the unit box: (B, d, 8 C), channels
    outermost, with g the score at φ (B, d) and `at` what it saw.

    ∂g_i/∂ρ_j = ½ Σ_k w h_j ∂_i log N q, with h_j the hat function of log|k| around knot j.
    """
    shape = marginal.shape
    rows, owner = marginal.rows(len(phi))
    k = half_plane(shape)
    hats = between_references(shape) * k.weight
    slopes = marginal.slopes(k, phi)[owner]
    counted = marginal.observation.counted(rows)
    q = overlap(at.E, at.N).double()
    h = marginal.observation.mode_weights(rows)
    q = (q if h is None else q * h).flatten(2)
    slopes = slopes.expand(-1, -1, q.shape[1], -1)
    G = 0.5 * torch.einsum("b,bicm,bcm,jm->bicj", counted, slopes, q, hats).flatten(2)
    return sum_by_owner(G, owner, len(phi))


def response(marginal: Marginal, mode: Mode) -> Tensor:
    """∂φ̂/∂ρ = H⁻¹ ∂g/∂ρ, (B, d, 8 C)."""
    width = marginal.width
    unit = mode.inverse / width[:, None] / width
    return width[:, None] * (unit @ score_by_rho(marginal, mode.phi, mode.at))


def model_error(marginal: Marginal, mode: Mode, scatter: Tensor | None = None) -> Tensor | None:
    """A Cov ρ Aᵀ with A = ∂φ̂/∂ρ, (B, d, d): what the denoiser's own error adds to Cov φ̂.

    Cov ρ is the denoiser's, unless another is given: that of weighted scores where they are
    weighted, eq. (14). None for a denoiser that makes no error.
    """
    if scatter is None:
        known = marginal.noise_error
        if known is None:
            return None
        scatter = known.scatter
    A = response(marginal, mode)
    # A grey picture is its luminance alone.
    own = scatter[: A.shape[-1], : A.shape[-1]].double()
    return A @ own @ A.mT
