"""The paper's U-Net for natural images, in the layout of its authors' public checkpoints."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.networks.doubleconv import (
    DoubleConv,
    Down,
    PhiEmbedding,
    PixelAttention,
    Up,
    sinusoidal,
)

# Any checkpoint of the authors has this key, after the name that their trainer put before it.
FIRST_KEY = "inc.double_conv.0.weight"


class OriginalUNet(nn.Module):
    r"""ε_θ(z_t, t, φ): the paper's U-Net of 70 M parameters, appendix "Architectures".

    It predicts the noise of unit level ε in z_t = a(t) x + b(t) ε, eq. (1), at the discrete steps
    t = 0 … `steps` - 1 of its schedule; in between, t may be any real number.

    The names of the modules are those of the authors' checkpoints.

    Arguments:
        channels: Those of the image.
        parameters: K, the size of φ; the authors' φ is the exponent of a power law.
        steps: The length of the schedule that the network was trained on.
        width: The channels of the first level, 64 in the paper; each level has twice as many.
    """

    def __init__(
        self, channels: int = 3, parameters: int = 1, steps: int = 5000, *, width: int = 64
    ) -> None:
        """Start from PyTorch's default weights."""
        super().__init__()
        self.channels, self.steps = channels, steps
        w1, w2, w3, w4, w5 = (width * 2**i for i in range(5))

        self.inc = DoubleConv(channels, w1)
        self.down1, self.alpha_embed1 = Down(w1, w2), PhiEmbedding(parameters, w2)
        self.down2, self.alpha_embed2 = Down(w2, w3), PhiEmbedding(parameters, w3)
        self.down3, self.alpha_embed3 = Down(w3, w4), PhiEmbedding(parameters, w4)
        self.sa3 = PixelAttention(w4)
        self.down4, self.alpha_embed4 = Down(w4, w5), PhiEmbedding(parameters, w5)
        self.sa4 = PixelAttention(w5)
        self.bottleneck = DoubleConv(w5, w5)
        self.att_bottleneck = PixelAttention(w5)
        self.up1, self.alpha_embed5 = Up(w5, w4), PhiEmbedding(parameters, w4)
        self.up2, self.alpha_embed6 = Up(w4, w3), PhiEmbedding(parameters, w3)
        self.up3, self.alpha_embed7 = Up(w3, w2), PhiEmbedding(parameters, w2)
        self.up4, self.alpha_embed8 = Up(w2, w1), PhiEmbedding(parameters, w1)
        self.outc = nn.ModuleDict({"conv": nn.Conv2d(w1, channels, 1)})

    def forward(self, z: Tensor, t: Tensor, phi: Tensor) -> Tensor:
        """Predict ε (B, C, H, W).

        Arguments:
            z: z_t in the variance-preserving scaling (B, C, H, W), with H, W ≥ 16.
            t: Steps (B,), integer or in between.
            phi: φ (B, K).
        """

        def timed(h: Tensor) -> Tensor:
            return h + sinusoidal(t, h.shape[1]).to(h.dtype)[:, :, None, None]

        def conditioned(h: Tensor, embed: PhiEmbedding) -> Tensor:
            embedding: Tensor = embed(phi)
            return timed(h) + embedding[:, :, None, None]

        h1 = self.inc(z)
        h2 = conditioned(self.down1(h1), self.alpha_embed1)
        h3 = conditioned(self.down2(h2), self.alpha_embed2)
        h4 = self.sa3(conditioned(self.down3(h3), self.alpha_embed3))
        h5 = self.sa4(conditioned(self.down4(h4), self.alpha_embed4))
        h = self.att_bottleneck(timed(self.bottleneck(h5)))
        h = conditioned(self.up1(h, h4), self.alpha_embed5)
        h = conditioned(self.up2(h, h3), self.alpha_embed6)
        h = conditioned(self.up3(h, h2), self.alpha_embed7)
        h = conditioned(self.up4(h, h1), self.alpha_embed8)
        out: Tensor = self.outc["conv"](h)
        return out


def load_lightning(path: str | Path) -> OriginalUNet:
    """Read a Lightning checkpoint of the authors, tensors and plain values only.

    The width and the numbers of channels and parameters follow from the weights, the number of
    steps from the file's hyper-parameters. Nothing in the file is run: one that asks for it is
    refused.

    Raises:
        ValueError: If the file holds anything else; the message is one line.
    """
    checkpoint = _read(path)
    weights = _weights(checkpoint.get("state_dict", checkpoint))
    if FIRST_KEY not in weights:
        raise ValueError(f"{path}: not a checkpoint of the paper's U-Net (no {FIRST_KEY})")
    # On the meta device nothing is initialised: the weights of the file take their place.
    with torch.device("meta"):
        network = OriginalUNet(
            channels=_columns(weights, FIRST_KEY),
            parameters=_columns(weights, "alpha_embed1.mlp.0.weight"),
            steps=_steps(checkpoint.get("hyper_parameters")),
            width=(*weights[FIRST_KEY].shape, 0)[0] or 64,
        )
    _check_shapes(path, weights, network.state_dict())
    network.load_state_dict(weights, assign=True)
    return network


def _read(path: str | Path) -> Mapping[str, Any]:
    try:
        # Warnings on old pickles do not matter, refused or not. An open file has no name by which
        # PyTorch could take it for another format.
        with warnings.catch_warnings(action="ignore"), Path(path).open("rb") as file:
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # a foreign file can fail anywhere in the unpickler
        unsafe = re.search(r"GLOBAL (\S+)", str(error))
        trouble = f"asks to run {unsafe[1]}, refused" if unsafe else "not a PyTorch checkpoint"
        raise ValueError(f"{path}: {trouble} (only tensors and plain values are read)") from error
    if not isinstance(checkpoint, Mapping):
        raise ValueError(f"{path}: holds a {type(checkpoint).__name__}, not a checkpoint")
    return checkpoint


def _weights(state: object) -> dict[str, Tensor]:
    """The tensors of the network alone, without the prefix that its trainer puts before them."""
    tensors = {
        key: value.float()
        for key, value in (state.items() if isinstance(state, Mapping) else ())
        if isinstance(key, str) and isinstance(value, Tensor)
    }
    heads = (key for key in tensors if f".{key}".endswith(f".{FIRST_KEY}"))
    prefix = min(heads, key=len, default="").removesuffix(FIRST_KEY)
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _columns(weights: Mapping[str, Tensor], key: str) -> int:
    """The input channels of a layer, or 1 if it is not as expected (`_check_shapes` says why)."""
    shape = weights[key].shape if key in weights else ()
    return shape[1] if len(shape) > 1 else 1


def _steps(hyper_parameters: object) -> int:
    """The length of the schedule; that of the paper if the file does not say."""
    known = hyper_parameters if isinstance(hyper_parameters, Mapping) else {}
    steps = known.get("diffusion_steps")
    return steps if isinstance(steps, int) and steps > 0 else 5000


def _check_shapes(
    path: str | Path, weights: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> None:
    for key in sorted(expected.keys() | weights.keys()):
        found, wanted = (tuple(x[key].shape) if key in x else "none" for x in (weights, expected))
        if found != wanted:
            raise ValueError(f"{path}: {key} has shape {found}, in the paper's U-Net {wanted}")
