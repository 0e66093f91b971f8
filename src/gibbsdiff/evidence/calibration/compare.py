r"""Two methods on the same observations, run by run: far sharper than their ranks.

With posterior means m, standard deviations s and effective draws n of a run by methods a and b,

    z = (m_a - m_b)/√(s_a²/n_a + s_b²/n_b)
    z' = (log s_a/s_b + 1/n_a - 1/n_b)/√(1/2n_a + 1/2n_b)

are standard normal, to first order, if both have the same posterior and chance alone sets them
apart. Over many runs the mean of z sees a bias far smaller than the error of one. 1/n is what the
logarithm of a chain's own sd falls short by: half of it since the chain's mean is fitted to its
draws, half since the logarithm is concave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.exact import exact_records
from gibbsdiff.evidence.calibration.report import ERROR_RATE
from gibbsdiff.evidence.calibration.sbc import CalibrationRun, RankRecord, as_record
from gibbsdiff.evidence.calibration.store import lines_of


@dataclass(frozen=True)
class Difference:
    """Posterior mean or sd of one parameter, a less b.

    `size` is the mean difference in posterior sd of the mean, or of log sd; `error` its standard
    error over runs. `z` (runs,) are differences in units of their Monte-Carlo error, and `p` is the
    two-sided p-value of their mean.
    """

    name: str
    size: float
    error: float
    z: np.ndarray

    @property
    def p(self) -> float:
        """Of a mean of z this far from 0."""
        return float(2 * stats.norm.sf(abs(self.z.mean()) * np.sqrt(len(self.z))))


@dataclass(frozen=True)
class Comparison:
    """All differences over the runs that converged by both methods."""

    differences: tuple[Difference, ...]
    runs: int
    left_out: int

    @property
    def limit(self) -> float:
        """What the smallest p-value must exceed: 0.01 over their number (Bonferroni)."""
        return ERROR_RATE / len(self.differences)

    @property
    def verdict(self) -> str:
        """One line."""
        worst = min(self.differences, key=lambda d: d.p)
        found = f"smallest of {len(self.differences)} p-values {worst.p:.2g} ({worst.name})"
        word = "no difference found" if worst.p > self.limit else "NOT THE SAME"
        return f"{word}: {found}, limit {self.limit:.2g}, {self.runs} runs"

    def table(self) -> str:
        """The verdict and a row for each mean and sd, as text."""
        lines = [self.verdict]
        if self.left_out:
            lines.append(f"{self.left_out} runs did not converge by both, and are left out")
        lines.append(f"{'':>14} {'a - b':>9} {'± error':>9} {'mean z':>8} {'sd z':>8} {'p':>8}")
        for d in self.differences:
            spread = d.z.std(ddof=1)
            lines.append(
                f"{d.name:>14} {d.size:9.4f} {d.error:9.4f} {d.z.mean():8.3f} {spread:8.3f} "
                f"{d.p:8.2g}"
            )
        error = 1 / np.sqrt(self.runs)
        lines.append(
            f"{'one s.e.':>14} {'':>9} {'':>9} {f'±{error:.3f}':>8} {f'±{error / 2**0.5:.3f}':>8}"
        )
        return "\n".join(lines)


def compare(a: Sequence[RankRecord], b: Sequence[RankRecord], names: Sequence[str]) -> Comparison:
    """Chains by two methods; records must be of the same observations, in any order."""
    of_b = {r.run: r for r in b}
    pairs = [(r, of_b[r.run]) for r in a if r.run in of_b]
    if any(first.truth != second.truth for first, second in pairs):
        raise InputError("the two files are of other observations: their true values differ")
    kept = [
        (first, second)
        for first, second in pairs
        if first.settled and second.settled and first.ess is not None and second.ess is not None
    ]
    if len(kept) < 2:
        raise InputError("at least 2 runs that converged by both methods are needed")
    differences = []
    for i, name in enumerate(names):
        m, s, n = (
            np.array([[getattr(r, field)[i] for r in pair] for pair in kept]).T
            for field in ("mean", "sd", "ess")
        )
        shift, width = m[0] - m[1], np.log(s[0] / s[1]) + 1 / n[0] - 1 / n[1]
        error = np.sqrt((s**2 / n).sum(0))
        differences += [
            _difference(f"mean of {name}", shift / np.sqrt((s**2).mean(0)), shift / error),
            _difference(f"sd of {name}", width, width / np.sqrt((0.5 / n).sum(0))),
        ]
    return Comparison(tuple(differences), len(kept), len(pairs) - len(kept))


def _difference(name: str, size: np.ndarray, z: np.ndarray) -> Difference:
    return Difference(name, float(size.mean()), float(size.std(ddof=1) / np.sqrt(len(size))), z)


def compare_files(a: str | Path, b: str | Path | None = None) -> Comparison:
    """`compare` of two result files, or of one with the exact posterior, eq. (10), of its
    observations; parameters have the names that the problem of `a` gives.
    """
    known, _ = lines_of(a)
    run = CalibrationRun(known["problem"], known["arguments"], known["seed"])
    found = _records(a)
    other = exact_records(run, found) if b is None else _records(b)
    return compare(found, other, run.build().noise.names)


def _records(path: str | Path) -> list[RankRecord]:
    _, lines = lines_of(path)
    return [as_record(path, number, line) for number, line in enumerate(lines, 2)]
