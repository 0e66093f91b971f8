"""The fast U-Net F_θ of eq. (4), with the two heads of the error model of eq. (7)."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle, silu

from gibbsdiff.networks.padding import Padding, crop, pad_to_multiple

LOG_VARIANCE_RANGE = (-8.0, 4.0)
LOG_BANDS_RANGE = (-6.0, 6.0)

# Centre and spread of the descriptors ½ log N met in training, levels 0.01 to 1.
DESCRIPTOR_CENTRE, DESCRIPTOR_SPREAD = -2.3, 1.2


class Heads(NamedTuple):
    """What the network predicts, in the whitened domain of eq. (4)."""

    correction: Tensor
    """F (B, C, H, W): the correction to the Wiener estimate, of unit variance."""
    log_variance: Tensor
    """v (B, C, H, W): log-variance of what F misses, eq. (7)."""
    log_bands: Tensor
    """log B² (B, C, 8) at the descriptor's frequencies, eq. (7)."""


class Trunk(NamedTuple):
    """`Heads` before the band factors, which depend on the whole image."""

    correction: Tensor
    log_variance: Tensor
    pooled: Tensor
    """Means over all positions (B, P). Those of equal tiles average to the whole image's."""


class FeatureMaps(NamedTuple):
    """What the network makes of an image whose sides are multiples of `UNet.multiple`."""

    correction: Tensor
    log_variance: Tensor
    bottom: Tensor
    """The features of the last level, 1/`multiple` of the resolution."""
    top: Tensor
    """The features of the first level on the way up, half of the resolution."""


class ResidualBlock(nn.Module):
    """h + conv(SiLU((1 + g) conv(h) + b)), with g, b affine in the embedding.

    There is no normalisation layer: on CPUs these are bound by memory and cost as much as the
    convolutions. The small second convolution keeps a deep stack near the identity at first.
    """

    def __init__(self, width: int, embedding: int, padding: Padding) -> None:
        """Start near the identity."""
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, padding_mode=padding)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, padding_mode=padding)
        self.film = nn.Linear(embedding, 2 * width)
        nn.init.zeros_(self.film.weight)
        nn.init.zeros_(self.film.bias)
        with torch.no_grad():
            self.conv2.weight.mul_(0.1)

    def forward(self, h: Tensor, embedding: Tensor) -> Tensor:
        """Transform h (B, width, H, W) given the embedding (B, E)."""
        gain, bias = self.film(embedding)[:, :, None, None].chunk(2, dim=1)
        update: Tensor = self.conv2(silu(self.conv1(h) * (1 + gain) + bias))
        return h + update


