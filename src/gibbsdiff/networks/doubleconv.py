"""The parts of the paper's U-Net for natural images, in its authors' layout of weights."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from gibbsdiff.networks.told import Told


class DoubleConv(nn.Module):
    """Two normalised convolutions g(h), or GELU(h + g(h)) if residual."""

    def __init__(self, inputs: int, outputs: int, *, residual: bool = False) -> None:
        """Map `inputs` channels to `outputs`."""
        super().__init__()
        self.residual = residual
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(1, outputs),
            nn.GELU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(1, outputs),
        )

    def forward(self, h: Tensor) -> Tensor:
        """Transform h (B, inputs, H, W) to (B, outputs, H, W)."""
        update: Tensor = self.double_conv(h)
        return gelu(h + update) if self.residual else update


class Down(nn.Module):
    """Half the resolution, then a residual and a widening `DoubleConv`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Map `inputs` channels to `outputs`."""
        super().__init__()
        self.maxpool_conv = nn.Sequential(
            nn.MaxPool2d(2), DoubleConv(inputs, inputs, residual=True), DoubleConv(inputs, outputs)
        )

    def forward(self, h: Tensor) -> Tensor:
        """Transform h (B, inputs, H, W) to (B, outputs, H/2, W/2)."""
        out: Tensor = self.maxpool_conv(h)
        return out


class Up(nn.Module):
    """Twice the resolution, beside the features of the descent at that resolution."""

    def __init__(self, inputs: int, outputs: int) -> None:
        """Map `inputs` channels to `outputs`, which is half of them."""
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, inputs // 2, 2, stride=2)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, h: Tensor, skip: Tensor) -> Tensor:
        """Join h (B, inputs, H, W) with skip (B, inputs/2, 2H, 2W), whose sides may be odd."""
        h = self.up(h)
        rows, columns = skip.shape[-2] - h.shape[-2], skip.shape[-1] - h.shape[-1]
        h = pad(h, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        out: Tensor = self.conv(torch.cat([skip, h], dim=1))
        return out


class SelfAttention(nn.Module):
    """h + MHA(LN(h)), then h + MLP(LN(h)), over a sequence of pixels (B, H·W, width)."""

    def __init__(self, width: int, heads: int = 4) -> None:
        """Attend with `heads` heads of width / heads channels."""
        super().__init__()
        self.mha = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln = nn.LayerNorm(width)
        self.ff_self = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)
        )

    def forward(self, h: Tensor) -> Tensor:
        """Transform h (B, H·W, width)."""
        normed = self.ln(h)
        h = h + self.mha(normed, normed, normed, need_weights=False)[0]
        update: Tensor = self.ff_self(h)
        return h + update


class PixelAttention(nn.Module):
    """`SelfAttention` between the pixels of an image of any size."""

    def __init__(self, width: int) -> None:
        """Attend over `width` channels."""
        super().__init__()
        self.sa = nn.Sequential(SelfAttention(width))

    def forward(self, h: Tensor) -> Tensor:
        """Transform h (B, width, H, W)."""
        sequence: Tensor = self.sa(h.flatten(2).transpose(1, 2))
        return sequence.transpose(1, 2).reshape(h.shape)


class PhiEmbedding(nn.Module):
    """The MLP of φ, of inner dimension 100."""

    def __init__(self, parameters: int, width: int) -> None:
        """Embed `parameters` numbers in `width` channels."""
        super().__init__()
        self.mlp = nn.Sequential(
            Told(parameters, 100), nn.SiLU(), nn.Linear(100, 100), nn.SiLU(),
            nn.Linear(100, width),
        )  # fmt: skip

    def forward(self, phi: Tensor) -> Tensor:
        """Embed φ (B, K) as (B, width)."""
        out: Tensor = self.mlp(phi)
        return out


def sinusoidal(t: Tensor, width: int) -> Tensor:
    """(sin ω_i t, cos ω_i t) with ω_i = 10⁴^(-2i/width), for t (B,), as (B, width)."""
    exponents = torch.arange(0, width, 2, device=t.device, dtype=torch.float32) / width
    phase = t.float()[:, None] * (1.0 / 10000**exponents)
    return torch.cat([phase.sin(), phase.cos()], dim=1)
