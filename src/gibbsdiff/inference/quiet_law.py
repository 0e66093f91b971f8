r"""How quiet the noise alone would be: the law of patch powers, flat and textured places together.

The power e of a patch in a band of n modes is the noise's, θ g², plus that of the picture's own
texture, T g², times a Gamma variable of mean 1 and shape ν/2:

    e = (θ + T) g(l)² · Γ,     T = 0, or log T ~ N(m(l), s²)

with g one of the `level_curves`. ν is less than n, because a window makes neighbouring modes depend
on each other. Choosing the quietest patches and taking their mean would be biased low by the
choice, and high by their texture; the likelihood of θ under this law has neither bias, as no patch
is chosen: a patch far above the lower edge says nothing of θ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from gibbsdiff.noise.level_curves import BY_BRIGHTNESS, LevelCurve

STEP, NODES = 0.15, 40  # in log(θ+T), over which texture is summed; beyond, all is one
SPREAD = (math.log(2.0), 0.12)  # of log s: photographs have patches of all powers
UNEVEN = 0.7  # sd of κ, by which the noise's level scatters from place to place
FLAT_LUMA, FLAT_CHROMA = (0.0, 2.5), (2.0, 1.0)  # mean and sd of the logit of the flat share
ROUGH, STEPS = 25, 80
OWN = 7  # parameters of a band
BINS = 6  # of brightness, for the texture's mean
WITH_LIGHT = (3.0, 6.0)  # sd of how the texture's mean goes with brightness


@lru_cache(maxsize=8)
def window(n: int) -> Tensor:
    """Hann's, (n, n), of mean square 1."""
    one = torch.hann_window(n, periodic=True, dtype=torch.float64)
    w: Tensor = one[:, None] * one
    return w / w.square().mean().sqrt()


def independent_modes(counted: Tensor) -> float:
    """ν of the mean of |F(window · white noise)|² over modes of the full plane, (n, n) weights
    with c(k) = c(-k): (Σc)² / Σ_kk' c c' |H(k-k')|², H the transform of the window squared.
    """
    n = counted.shape[-1]
    H = torch.fft.fft2(window(n).square()).abs().square()
    between = torch.fft.ifft2(torch.fft.fft2(counted.double()).abs().square()).real
    return float(counted.double().sum() ** 2 / (between * H / H[0, 0]).sum())


