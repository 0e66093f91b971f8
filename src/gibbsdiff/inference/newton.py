"""Newton steps of the whole posterior of φ: what the score, quiet places and the prior tell.

The posterior's covariance is (Σ J_eff + Λ)⁻¹, eq. (16), with the curvature Λ of the prior: nothing
is differentiated by differences.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.fourier import half_plane
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.matrices import make_positive_definite
from gibbsdiff.inference.progress import Progress, silent
from gibbsdiff.inference.score import Score
from gibbsdiff.inference.search import SEARCH, Mode, next_step
from gibbsdiff.inference.told import QuietData, by_score, together

BELOW = 2.0  # of log σ, the lower of two starts
REACH = 0.5  # rms by which log N of a channel may change in a step
BENT = (0.05, 0.3)  # how much of that, at least and in parts of it, may not be in proportion
STILL = 0.05  # rms change of log N that is the last
SAME = 0.5  # in log power: ends that near are one
BACK = 0.4  # of a step that led down
HELD = 2  # parameters that may be held for a step to be in proportion
POINTS = 5
NEAR = (0.3, 0.01)  # how short the last step is, in sd and in prior widths


class _Step(NamedTuple):
    """A place u (1, d) with its gradient, the step that leads on, and the score there."""

    u: Tensor
    gradient: Tensor
    step: Tensor
    score: Score


def climb_whole(
    marginal: Marginal,
    beside: QuietData | None,
    start: Tensor,
    most: int = 8,
    progress: Progress = silent,
) -> tuple[Mode, Tensor]:
    """The mode of the whole posterior from φ (1, d), and the shares (3, d) of the information on
    each parameter that came from the network, from quiet places and from the prior.

    All steps ask the derivative of the denoiser for its error: its own word of it, a third of the
    cost, leads away from where quiet places begin.
    """
    u = ((start - marginal.noise.low) / marginal.width).clamp(0, 1)
    best: _Step | None = None
    ended, length, gained = False, 1.0, 0.0
    for i in range(most + 1):
        progress(SEARCH, i, most)
        score = marginal.score(u)
        g, H, _ = together(marginal, beside, marginal.phi(u), score)
        # log p rises by the mean slope times the way; if not, the step was too long.
        if best is not None:
            gained = float((0.5 * (g + best.gradient) * (u - best.u)).sum())
        if best is None or gained >= 0:
            step, short, size = _straight_step(marginal, u, g, H)
            best, length = _Step(u, g, step, score), min(1.0, 2 * length)
            ended = short or size < STILL
        else:
            length *= BACK
        if ended or i == most:
            break
        u = _moved(marginal, best.u, length * best.step)[0]
    progress(SEARCH, most, most)
    assert best is not None
    u, score, calls = best.u, best.score, (i + 1) * marginal.cost
    phi = marginal.phi(u)
    _, H, shares = together(marginal, beside, phi, score)
    width = marginal.width
    scale = width[:, None] * width
    total = torch.linalg.inv(make_positive_definite(H)) * scale
    _, naive, _ = together(marginal, beside, phi, score, errors=False)
    raw = torch.linalg.inv(make_positive_definite(naive)) * scale
    linear, part = total, in_proportion(marginal, u, total)
    total, raw = (part[:, None] * covariance * part for covariance in (total, raw))
    mode = Mode(phi, raw, raw, score.at, score.at.around, calls, torch.full((len(u),), ended))
    return replace(mode, model_error=total - raw, linear=linear), shares


def _straight_step(
    marginal: Marginal, u: Tensor, g: Tensor, H: Tensor
) -> tuple[Tensor, bool, float]:
    """The Newton step, whether it is short, and the rms of the change of log N that it would make.

    Parameters by which log N does not change in proportion would hold all others back, such as a
    roll-off near its wall, of which nothing is seen there: up to two of them stay where they are.
    """
    step, short = next_step(u, g, H, [], NEAR)
    _, size, part = _moved(marginal, u, step)
    g, H = g.clone(), H.clone()
    for _ in range(HELD):
        if part >= 0.5:
            break
        i = int(_bent(marginal, u, step).argmax())
        H[:, i], H[:, :, i], g[:, i] = 0.0, 0.0, 0.0
        H[:, i, i] = 1.0
        held, held_short = next_step(u, g, H, [], NEAR)
        _, held_size, held_part = _moved(marginal, u, held)
        if held_part <= part:
            break
        step, short, size, part = held, held_short, held_size, held_part
    return step, bool(short.all()), size


def _bent(marginal: Marginal, u: Tensor, step: Tensor) -> Tensor:
    """(d,) rms of the change of log N by each parameter's own step that is not in proportion."""
    k = marginal.noise.grouping(marginal.shape).k
    share, slopes = k.fraction.sqrt(), marginal.slopes(k, marginal.phi(u))[0]
    there = (u + torch.diag(step[0])).clamp(0, 1)
    change = marginal.noise.log_spectra(k, marginal.phi(there))
    change = change - marginal.noise.log_spectra(k, marginal.phi(u))
    off = change - slopes * (there - u).diagonal()[:, None, None]
    return (share * off).square().sum(-1).amax(-1).sqrt()


