"""A moment network: the mean and the spread of parameters given y, from views of y."""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, silu

RING = torch.tensor([[2, 1, 2], [1, 0, 1], [2, 1, 2]])  # centre, edges and corners of 3×3
OUTSET = 4.0  # 1/sd before training, about that of a uniform prior on [0, 1]


class Moments(NamedTuple):
    """u | y: its mean (B, d), and the lower triangular L (B, d, d) with L (u - mean) ~ N(0, 1)."""

    mean: Tensor
    factor: Tensor

    @property
    def covariance(self) -> Tensor:
        """(LᵀL)⁻¹: (B, d, d)."""
        eye = torch.eye(self.mean.shape[-1]).to(self.factor)
        inverse = torch.linalg.solve_triangular(self.factor, eye, upper=False)
        return inverse @ inverse.mT

    def z(self, u: Tensor) -> Tensor:
        """L (u - mean): (B, d)."""
        return (self.factor @ (u - self.mean)[..., None])[..., 0]

    def loss(self, u: Tensor) -> Tensor:
        """-log N(u; mean, (LᵀL)⁻¹) up to a constant, (B,): least at the moments of u | y."""
        log_det = self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * self.z(u).square().sum(-1) - log_det


class MomentModel(nn.Module, ABC):
    """A network that says u | y for u in the unit box [0, 1]^d, from views of y: of each, the
    caller asks what `cosmo.moment_start.views` says.
    """

    @abstractmethod
    def forward(self, *views: Tensor) -> Moments:
        """u | y of each row."""

    @abstractmethod
    def loss(self, found: Moments, u: Tensor) -> Tensor:
        """What training makes small, (B,)."""

    @abstractmethod
    def standardise(self, *views: Tensor) -> None:
        """Keep the scale of views of many y, which is divided out; before training."""

    @abstractmethod
    def settle(self, found: Moments, u: Tensor) -> None:
        """Set the spread by what was found on held-out maps and the truth; after training."""


class SymmetricConv(nn.Module):
    """3×3 with circular padding and three weights per pair of channels: it commutes with shifts,
    flips and transposes of a periodic map.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        """Map `inputs` channels to `outputs`."""
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3) / math.sqrt(9 * inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, h: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H, W)."""
        return conv2d(pad(h, (1, 1, 1, 1), mode="circular"), self.weight[:, :, RING], self.bias)


class MomentNetwork(MomentModel):
    """E[u | y] and the spread of u | y for u in the unit box [0, 1]^d.

    It takes two summaries of y: the log-power in rings of |k|, and maps of the local log-power in
    bands, whose convolutions are pooled over the map. The first is enough for Gaussian signals; the
    second distinguishes a signal that is strong in some places from noise, which is as strong
    everywhere.
    """

    centre: Tensor
    scale: Tensor
    temperature: Tensor

    def __init__(
        self, rings: int, bands: int, parameters: int, width: int = 24, hidden: int = 96
    ) -> None:
        """Rings of the spectrum, bands of local power, parameters of the noise."""
        super().__init__()
        self.parts = (parameters, parameters * (parameters + 1) // 2)
        self.inputs = SymmetricConv(bands, width)
        self.block = SymmetricConv(width, width)
        self.body = nn.Sequential(
            nn.Linear(rings + 2 * bands + 2 * width, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
        )
        self.outputs = nn.Linear(hidden, sum(self.parts))
        nn.init.zeros_(self.outputs.weight)
        nn.init.zeros_(self.outputs.bias)
        # Mean and sd of the log-powers, and what the spread is widened by on held-out maps.
        self.register_buffer("centre", torch.zeros(rings))
        self.register_buffer("scale", torch.ones(rings))
        self.register_buffer("temperature", torch.ones(parameters))

    def forward(self, *views: Tensor) -> Moments:
        """Log-power (B, rings) and local log-power (B, bands, h, w)."""
        spectrum, local = views
        h = silu(self.inputs(local))
        g = h + silu(self.block(h))
        pooled = [v.mean((2, 3)) for v in (local, h, g)]
        features = [(spectrum - self.centre) / self.scale, local.std((2, 3)), *pooled]
        mean, values = self.outputs(self.body(torch.cat(features, 1))).split(self.parts, 1)
        d = self.parts[0]
        i, j = torch.tril_indices(d, d, device=values.device)
        factor = values.new_zeros(len(values), d, d)
        factor[:, i, j] = torch.where(i == j, OUTSET * torch.exp(values), OUTSET * values)
        return Moments(0.5 + mean, factor / self.temperature[:, None])

    def loss(self, found: Moments, u: Tensor) -> Tensor:
        """The Gaussian likelihood of u."""
        return found.loss(u)

    def standardise(self, *views: Tensor) -> None:
        """Centre and scale of the log-powers."""
        self.centre.copy_(views[0].mean(0))
        self.scale.copy_(views[0].std(0))

    def settle(self, found: Moments, u: Tensor) -> None:
        """Divide L by the rms of L (u - mean)."""
        self.temperature.mul_(found.z(u).square().mean(0).sqrt())