@lru_cache(maxsize=8)
def independent_patches(n: int) -> float:
    """What each of many half overlapping patches counts: less than one."""
    one = torch.hann_window(n, periodic=True, dtype=torch.float64)
    shared = (one[: n // 2] * one[n // 2 :]).sum() / one.square().sum()
    return float((1 + 2 * shared**2) ** -2)


@dataclass(frozen=True)
class Law:
    """The law of patch powers in Q bands: log θ and its sd, the texture (log T of mean m and sd s),
    the share of patches without any, each (Q,); the curve (n,) and its covariance; κ (Q,).

    `weight` (Q, P) is E[(θ/(θ+T))² | e]: how much of a patch is noise. `gain` (Q,) is by how
    much log p of all patches is higher than with next to no noise at all; `log_p` is that of the
    law, up to a constant that is the same for all curves.
    """

    log_theta: Tensor
    sd: Tensor
    texture: Tensor
    spread: Tensor
    flat: Tensor
    curve: Tensor
    covariance: Tensor
    uneven: Tensor
    weight: Tensor
    gain: Tensor
    parameters: Tensor
    x: Tensor
    log_p: float


def fit(
    e: Tensor,
    nu: Tensor,
    light: Tensor,
    curve: Tensor | None = None,
    counted: Tensor | None = None,
    start: Tensor | None = None,
    rare: Tensor | None = None,
    form: LevelCurve = BY_BRIGHTNESS,
) -> Law:
    """The law of powers e (Q, P) in bands of ν (Q,) independent modes, with brightnesses l (P,) of
    the patches: the maximum of its likelihood and weak priors, from several starts.

    Arguments:
        curve: Its parameters, if they are known already.
        counted: (Q, P), how much each patch counts: a choice that does not depend on e.
        start: `parameters` of a law that is near.
        rare: (Q,), where texture is rare: in chroma.
        form: What the curve is of.
    """
    x = e.log()
    Q = len(x)
    law = _Posterior(x, nu, light, curve, counted, rare, form)
    if start is not None:
        return law.described(law.climbed(start, STEPS))
    sorted_x = x.sort(1).values
    at = [sorted_x[:, int(q * (x.shape[1] - 1))] for q in (0.02, 0.1, 0.5, 0.75)]
    # Hardly any flat place, some, or nearly all: the likelihood may have a mode for each.
    ends = []
    for low, share, middle in ((at[0], -2.0, at[2]), (at[1], 0.0, at[2]), (at[2], 2.0, at[3] + 1)):
        spread, flat = torch.full_like(low, SPREAD[0]), torch.full_like(low, share)
        none = torch.zeros_like(low)
        even = none + math.log(0.1)
        own = torch.stack([low, middle + 0.5, spread, flat, none, none, even], 1)
        last = torch.tensor(form.mean, dtype=torch.float64)
        ends.append(law.climbed(torch.cat([own.flatten(), last]), ROUGH))
    # Bands are independent but for the curve: each keeps its best.
    by_band = torch.stack([law.by_band(end) for end in ends])
    which = by_band.argmin(0)
    start = ends[int(by_band.sum(1).argmin())].clone()
    own = torch.stack([end[: OWN * Q].unflatten(0, (-1, OWN)) for end in ends])
    start[: OWN * Q] = own[which, torch.arange(Q)].flatten()
    return law.described(law.climbed(start, STEPS))


class _Posterior:
    """-log p of the law's parameters: for each band (log θ, m, log s, logit share, two
    by which m goes with brightness, log κ), then the curve's.
    """

    def __init__(
        self,
        x: Tensor,
        nu: Tensor,
        light: Tensor,
        curve: Tensor | None,
        counted: Tensor | None,
        rare: Tensor | None = None,
        form: LevelCurve = BY_BRIGHTNESS,
    ) -> None:
        self.form, self.light, self.n = form, light[None].double(), len(form.names)
        none = torch.zeros(len(x), dtype=torch.bool) if rare is None else rare
        self.usual = torch.where(none, FLAT_CHROMA[0], FLAT_LUMA[0]).double()
        self.usual_sd = torch.where(none, FLAT_CHROMA[1], FLAT_LUMA[1]).double()
        self.x, self.nu, self.curve = x, nu.double(), curve
        self.counted = torch.ones_like(x) if counted is None else counted
        edges = torch.quantile(light, torch.linspace(0, 1, BINS + 1).double()[1:-1])
        self.bin = torch.bucketize(light, edges)
        middle = torch.stack([light[self.bin == b].mean() for b in range(BINS)]).nan_to_num(0.5)
        self.bins = torch.stack([middle - 0.5, (middle - 0.5) ** 2]).double()
        self.middle = x.median(1).values
        # Patches far above the quiet ones say that there is texture, and no more.
        low = torch.quantile(x, 0.02, 1, keepdim=True) - 0.8
        self.grid = low + STEP * torch.arange(NODES, dtype=torch.float64)
        self.loud = x > self.grid[:, -1:]

    def split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        own = theta[: OWN * len(self.x)].unflatten(0, (-1, OWN))
        curve = theta[-self.n :] if self.curve is None else self.curve.to(theta)
        return own, curve

    def shares(self, own: Tensor) -> Tensor:
        """The part of the patches at each log(θ+T) of the grid, by bins of brightness:
        (Q, bins, nodes + 1), differences of Φ; the last is all beyond it.
        """
        half = torch.cat([self.grid - STEP / 2, self.grid[:, -1:] + STEP / 2], 1)
        over = (half.exp() - own[:, :1].exp()).clamp(min=1e-30)
        mean = own[:, 1:2] + own[:, 4:6] @ self.bins
        z = (over.log()[:, None, :] - mean[..., None]) / own[:, 2, None, None].exp()
        below = torch.special.ndtr(z)
        return torch.cat([below.diff(dim=-1), 1 - below[..., -1:]], -1).clamp(min=1e-12)

    def parts(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """p of each patch up to a factor, with texture of each amount, none last:
        (Q, P, nodes + 1); the log of that factor (Q, 1); and p of being beyond the grid (Q, P).
        """
        own, curve = self.split(theta)
        x = self.x - 2 * self.form.log_level(curve[None], self.light)
        alpha = (1 / (2 / self.nu + (2 * own[:, 6]).exp()))[:, None, None]
        mean = torch.cat([self.grid, own[:, :1]], 1)
        r = x[..., None] - mean[:, None, :]
        gamma = torch.exp(alpha * (1 + r - r.clamp(max=10).exp()))
        flat = torch.sigmoid(own[:, 3, None, None])
        shares = (1 - flat) * self.shares(own)
        weights = torch.cat([shares[..., :-1], flat.expand(-1, BINS, -1)], -1)
        factor = (alpha * alpha.log() - torch.lgamma(alpha) - alpha)[..., 0]
        return gamma * weights[:, self.bin], factor, shares[:, self.bin, -1]

    def log_p(self, theta: Tensor) -> Tensor:
        """Of each patch, (Q, P)."""
        parts, factor, beyond = self.parts(theta)
        near = (parts.sum(-1) + 1e-300).log() + factor
        return torch.where(self.loud, beyond.log(), near)

    def by_band(self, theta: Tensor) -> Tensor:
        """What each band adds, (Q,)."""
        own = self.split(theta)[0]
        fits = -(self.counted * self.log_p(theta)).sum(-1)
        prior = 0.5 * ((own[:, 2] - SPREAD[0]) / SPREAD[1]).square()
        prior = prior + 0.5 * ((own[:, 1] - self.middle) / 3).square()
        with_light = own[:, 4:6] / torch.tensor(WITH_LIGHT, dtype=torch.float64)
        prior = prior + 0.5 * with_light.square().sum(1)
        # Half a Gaussian in κ, whose logarithm is the parameter.
        prior = prior + 0.5 * (2 * own[:, 6]).exp() / UNEVEN**2 - own[:, 6]
        return fits + prior + 0.5 * ((own[:, 3] - self.usual) / self.usual_sd).square()

    def __call__(self, theta: Tensor) -> Tensor:
        mean, sd = (torch.tensor(v, dtype=torch.float64) for v in (self.form.mean, self.form.sd))
        off = (theta[-self.n :] - mean) / sd
        return self.by_band(theta).sum() + 0.5 * off.square().sum()

    def climbed(self, start: Tensor, steps: int) -> Tensor:
        found = minimize(
            self.value_and_gradient,
            start.numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(None, None)] * (len(start) - self.n)
            + [(p.low, p.high) for p in self.form.parameters],
            options={"maxiter": steps, "ftol": 1e-7},
        )
        return torch.from_numpy(found.x)

    def value_and_gradient(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.from_numpy(at).requires_grad_()
        with torch.enable_grad():
            value = self(theta)
            (gradient,) = torch.autograd.grad(value, theta)
        return float(value.detach()), gradient.numpy()

    def described(self, theta: Tensor) -> Law:
        Q = len(self.x)
        own, curve = self.split(theta)
        H = self.curvature(theta)
        covariance = torch.linalg.pinv(H, hermitian=True)
        variance = covariance.diagonal()[: OWN * Q].unflatten(0, (-1, OWN))[:, 0].clamp(min=1e-8)
        parts, _, _ = self.parts(theta)
        noise = torch.exp(own[:, :1] - self.grid).clamp(max=1).square()
        of_noise = torch.cat([noise, torch.ones_like(noise[:, :1])], 1)
        weight = (parts * of_noise[:, None, :]).sum(-1) / (parts.sum(-1) + 1e-300)
        weight = torch.where(self.loud, 0.0, weight)
        least = theta.clone()
        less = least[: OWN * Q].unflatten(0, (-1, OWN))
        less[:, 0] -= 6.0
        less[:, 3] = -8.0
        gain = (self.counted * (self.log_p(theta) - self.log_p(least))).sum(-1)
        spread, flat = own[:, 2].exp(), torch.sigmoid(own[:, 3])
        free = covariance[-self.n :, -self.n :]
        kappa = own[:, 6].exp()
        return Law(
            own[:, 0],
            variance.sqrt(),
            own[:, 1],
            spread,
            flat,
            curve,
            free,
            kappa,
            weight,
            gain,
            theta,
            self.x,
            -float(self(theta)),
        )

    def curvature(self, theta: Tensor) -> Tensor:
        """The second derivative, bands being independent given the curve: a product for each of a
        band's parameters and of the curve's.
        """
        Q, d = len(self.x), len(theta)
        at = theta.clone().requires_grad_()
        H = torch.zeros(d, d, dtype=torch.float64)
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad(self(at), at, create_graph=True)
            for j in range(OWN + self.n):
                v = torch.zeros(d, dtype=torch.float64)
                if j < OWN:
                    v[j : OWN * Q : OWN] = 1
                else:
                    v[OWN * Q + j - OWN] = 1
                (column,) = torch.autograd.grad(gradient @ v, at, retain_graph=True)
                if j < OWN:
                    for q in range(Q):
                        H[OWN * q : OWN * q + OWN, OWN * q + j] = column[OWN * q : OWN * q + OWN]
                else:
                    H[:, OWN * Q + j - OWN] = column
                    H[OWN * Q + j - OWN, :] = column
        return H
