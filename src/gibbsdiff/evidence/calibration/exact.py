"""The exact posterior of the problem "gaussian", eq. (10), in the form of a calibration's records:
a reference without Monte-Carlo error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.methods import gaussian_denoiser
from gibbsdiff.evidence.calibration.sbc import CalibrationRun, RankRecord, observations
from gibbsdiff.inference.observation import stationary
from gibbsdiff.noise.stationary import StationaryNoise

NODES = 32  # of the quadrature, for each parameter
REACH = 7.0  # standard deviations on either side
EDGE = 1e-7  # of the highest density: more than this at an end inside the box, and it moves


def exact_records(run: CalibrationRun, found: Sequence[RankRecord]) -> list[RankRecord]:
    """Records of the same observations with the exact mean and sd, and effective draws without end.

    `found` says where to integrate first; the ranks in it are kept.
    """
    if run.problem != "gaussian":
        raise InputError(
            f"the exact posterior is known for the problem gaussian, not {run.problem}"
        )
    problem = run.build()
    noise = stationary(problem.noise)
    denoiser = gaussian_denoiser(run.arguments.get("channels", 1))
    _, y = observations(problem, run.seed, [r.run for r in found])
    records = []
    for one, record in zip(y, found, strict=True):
        mean, sd = exact_moments(one[None], noise, denoiser, record.mean, record.sd)
        ess = [math.inf] * len(mean)
        records.append(replace(record, mean=mean, sd=sd, ess=ess, rhat=[1.0] * len(mean)))
        records[-1] = replace(records[-1], settled=True, how="exact")
    return records


def exact_moments(
    y: Tensor,
    noise: StationaryNoise,
    denoiser: GaussianDenoiser,
    mean: Sequence[float],
    sd: Sequence[float],
) -> tuple[list[float], list[float]]:
    """Mean and sd of p(φ | y) under a uniform prior, by Gauss-Legendre quadrature in a part of the
    box around the guesses, which moves and widens until it holds all of the mass.
    """
    x, w = (torch.from_numpy(v) for v in np.polynomial.legendre.leggauss(NODES))
    centre = torch.tensor(mean, dtype=torch.float64)
    reach = REACH * torch.tensor(sd, dtype=torch.float64).clamp(min=1e-4)
    d = len(centre)
    weight = torch.ones(1, dtype=torch.float64)
    for _ in range(d):
        weight = (weight[:, None] * w).flatten()
    for _ in range(30):
        low = torch.maximum(centre - reach, noise.low)
        high = torch.minimum(centre + reach, noise.high)
        axes = [a + (b - a) * (x + 1) / 2 for a, b in zip(low, high, strict=True)]
        phi = torch.cartesian_prod(*axes).reshape(-1, d)
        covariance = noise.covariance((y.shape[-2], y.shape[-1]), phi)
        log_p = denoiser.log_evidence(y.expand(len(phi), -1, -1, -1), covariance)
        density = torch.exp(log_p - log_p.max()).reshape([NODES] * d)
        p = weight * density.flatten()
        p = p / p.sum()
        centre = (p[:, None] * phi).sum(0)
        spread = (p[:, None] * (phi - centre) ** 2).sum(0).sqrt()
        if not _cut(density, low > noise.low, high < noise.high):
            return centre.tolist(), spread.tolist()
        reach = torch.maximum(1.5 * reach, REACH * spread)
    raise InputError("the posterior was not found in the prior box")


def _cut(density: Tensor, from_below: Tensor, from_above: Tensor) -> bool:
    """Whether an end that is no wall of the prior box cuts off mass."""
    return any(
        (bool(from_below[i]) and float(density.select(i, 0).max()) > EDGE)
        or (bool(from_above[i]) and float(density.select(i, -1).max()) > EDGE)
        for i in range(density.ndim)
    )
