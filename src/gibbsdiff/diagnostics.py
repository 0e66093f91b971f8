"""Whether chains have converged: R-hat and effective sample size, by ArviZ."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

with warnings.catch_warnings():
    # ArviZ announces its next major version once a day; users of ours need not act on it.
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


class Summary(NamedTuple):
    """One parameter's posterior: moments, central 90 % interval and diagnostics."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    rhat: float
    ess_bulk: float
    ess_tail: float


def summarise(draws: Tensor, names: Sequence[str]) -> list[Summary]:
    """Summaries of draws (chain, draw, d), one per parameter."""
    rows = []
    for i, name in enumerate(names):
        values = draws[..., i].double().numpy()
        low, high = draws[..., i].double().quantile(draws.new_tensor([0.05, 0.95]).double())
        rows.append(
            Summary(
                name,
                float(values.mean()),
                float(values.std(ddof=1)),
                float(low),
                float(high),
                float(arviz.rhat(values)),
                float(arviz.ess(values, method="bulk")),
                float(arviz.ess(values, method="tail")),
            )
        )
    return rows
