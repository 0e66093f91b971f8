"""Networks in bfloat16 where the processor multiplies it: twice as fast there, ten times as slow
elsewhere.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

Precision = Literal["float32", "bfloat16", "auto"]


def has_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16."""
    ask = getattr(torch.cpu, "get_capabilities", None)
    if ask is not None:
        known = ask()
        return bool(known.get("avx512_bf16") or known.get("amx_bf16"))
    old = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(old()) if old is not None else False


def is_rounded(wanted: Precision, device: str = "cpu") -> bool:
    """Whether products on a device are made in bfloat16: if that is wanted, or "auto" and it is
    this processor, made for it.
    """
    return wanted == "bfloat16" or (wanted == "auto" and device == "cpu" and has_bfloat16())


def products(wanted: Precision, device: str = "cpu") -> AbstractContextManager[None]:
    """Within the context convolutions and matrix products of float32 are made in bfloat16, if that
    is wanted. What they give is bfloat16 as well.
    """
    if not is_rounded(wanted, device):
        return nullcontext()
    return torch.autocast(device, torch.bfloat16)


@contextmanager
def precision(network: nn.Module, wanted: Precision) -> Iterator[None]:
    """Within the context convolutions and matrix products of the network are made in bfloat16, if
    that is wanted, or "auto" and this processor is made for it. Weights, sums and what comes out
    are of the type that they were.
    """
    if not is_rounded(wanted):
        yield
        return
    whole = network.forward

    def forward(*arguments: Any) -> Any:
        with products("bfloat16"):
            out = whole(*arguments)
        if isinstance(out, Tensor):
            return out.float()
        return type(out)(*(part.float() for part in out))

    network.forward = forward
    try:
        yield
    finally:
        del network.forward  # the class's own is there again
