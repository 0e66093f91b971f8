"""The paper's networks in files: like `save_model` and `load_model`, with their process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import nn

from gibbsdiff.diffusion.epsilon import EpsilonDenoiser
from gibbsdiff.diffusion.process import DiscreteVariancePreserving, VariancePreserving
from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.networks.original import OriginalUNet, load_lightning
from gibbsdiff.networks.resunet import ResUNet
from gibbsdiff.pretrained.files import channels_last, fill, find, open_file

FORMAT = "gibbsdiff-epsilon-1"


def save_epsilon(
    denoiser: EpsilonDenoiser,
    path: str | Path,
    card: Mapping[str, Any] | None = None,
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write a denoiser and its card; a reader never sees half a file."""
    network = denoiser.network
    # Buffers, the frequencies of an embedding, do not survive half precision.
    learned = {name for name, _ in network.named_parameters()}
    tensors = {
        f"network.{key}": value.detach().to(dtype if key in learned else torch.float32).contiguous()
        for key, value in network.state_dict().items()
    }
    metadata = {
        "format": FORMAT,
        "architecture": json.dumps(architecture(network)),
        "process": json.dumps(_described(denoiser)),
        "ranges": json.dumps(denoiser.ranges),
        "names": json.dumps(denoiser.names),
        "card": json.dumps(dict(card or {})),
    }
    write_atomically(path, save(tensors, metadata))


def load_epsilon(name: str | Path) -> EpsilonDenoiser:
    """A denoiser, ready to use."""
    path = find(name)
    metadata, tensors = open_file(path, FORMAT)
    try:
        made = json.loads(metadata["architecture"])
        network: nn.Module = {"original": OriginalUNet, "resunet": ResUNet}[made.pop("kind")](
            **made
        )
        known = json.loads(metadata["process"])
        chain = DiscreteVariancePreserving if "steps" in known else VariancePreserving
        ranges = tuple((low, high) for low, high in json.loads(metadata["ranges"]))
        names = json.loads(metadata.get("names", "[]"))
        denoiser = EpsilonDenoiser(network, chain(**known), ranges, names)
    except (KeyError, TypeError, ValueError) as trouble:
        raise InputError(f"{path}: its description is damaged ({trouble})") from None
    fill(network, tensors, path)
    return channels_last(denoiser).eval().requires_grad_(False)


def load_authors(path: str | Path) -> EpsilonDenoiser:
    """A denoiser from one of the authors' public checkpoints for natural images."""
    try:
        network = load_lightning(path)
    except ValueError as trouble:
        raise InputError(str(trouble)) from None
    chain = DiscreteVariancePreserving(network.steps)
    denoiser = EpsilonDenoiser(network, chain, names=("phi",))
    return channels_last(denoiser).eval().requires_grad_(False)


def architecture(network: nn.Module) -> dict[str, Any]:
    """Which of the two networks it is, and the arguments that make one of this shape."""
    if isinstance(network, OriginalUNet):
        return {
            "kind": "original",
            "channels": network.channels,
            "parameters": network.alpha_embed1.mlp[0].in_features,
            "steps": network.steps,
            "width": network.outc["conv"].in_channels,
        }
    if isinstance(network, ResUNet):
        norm, _, last = network.outputs
        return {
            "kind": "resunet",
            "channels": last.out_channels,
            "parameters": network.phi[0].in_features,
            "widths": [down.out_channels for down in network.down],
            "blocks": len(list(network.bottom.children())),
            "embedding": network.phi[0].out_features,
            "fourier": network.fourier,
            "groups": norm.num_groups,
        }
    raise InputError(f"only the paper's networks can be saved, not a {type(network).__name__}")


def _described(denoiser: EpsilonDenoiser) -> dict[str, float]:
    process = denoiser.process
    if not isinstance(process, DiscreteVariancePreserving | VariancePreserving):
        raise InputError(f"only the paper's processes can be saved, not {type(process).__name__}")
    known = {"beta_min": process.beta_min, "beta_max": process.beta_max}
    if isinstance(process, DiscreteVariancePreserving):
        return {"steps": process.steps, **known}
    return known
