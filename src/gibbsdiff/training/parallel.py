"""One or several processes: who takes which rows of a batch, and how gradients are added."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gibbsdiff.errors import InputError

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Processes:
    """The processes of a run under `torchrun`, or the only one there is, and the device of each.

    All draw the same global batch from the same generator; each takes its rows and
    gradients are summed: the same updates as one process makes, up to rounding.
    """

    fabric: Any | None = None
    device: torch.device = CPU

    @classmethod
    @contextmanager
    def joined(cls, device: str = "auto") -> Iterator[Processes]:
        """Join the processes that `torchrun` started, if it did, through Lightning Fabric, and
        leave them at the end. Each takes its own GPU, if the device is one.
        """
        kind = device_named(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            yield cls(device=kind)
            return
        if ":" in device:
            raise InputError(f"device {device}: each process takes its own; write {kind.type}")
        try:
            from lightning_fabric import Fabric
        except ImportError:
            raise InputError(
                "several processes need Lightning Fabric: pip install 'gibbsdiff[train]'"
            ) from None
        fabric = Fabric(
            accelerator=kind.type,
            strategy="ddp",
            devices=int(os.environ["LOCAL_WORLD_SIZE"]),
            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        )
        fabric.launch()
        try:
            yield cls(fabric, torch.device(fabric.device))
        finally:
            torch.distributed.destroy_process_group()

    @property
    def first(self) -> bool:
        """Whether this process writes files."""
        return self.fabric is None or self.fabric.global_rank == 0

    def rows(self, count: int) -> Tensor:
        """The rows of a batch that this process takes."""
        everything = torch.arange(count)
        if self.fabric is None:
            return everything
        return everything[self.fabric.global_rank :: self.fabric.world_size]

    def sum(self, parameters: Sequence[nn.Parameter], figures: Tensor) -> Tensor:
        """Sum gradients in place and figures over processes, in one message."""
        if self.fabric is None:
            return figures
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([g.reshape(-1) for g in gradients] + [figures])
        total = self.fabric.all_reduce(flat, reduce_op="sum")
        sizes = [g.numel() for g in gradients] + [len(figures)]
        *parts, out = total.split(sizes)
        for parameter, part in zip(parameters, parts, strict=True):
            parameter.grad = part.view(parameter.shape).to(
                memory_format=torch.channels_last
                if parameter.ndim == 4
                else torch.contiguous_format
            )
        return out

    def agree(self, value: float) -> float:
        """The first process's value."""
        return value if self.fabric is None else float(self.fabric.broadcast(value))


def device_named(name: str) -> torch.device:
    """The device of a name such as "cpu", "cuda" or "cuda:1"; "auto": a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as trouble:  # torch without CUDA asserts
        reason = " ".join(str(trouble).split("\n", 1)[0].split())
        raise InputError(f"device {name}: cannot be used ({reason})") from None
    return device
