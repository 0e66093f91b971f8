"""The marginal score where the denoiser is sure, eq. (14): its weights, from two calls."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

from gibbsdiff.fourier import filtered, from_opponent
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.score import known, level_of
from gibbsdiff.inference.weights import Sureness, excess_of
from gibbsdiff.streams import Streams


@torch.no_grad()
def listening(marginal: Marginal, rule: Sureness, phi: Tensor) -> Marginal:
    """The same score where the denoiser is sure at φ (n, d), by two calls of each image: on y,
    and on a replicate that tells what such a choice of places makes of the noise.
    """
    rows, owner = marginal.rows(len(phi))
    channels, found = marginal.y.shape[1], []
    for part in marginal.chunks(rows):
        at = phi[owner[part]]
        here = marginal.called(at, rows[part])
        covariance, show, (mean, error) = here.covariance, here.show, here.estimate
        rng = Streams(marginal.seed, [(*marginal.keys[i], 5) for i in rows[part].tolist()])
        own = rule.shown(error, covariance, channels)
        E = known(None if error is None else error.spectrum()) / known(covariance.spectrum())
        s = E.expand(-1, mean.shape[1], -1, -1)[:, :channels]
        x = mean if error is None else mean + error.draw(rng, mean.shape[1])
        white = rng.normal(channels, *marginal.shape, dtype=marginal.y.dtype)
        N = marginal.observation.take_power(known(covariance.spectrum()))
        eps, g = from_opponent(filtered(white, N.sqrt())), level_of(covariance)
        eps = eps if g is None else g * eps
        _, error = marginal.denoiser(show(marginal.observation.take(x) + eps), covariance)
        found.append((own, rule.shown(error, covariance, channels), white, s))
    own, other, white, s = (torch.cat(column) for column in zip(*found, strict=True))
    w, w_other = (rule.weights(part, together=marginal.shared) for part in (own, other))
    t = 1.0 if marginal.observation.window is None else marginal.observation.window.double()
    excess = excess_of(t * w_other, t * w, white, together=marginal.shared)
    made = copy(marginal)
    made.observation = marginal.observation.weighted(
        w,
        len(marginal.y),
        together=marginal.shared,
        excess=excess,
        modes=rule.modes_of(s, own, t * w),
    )
    return made
