"""Chains as GetDist reads them: text, one file for each chain."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.noise.base import NoiseModel


def write_getdist(root: str | Path, posterior: Posterior, noise: NoiseModel) -> list[Path]:
    """ROOT_1.txt, …: weight, -log p, φ; ROOT.paramnames and ROOT.ranges, the prior box.

    Draws have equal weights. Gibbs draws come without the value of p(φ | y): the column is 0.
    """
    root = Path(root)
    written = []
    for i, chain in enumerate(posterior.phi.tolist(), start=1):
        rows = (" ".join(f"{v:.10g}" for v in (1.0, 0.0, *phi)) for phi in chain)
        written.append(_write(root.with_name(f"{root.name}_{i}.txt"), rows))
    names = (f"{p.name}\t{p.latex or p.name}" for p in noise.parameters)
    written.append(_write(root.with_name(f"{root.name}.paramnames"), names))
    ranges = (f"{p.name}\t{p.low:.10g}\t{p.high:.10g}" for p in noise.parameters)
    return [*written, _write(root.with_name(f"{root.name}.ranges"), ranges)]


def _write(path: Path, lines: Iterable[str]) -> Path:
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return path
