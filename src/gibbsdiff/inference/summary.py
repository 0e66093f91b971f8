"""Draws of φ in numbers: moments, intervals, and R-hat and ESS of chains, by ArviZ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

RHAT, ESS = 1.05, 100.0


@dataclass(frozen=True)
class Summary:
    """One parameter: mean, sd given the network, sd with the network's own error added, eq. (12),
    central 90 % interval given the network; R-hat and effective draws, NaN unless of chains.
    """

    name: str
    mean: float
    sd: float
    total_sd: float
    low: float
    high: float
    rhat: float = math.nan
    ess_bulk: float = math.nan
    ess_tail: float = math.nan


def summarise(
    phi: Tensor,
    names: Sequence[str],
    *,
    chains: bool = True,
    model_error: Tensor | None = None,
    box: Tensor | None = None,
) -> list[Summary]:
    """Summaries of draws (chain, draw, d), one per parameter; `chains` have R-hat and ESS.

    The sd with `model_error` is at most that of the prior, uniform on the `box` (2, d): the first
    order of eq. (12) knows nothing of walls.
    """
    most = [math.inf] * len(names) if box is None else ((box[1] - box[0]) / 12**0.5).tolist()
    added = [0.0] * len(names) if model_error is None else model_error.diagonal().tolist()
    rows = []
    for i, (name, extra) in enumerate(zip(names, added, strict=True)):
        values = phi[..., i].double().numpy()
        low, high = np.quantile(values, [0.05, 0.95]).tolist()
        sd = float(values.std(ddof=1)) if values.size > 1 else math.nan
        total = max(sd, min(math.sqrt(sd**2 + max(extra, 0.0)), most[i]))
        found = _diagnosed(values) if chains else (math.nan,) * 3
        rows.append(Summary(name, float(values.mean()), sd, total, low, high, *found))
    return rows


def table(rows: Sequence[Summary], *, chains: bool, total: bool) -> list[str]:
    """A heading and a line per parameter; R-hat and ESS if of `chains`, the `total` sd if asked."""
    head = f"{'':>10} {'mean':>10} {'sd':>9}{' with model error' if total else ''} "
    head += f"{'5 %':>10} {'95 %':>10}"
    lines = [head + (f" {'R-hat':>6} {'bulk':>6} {'tail':>6}" if chains else "")]
    for r in rows:
        line = f"{r.name:>10} {r.mean:10.5f} {r.sd:9.5f}"
        line += f" {r.total_sd:16.5f}" if total else ""
        line += f" {r.low:10.5f} {r.high:10.5f}"
        line += f" {r.rhat:6.3f} {r.ess_bulk:6.0f} {r.ess_tail:6.0f}" if chains else ""
        lines.append(line)
    return lines


def converged(phi: Tensor) -> bool:
    """Whether chains (chain, draw, d) pass R-hat ≤ 1.05 and ESS ≥ 100 in every parameter."""
    rows = summarise(phi, [""] * phi.shape[-1])
    # Written so that NaN, from chains that never moved, fails.
    return all(r.rhat <= RHAT and r.ess_bulk >= ESS and r.ess_tail >= ESS for r in rows)


def _diagnosed(values: np.ndarray) -> tuple[float, float, float]:
    """R-hat, bulk and tail ESS of (chain, draw); NaN for too few draws, or all of them equal."""
    arviz = load_arviz()
    enough = values.shape[1] >= 4 and np.ptp(values) > 0  # ArviZ divides by the spread
    return (
        float(arviz.rhat(values)) if enough and len(values) > 1 else math.nan,
        float(arviz.ess(values, method="bulk")) if enough else math.nan,
        float(arviz.ess(values, method="tail")) if enough else math.nan,
    )


def load_arviz() -> Any:
    """ArviZ, imported when it is needed."""
    with warnings.catch_warnings():
        # It announces its next major version once a day; users of ours need not act on it.
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz
