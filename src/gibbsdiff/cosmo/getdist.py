"""Chains as GetDist reads them: text, one file for each chain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.base import NoiseModel

WIDE = "the network's own error is in the draws, eq. (12)"
RAW = "draws given the network: its own error is not known"


def write_getdist(
    root: str | Path, posterior: Posterior, noise: NoiseModel, seed: int = 0
) -> list[Path]:
    """ROOT_1.txt, …: weight, -log p, φ; ROOT.paramnames and ROOT.ranges, the prior box.

    φ is that of `posterior.widened(seed)`; a comment in ROOT.paramnames and at the head of every
    chain says so. Draws have equal weights, and no value of p(φ | y): that column is 0.
    """
    root = Path(root)
    note = RAW if posterior.model_error is None else WIDE
    head = f"# weight -log(p) {' '.join(posterior.names)}: {note}"
    written = []
    for i, chain in enumerate(posterior.widened(seed).phi.tolist(), start=1):
        rows = (" ".join(f"{v:.10g}" for v in (1.0, 0.0, *phi)) for phi in chain)
        written.append(_write(root.with_name(f"{root.name}_{i}.txt"), [head, *rows]))
    names = (f"{p.name}\t{p.latex or p.name} # {note}" for p in noise.parameters)
    written.append(_write(root.with_name(f"{root.name}.paramnames"), names))
    ranges = (f"{p.name}\t{p.low:.10g}\t{p.high:.10g}" for p in noise.parameters)
    return [*written, _write(root.with_name(f"{root.name}.ranges"), ranges)]


def _write(path: Path, lines: Iterable[str]) -> Path:
    write_atomically(path, "\n".join(lines) + "\n")
    return path
