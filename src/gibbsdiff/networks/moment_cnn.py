"""The paper's moment network: a convolutional network with residual blocks that sees the map."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from gibbsdiff.networks.moments import OUTSET, MomentModel, Moments
from gibbsdiff.networks.resunet import circular_conv, residual_parts

WIDTHS = (16, 32, 64, 64)
GROUPS = 1


class Block(nn.Module):
    """A convolution that halves the resolution, then (h + f(h)) / √2 of the paper's U-Net, without
    its embeddings.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        """Map `inputs` channels to `outputs`."""
        super().__init__()
        self.down = circular_conv(inputs, outputs, stride=2)
        self.layers, self.skip = residual_parts(outputs, outputs, GROUPS)

    def forward(self, h: Tensor) -> Tensor:
        """(B, inputs, H, W) -> (B, outputs, H/2, W/2)."""
        h = self.down(h)
        out: Tensor = self.skip(h) + self.layers(h)
        return out / math.sqrt(2)


class MomentCNN(MomentModel):
    """E[u | y] for u in the unit box [0, 1]^d, appendix "Initialization Heuristic": "a CNN with
    ResBlocks", trained by the mean squared error. What the paper leaves open: every block halves
    the resolution, the features of all of them are averaged over the map, and two layers follow.

    It is trained in prior units. In those of φ the error of H0 alone would count: its range is
    35 times σ's and 800 times ω_b's. The network has no spread of its own; one for all y is the
    covariance of its errors on held-out maps.
    """

    scale: Tensor
    factor: Tensor

    def __init__(self, parameters: int, widths: Sequence[int] = WIDTHS) -> None:
        """Parameters of the noise; channels of each level, multiples of 8."""
        super().__init__()
        self.blocks = nn.Sequential(
            *(Block(a, b) for a, b in zip((1, *widths), widths, strict=False))
        )
        self.body = nn.Linear(sum(widths), widths[-1])
        self.outputs = nn.Linear(widths[-1], parameters)
        nn.init.zeros_(self.outputs.weight)
        nn.init.zeros_(self.outputs.bias)
        self.register_buffer("scale", torch.ones(()))  # the rms of y
        self.register_buffer("factor", OUTSET * torch.eye(parameters))

    @staticmethod
    def widths_of(state: Mapping[str, Tensor]) -> tuple[int, ...]:
        """The channels of each level of stored weights."""
        count = sum(name.endswith(".down.bias") for name in state)
        return tuple(len(state[f"blocks.{i}.down.bias"]) for i in range(count))

    def forward(self, *views: Tensor) -> Moments:
        """The maps (B, 1, H, W)."""
        h, pooled = views[0] / self.scale, []
        for block in self.blocks:
            h = block(h)
            pooled.append(silu(h).mean((2, 3)))
        features = silu(self.body(torch.cat(pooled, 1)))
        return Moments(0.5 + self.outputs(features), self.factor.expand(len(h), -1, -1))

    def loss(self, found: Moments, u: Tensor) -> Tensor:
        """‖mean - u‖², in prior units."""
        return (found.mean - u).square().sum(-1)

    def standardise(self, *views: Tensor) -> None:
        """The rms of y."""
        self.scale.copy_(views[0].square().mean().sqrt())

    def settle(self, found: Moments, u: Tensor) -> None:
        """L with (LᵀL)⁻¹ = E[(u - mean)(u - mean)ᵀ]."""
        error = (u - found.mean).double()
        covariance = error.mT @ error / len(error)
        # The Cholesky factor of the reversed order is upper triangular; LᵀL needs the lower.
        reverse = torch.linalg.cholesky(torch.linalg.inv(covariance).flip(0, 1))
        self.factor.copy_(reverse.mT.flip(0, 1))
