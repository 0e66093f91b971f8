"""The paper's U-Net for cosmology: residual blocks on a periodic map."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from gibbsdiff.networks.padding import crop, pad_to_multiple
from gibbsdiff.networks.told import Told

#: The exponents n of the Fourier features sin and cos of 2ⁿ π z.
FOURIER = (0, 1, 2, 3)


def circular_conv(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    """Build a 3×3 convolution on the torus."""
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, padding_mode="circular")


class FourierTime(nn.Module):
    """(sin 2πωt, cos 2πωt) with fixed ω ~ N(0, scale²), the embedding of a continuous time."""

    omega: Tensor

    def __init__(self, size: int, scale: float = 16.0) -> None:
        """Draw the size/2 frequencies, which are then part of the weights."""
        super().__init__()
        self.register_buffer("omega", scale * torch.randn(size // 2))

    def forward(self, t: Tensor) -> Tensor:
        """Embed t (B,) as (B, size)."""
        phase = 2 * math.pi * t[:, None] * self.omega
        return torch.cat([phase.sin(), phase.cos()], dim=1)


def residual_parts(inputs: int, outputs: int, groups: int) -> tuple[nn.Sequential, nn.Module]:
    """f of a residual block, three times GroupNorm, SiLU, convolution, and its skip connection."""
    layers: list[nn.Module] = []
    for width in (inputs, outputs, outputs):
        layers += [nn.GroupNorm(groups, width), nn.SiLU(), circular_conv(width, outputs)]
    skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)
    return nn.Sequential(*layers), skip


class ResBlock(nn.Module):
    """(h + f(h)) / √2 of h + MLP(t) + MLP(φ), with f three times GroupNorm, SiLU, convolution.

    The skip connection is rescaled so that the variance does not grow with depth.
    """

    def __init__(self, inputs: int, outputs: int, embedding: int, groups: int) -> None:
        """Map `inputs` channels to `outputs`."""
        super().__init__()
        self.time = _mlp(embedding, inputs)
        self.phi = _mlp(embedding, inputs)
        self.layers, self.skip = residual_parts(inputs, outputs, groups)

    def forward(self, h: Tensor, time: Tensor, phi: Tensor) -> Tensor:
        """Transform h (B, inputs, H, W) given the two embeddings (B, E)."""
        h = h + (self.time(time) + self.phi(phi))[:, :, None, None]
        out: Tensor = self.skip(h) + self.layers(h)
        return out / math.sqrt(2)


class ResUNet(nn.Module):
    r"""ε_θ(z_t, t, φ): the paper's U-Net for dust and CMB, appendix "Architectures".

    It predicts the noise ε in z_t = a(t) x + b(t) ε, eq. (1). Each level halves the resolution,
    so three of them bring a map of 256² to a bottleneck of 32². Long skips are concatenated. All
    is circular: shifting a map by a multiple of `multiple` pixels shifts the output.

    The network also takes sin and cos of 2ⁿ π z (Kingma et al., 2021), which show details far below
    the variance of z; these matter at low noise.

    Arguments:
        channels: C, of the map.
        parameters: K, the size of φ, which the caller scales to about [-1, 1].
        widths: The channels of each level; the bottleneck has as many as the last one.
        blocks: The residual blocks of each level, on each side.
        embedding: The size of the embeddings of t and of φ.
        fourier: The exponents n of the Fourier features; none if empty.
        groups: Of the group normalisation.
    """

    def __init__(
        self,
        channels: int = 1,
        parameters: int = 2,
        widths: Sequence[int] = (64, 128, 256),
        *,
        blocks: int = 2,
        embedding: int = 128,
        fourier: Sequence[int] = FOURIER,
        groups: int = 8,
    ) -> None:
        """Start from PyTorch's default weights."""
        super().__init__()
        self.channels = channels
        self.fourier = tuple(fourier)
        self.multiple = 2 ** len(widths)

        def level(inputs: int, outputs: int) -> nn.ModuleList:
            return nn.ModuleList(
                ResBlock(outputs if i else inputs, outputs, embedding, groups)
                for i in range(blocks)
            )

        finer = (widths[0], *widths[:-1])
        self.time = FourierTime(embedding)
        self.phi = nn.Sequential(Told(parameters, embedding), nn.SiLU())
        self.inputs = circular_conv(channels * (1 + 2 * len(self.fourier)), widths[0])
        self.descent = nn.ModuleList(level(a, b) for a, b in zip(finer, widths, strict=True))
        self.down = nn.ModuleList(circular_conv(width, width, stride=2) for width in widths)
        self.bottom = level(widths[-1], widths[-1])
        self.up = nn.ModuleList(circular_conv(width, width) for width in widths)
        self.ascent = nn.ModuleList(level(2 * b, a) for a, b in zip(finer, widths, strict=True))
        self.outputs = nn.Sequential(
            nn.GroupNorm(groups, widths[0]), nn.SiLU(), circular_conv(widths[0], channels)
        )

    def forward(self, z: Tensor, t: Tensor, phi: Tensor) -> Tensor:
        """Predict ε (B, C, H, W).

        Arguments:
            z: z_t in the variance-preserving scaling (B, C, H, W), periodic.
            t: Times in [0, 1], (B,).
            phi: φ (B, K).
        """
        embedded = self.time(t), self.phi(phi)
        padded, top, left = pad_to_multiple(z, self.multiple, "circular")

        h = self.inputs(self._features(padded))
        skips = []
        for blocks, down in zip(self.descent, self.down, strict=True):
            h = _apply(blocks, h, *embedded)
            skips.append(h)
            h = down(h)
        h = _apply(self.bottom, h, *embedded)
        levels = zip(self.ascent, self.up, skips, strict=True)
        for blocks, up, skip in reversed(list(levels)):
            h = up(interpolate(h, scale_factor=2.0, mode="nearest"))
            h = _apply(blocks, torch.cat([h, skip], dim=1), *embedded)
        return crop(self.outputs(h), z, top, left)

    def _features(self, z: Tensor) -> Tensor:
        phases = [2**n * math.pi * z for n in self.fourier]
        return torch.cat([z, *map(torch.sin, phases), *map(torch.cos, phases)], dim=1)


def _mlp(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, inputs), nn.SiLU(), nn.Linear(inputs, outputs))


def _apply(blocks: nn.Module, h: Tensor, time: Tensor, phi: Tensor) -> Tensor:
    for block in blocks.children():
        h = block(h, time, phi)
    return h