class UNet(nn.Module):
    r"""F_θ(3·skip ∗ (z-m), in ∗ (z-m); descriptor) of eq. (4).

    The image is unshuffled 2×2 first, so that level i works at 1/2^(i+1) of the resolution with
    `widths[i]` channels: convolutions are efficient at 96 channels and more. Skips are added, a
    stride-2 convolution goes down, a 1×1 convolution and a pixel shuffle go up.

    Arguments:
        channels: C, of the signal.
        widths: The channels of each level.
        blocks: The residual blocks of each level, on each side.
        embedding: The size of the descriptor's embedding.
        descriptor: The number of descriptor frequencies, eq. (5).
        told: The rows of the descriptor that it is told: 1, noise that is equal in all channels, or
            C, noise with a spectrum of its own in each opponent channel.
        level_plane: Whether it takes one more plane, log g of eq. (15).
        padding: What lies beyond the border. "circular" makes the network equivariant to
            periodic shifts by multiples of `multiple`, if H and W are multiples of it.
    """

    def __init__(
        self,
        channels: int = 3,
        widths: Sequence[int] = (48, 96, 192, 192),
        blocks: Sequence[int] = (2, 2, 2, 2),
        *,
        embedding: int = 128,
        descriptor: int = 8,
        told: int = 1,
        level_plane: bool = False,
        padding: Padding = "zeros",
    ) -> None:
        """Start near the Wiener filter: F ≈ 0, v ≈ -0.3, B = 1."""
        super().__init__()
        if len(widths) != len(blocks) or not widths:
            raise ValueError(f"widths {widths} and blocks {blocks} must name the same levels")

        self.channels = channels
        self.descriptor = descriptor
        self.told = told
        self.level_plane = level_plane
        self.padding: Padding = padding
        self.multiple = 2 ** len(widths)

        def level(i: int) -> nn.ModuleList:
            return nn.ModuleList(
                ResidualBlock(widths[i], embedding, padding) for _ in range(blocks[i])
            )

        upper = range(len(widths) - 1)
        self.embed = nn.Sequential(
            nn.Linear(told * descriptor, embedding),
            nn.SiLU(),
            nn.Linear(embedding, embedding),
            nn.SiLU(),
        )
        planes = 4 * (2 * channels + level_plane)
        self.inputs = nn.Conv2d(planes, widths[0], 3, padding=1, padding_mode=padding)
        self.descent = nn.ModuleList(level(i) for i in upper)
        self.down = nn.ModuleList(nn.Conv2d(widths[i], widths[i + 1], 2, stride=2) for i in upper)
        self.bottom = level(-1)
        self.up = nn.ModuleList(nn.Conv2d(widths[i + 1], 4 * widths[i], 1) for i in upper)
        self.ascent = nn.ModuleList(level(i) for i in upper)
        self.outputs = nn.Conv2d(widths[0], 8 * channels, 3, padding=1, padding_mode=padding)
        self.band_head = nn.Sequential(
            nn.Linear(widths[-1] + widths[0] + embedding, embedding),
            nn.SiLU(),
            nn.Linear(embedding, channels * descriptor),
        )
        self._start_near_the_wiener_filter()

    @torch.no_grad()
    def _start_near_the_wiener_filter(self) -> None:
        # v begins a little below the Wiener filter's error, which is 0.
        self.outputs.weight.mul_(0.1)
        assert self.outputs.bias is not None
        correction, log_variance = self.outputs.bias.chunk(2)
        correction.zero_()
        log_variance.fill_(-0.3)
        last = self.band_head[-1]
        assert isinstance(last, nn.Linear)
        last.weight.zero_()
        last.bias.zero_()

    def forward(self, inputs: Tensor, descriptor: Tensor) -> Heads:
        """Evaluate the three heads.

        Arguments:
            inputs: The planes 3·skip ∗ (z-m), in ∗ (z-m) and, if it takes that, log g,
                (B, 2C or 2C+1, H, W), with H, W ≥ 16.
            descriptor: ½ log N at the frequencies of eq. (5), (B, told, 8).
        """
        correction, log_variance, pooled = self.trunk(inputs, descriptor)
        return Heads(correction, log_variance, self.bands(pooled, descriptor))

    def trunk(self, inputs: Tensor, descriptor: Tensor) -> Trunk:
        """Evaluate the local heads, and the pooled features that `bands` takes."""
        padded, top, left = pad_to_multiple(inputs, self.multiple, self.padding)
        maps = self.maps(padded, descriptor)
        pooled = torch.cat([maps.bottom.mean((-2, -1)), maps.top.mean((-2, -1))], dim=1)
        correction = crop(maps.correction, inputs, top, left)
        return Trunk(correction, crop(maps.log_variance, inputs, top, left), pooled)

    def maps(self, inputs: Tensor, descriptor: Tensor) -> FeatureMaps:
        """Evaluate the local heads and the features, where no side needs padding."""
        embedding = self._embedding(descriptor)
        h = pixel_unshuffle(inputs, 2).contiguous(memory_format=torch.channels_last)
        h = self.inputs(h)
        skips = []
        for blocks, down in zip(self.descent, self.down, strict=True):
            h = _apply(blocks, h, embedding)
            skips.append(h)
            h = down(h)
        h = bottom = _apply(self.bottom, h, embedding)
        levels = zip(self.ascent, self.up, skips, strict=True)
        for blocks, up, skip in reversed(list(levels)):
            h = _apply(blocks, pixel_shuffle(up(h), 2) + skip, embedding)

        correction, log_variance = pixel_shuffle(self.outputs(h), 2).chunk(2, dim=1)
        return FeatureMaps(correction, log_variance.clamp(*LOG_VARIANCE_RANGE), bottom, h)

    def bands(self, pooled: Tensor, descriptor: Tensor) -> Tensor:
        """log B² (B, C, 8) of eq. (7), from features pooled over the whole image."""
        features = torch.cat([pooled, self._embedding(descriptor)], dim=1)
        # A likelihood without bounds lets one odd batch send e^(-log B²) to infinity.
        log_bands: Tensor = self.band_head(features).clamp(*LOG_BANDS_RANGE)
        return log_bands.view(-1, self.channels, self.descriptor)

    def _embedding(self, descriptor: Tensor) -> Tensor:
        centred = (descriptor.flatten(1) - DESCRIPTOR_CENTRE) / DESCRIPTOR_SPREAD
        embedding: Tensor = self.embed(centred)
        return embedding


def _apply(blocks: nn.Module, h: Tensor, embedding: Tensor) -> Tensor:
    for block in blocks.children():
        h = block(h, embedding)
    return h
