"""The state of a Gibbs run, in memory and on disk."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.mcmc import Tuning

FORMAT = "gibbsdiff-chains-1"
TUNING = tuple(f.name for f in fields(Tuning))


@dataclass
class Chains:
    """The state of a run after `iteration` iterations; rows are images × chains."""

    phi: Tensor
    x: Tensor
    iteration: int = 0
    tuning: Tuning | None = None
    draws: list[Tensor] = field(default_factory=list)
    samples: list[Tensor] = field(default_factory=list)
    sum_x: Tensor | None = None
    sum_x2: Tensor | None = None
    sum_mean: Tensor | None = None
    count: int = 0
    calls: int = 0
    divergences: Tensor | None = None
    seconds: float = 0.0

    def save(self, path: str | Path, run: str) -> None:
        """Write all of it; `run` names what it is a run of, for `load` to compare."""
        tensors = {
            name: value
            for name in ("phi", "x", "sum_x", "sum_x2", "sum_mean", "divergences")
            if (value := getattr(self, name)) is not None
        }
        if self.tuning is not None:
            tensors |= {f"tuning.{name}": getattr(self.tuning, name) for name in TUNING}
        for name in ("draws", "samples"):
            if kept := getattr(self, name):
                tensors[name] = torch.stack(kept)
        numbers = {n: getattr(self, n) for n in ("iteration", "count", "calls", "seconds")}
        metadata = {"format": FORMAT, "run": run, "numbers": json.dumps(numbers)}
        write_atomically(path, save({k: v.contiguous() for k, v in tensors.items()}, metadata))

    @classmethod
    def load(cls, path: str | Path, run: str) -> Chains:
        """Read what `save` wrote, if it is of the same run."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = dict(file.metadata() or {})
                if metadata.get("format") != FORMAT:
                    raise InputError(f"{path}: not chains of this program")
                if metadata.get("run") != run:
                    raise InputError(
                        f"{path}: chains of another run: its picture, noise, denoiser, sampler or "
                        "settings differ"
                    )
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as trouble:
            raise InputError(f"{path}: cannot be read as chains ({trouble})") from None
        tuning = None
        if "tuning.step" in tensors:
            tuning = Tuning(*(tensors.pop(f"tuning.{name}") for name in TUNING))
        draws, samples = (list(tensors.pop(name, ())) for name in ("draws", "samples"))
        chains = cls(tensors.pop("phi"), tensors.pop("x"), draws=draws, samples=samples)
        for name, value in {**tensors, **json.loads(metadata["numbers"])}.items():
            setattr(chains, name, value)
        chains.tuning = tuning
        return chains