def _moved(marginal: Marginal, u: Tensor, step: Tensor) -> tuple[Tensor, float, float]:
    """u + step, or the half, quarter, … of it by which log N changes about as a Newton step takes
    it to: in proportion, and not too far. The rms of the change that the whole step would make,
    about, in the channel of the largest; and the part.
    """
    k = marginal.noise.grouping(marginal.shape).k
    share = k.fraction.sqrt()
    here = marginal.noise.log_spectra(k, marginal.phi(u))
    along = torch.einsum("birm,bi->brm", marginal.slopes(k, marginal.phi(u)), step)
    there, size = u, torch.zeros(())
    for part in (1.0, 0.5, 0.25, 0.125, 0.0625):
        there = (u + part * step).clamp(0, 1)
        change = marginal.noise.log_spectra(k, marginal.phi(there)) - here
        both = (change, change - part * along)
        size, off = ((share * d).square().sum(-1).amax().sqrt() for d in both)
        if float(size) < REACH and float(off) < BENT[0] + BENT[1] * float(size):
            break
    return there, float(size) / part, part


def in_proportion(marginal: Marginal, u: Tensor, covariance: Tensor) -> Tensor:
    """The part (d,) of each sd within which log N changes about in proportion. At a wall it may not
    change at all at first, such as for no roll-off: J is 0 there, and draws as wide as the prior
    would have spectra that y has long refuted.
    """
    k = marginal.noise.grouping(marginal.shape).k
    phi, share = marginal.phi(u), k.fraction.sqrt()
    here, slopes = marginal.noise.log_spectra(k, phi), marginal.slopes(k, phi)
    parts = torch.ones(u.shape[1], dtype=torch.float64)
    for i, sd in enumerate(covariance[0].diagonal().clamp(min=0).sqrt() / marginal.width):
        for part in (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125):
            parts[i] = part
            steps = torch.zeros(2, u.shape[1], dtype=torch.float64)
            steps[:, i] = torch.stack([part * sd, -part * sd])
            there = (u + steps).clamp(0, 1)
            change = marginal.noise.log_spectra(k, marginal.phi(there)) - here
            off = change - slopes[:, i] * (there - u)[:, i, None, None]
            size, bent = ((share * d).square().sum(-1).amax().sqrt() for d in (change, off))
            if float(bent) < BENT[0] + BENT[1] * float(size):
                break
    return parts


def climb_from_both_ends(
    marginal: Marginal, above: Tensor, most: int, progress: Progress = silent
) -> tuple[Mode, Tensor, bool]:
    """The mode where no place is surely quiet, the shares, and whether noise was told from texture.

    Where N is believed too small the network keeps everything, and the score says nothing; where it
    is believed to be all of y, it takes texture for noise. So there may be two ends: one from
    `above`, φ (1, d) of all power that the quietest places have, and one from far below. Where they
    differ, log p is the integral of the score between them, and its error that of the score.
    """
    noise, width = marginal.noise, marginal.width
    at = noise.names.index("log_sigma") if "log_sigma" in noise.names else 0
    below = above.clone()
    below[:, at] = torch.maximum(below[:, at] - BELOW, noise.low[at])
    starts = (above, below)
    ends = [climb_whole(marginal, None, start, most, progress=progress) for start in starts]
    upper, lower = (mode for mode, _ in ends)
    calls = upper.calls + lower.calls
    between = ((upper.phi - lower.phi) / width)[0]
    told, gain, error = True, 0.0, torch.zeros((), dtype=torch.float64)
    modes = half_plane(marginal.shape)
    levels = [float(modes.mean(m.at.N.flatten(2)).mean()) for m in (upper, lower)]
    if abs(math.log(levels[0] / levels[1])) > SAME:
        # Gauss and Legendre's five points; errors at all of them are one and the same.
        nodes, weights = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(POINTS))
        for node, weight in zip(nodes, weights, strict=True):
            u = (lower.phi - noise.low) / width + (1 + node) / 2 * between
            score = marginal.score(u.clamp(0, 1), probe=False)
            phi = marginal.phi(u.clamp(0, 1))
            known = by_score(marginal, phi, score)
            gain += float(weight / 2 * (known.gradient[0] @ between))
            error = error + weight / 2 * (between @ known.error[0] @ between).clamp(min=0).sqrt()
            calls += marginal.cost
        told = abs(gain) > max(3.0, 2 * float(error))
    mode, shares = ends[0] if gain > 0 and told else ends[1]
    if levels[0] <= levels[1] * math.exp(SAME):
        mode, shares = ends[0]
    return replace(mode, calls=calls), shares, told
