r"""The score of a level map's parameters, and their information, eq. (15).

With r̃ = (y - D)/g and ε = g ⊙ stationary noise of power N,

    ∂_a log p(y | φ) = Σ_p ∂_a log g [ Σ_c r̃ (Σ₀⁻¹ r̃) + tr_c ∂D/∂y - C ]

by Fisher's identity, as eq. (11) has it for N: the second term is what x - D adds to y - D. Under a
taper t it is that of t r̃, and a pixel counts share · t²/mean t².

Where noise is next to none Σ₀⁻¹ is large, and a spectrum that is a little wrong there would say
how the level goes with brightness. So modes have weights h, Σ₀⁻¹ → h Σ₀⁻¹, `counted_modes`: for
given h the expectation is still zero at the truth, with C the sum over channels of mean h.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gibbsdiff.fourier import filtered, half_plane, to_opponent
from gibbsdiff.inference.observation import ObservationModel, stationary
from gibbsdiff.noise.level import LevelMap, Light

FAINT = 0.03  # of the mean power: modes of so little noise count half


def counted_modes(N: Tensor) -> Tensor:
    """h = N/(N + 0.03 mean N), for a noise of power N (B, 1 or C, H, W//2+1)."""
    return N / (N + FAINT * N.mean((1, 2, 3), keepdim=True))


def slopes_of_level(level: LevelMap, light: Light) -> Tensor:
    """∂ log g/∂curve in every pixel, (B, n, H, W): the curve's slopes less their g²-weighted mean
    over the picture, as g keeps its mean square.
    """
    assert level.curve is not None
    form, whole = level.form, light.whole[None]
    weight = torch.softmax(2 * form.log_level(level.curve, whole), -1)
    mean = (weight[:, None] * form.slopes(level.curve, whole)).sum(-1)
    here = form.slopes(level.curve, light.map.flatten(1)) - mean[..., None]
    return here.unflatten(-1, light.map.shape[-2:])


def level_score(
    observation: ObservationModel,
    rows: Tensor,
    residual: Tensor,
    g: Tensor,
    N: Tensor,
    trace: Tensor,
    h: Tensor,
    slopes: Tensor,
) -> Tensor:
    """∂ log p(y | φ) by the curve of each named image, (B, n).

    Arguments:
        residual: y - D, (B, C, H, W).
        g: (B, 1, H, W).
        N: The noise's power, (B, 1 or C, H, W//2+1).
        trace: Of h ∂D/∂y over channels, times the window squared, (B, 1, H, W).
        h: How much each mode counts, like N.
        slopes: Of log g, (B, n, H, W).
    """
    shown = to_opponent((residual / g).double())
    t = observation.whole_window(rows)
    inverse = h.double() / N.double()
    channels = half_plane(observation.shape).mean(h.double().flatten(2))
    channels = channels.expand(-1, residual.shape[1], 1).sum(1).view(-1, 1, 1, 1)
    size: Tensor | float = 1.0
    if t is not None:
        mean = (t * shown).sum((-2, -1), keepdim=True) / t.sum((-2, -1), keepdim=True)
        shown = t * (shown - mean)
        size = t.square().mean((-2, -1), keepdim=True)
        # The mean of a cut field says nothing of N(0).
        k = half_plane(observation.shape).k.reshape(inverse.shape[-2:])
        inverse = inverse * (k > 0)
    share = observation.counted(rows).view(-1, 1, 1, 1)
    seen = (shown * filtered(shown, inverse)).sum(1, keepdim=True) + trace.double()
    excess = share * seen / size - channels * observation.pixels_counted(rows)
    return (slopes * excess).sum((-2, -1))


def with_level(
    observation: ObservationModel,
    phi: Tensor,
    rows: Tensor,
    J: Tensor,
    residual: Tensor,
    g: Tensor,
    N: Tensor,
    trace: Tensor,
    h: Tensor,
    held: Tensor,
    of_spectrum: Tensor,
) -> tuple[Tensor, Tensor]:
    """What the level map's parameters add to the score of each named image at φ, (B, d) in the unit
    box, and the information J (B, d, d) of the others with what they add to it.

    Arguments:
        held: (1-Ê/N)², (B, C, H, W//2+1).
        of_spectrum: ∂ log N/∂u in every group of modes, (B, d, R, M).
        others: As `level_score` has them.
    """
    noise = stationary(observation.lit(rows))
    if not set(noise.level_names) & set(noise.names):
        return torch.zeros_like(phi), J
    level, light = noise.level_map(phi), observation.light
    assert level is not None
    assert light is not None
    where = slopes_of_level(level, light.rows(rows))
    # Of a curve that is partly known the rest is free.
    free = [i for i, name in enumerate(noise.level_names) if name in noise.names]
    index = torch.tensor([noise.names.index(noise.level_names[i]) for i in free])
    scale = (noise.high - noise.low)[index]
    where = where[:, free] * scale[:, None, None]
    gradient = torch.zeros_like(phi)
    gradient[:, index] = level_score(observation, rows, residual, g, N, trace, h, where)
    pixels = observation.shape[0] * observation.shape[1]
    groups = noise.by_spectrum(noise.grouping(observation.shape).sum(h * held))[0] / pixels
    along = torch.einsum("brm,birm->bi", groups, of_spectrum)
    among, between = level_information(
        observation.pixels_counted(rows), where, groups.sum((-2, -1)), along
    )
    J = J.clone()
    J[:, index] += between
    J[:, :, index] += between.mT
    J[:, index[:, None], index] += among
    return gradient, J


def level_information(
    counted: Tensor, slopes: Tensor, held: Tensor, of_spectrum: Tensor
) -> tuple[Tensor, Tensor]:
    """J among the curve's parameters (B, n, n), and between them and those of N, (B, n, d).

    A place and a mode together hold ½ (1-Ê/N)² of the squared change of log(g² N); slopes of
    log g are the same at all modes, and those of log N, `of_spectrum` (B, d), summed over modes
    with (1-Ê/N)² per pixel, at all places.

    Arguments:
        counted: How much each pixel counts, (1 or B, 1, H, W).
        held: Σ_k w Σ_c (1-Ê/N)²/(H W), (B,).
    """
    first = (counted * slopes).sum((-2, -1))
    second = torch.einsum("bihw,bjhw->bij", counted * slopes, slopes.expand_as(counted * slopes))
    return 2 * held[:, None, None] * second, first[..., None] * of_spectrum[:, None, :]
