"""What a calibration says: tests, z-scores, coverage, and a verdict in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.calibration.ranks import (
    LEVELS,
    Array,
    EcdfBand,
    coverage,
    ecdf_band,
    uniformity,
)
from gibbsdiff.evidence.calibration.sbc import RankRecord

ERROR_RATE = 0.01  # of the verdict, shared among all p-values
FEWEST_RUNS = 50
FORGIVEN = 0.05  # share of runs that may fail by their own word before ranks mean little


@dataclass(frozen=True)
class ParameterReport:
    """One parameter over all runs. `p_chi2` and `p_ks` test its ranks for uniformity; `coverage` is
    that of the central 50, 80 and 95 % intervals.
    """

    name: str
    u: Array
    p_chi2: float
    p_ks: float
    band: EcdfBand
    z_mean: float
    z_sd: float
    coverage: list[float]


@dataclass(frozen=True)
class CalibrationReport:
    """All parameters, and what the runs say of themselves.

    `unsettled` counts chains that did not converge, or searches that did not end. `worst_rhat` and
    `least_ess` are None where no run has chains. `how` has the methods' own words, with the number
    of runs of each.
    """

    parameters: tuple[ParameterReport, ...]
    runs: int
    unsettled: int
    worst_rhat: float | None
    least_ess: float | None
    calls: float
    how: dict[str, int]

    @property
    def p_values(self) -> dict[str, float]:
        """All p-values by name."""
        both = [(f"χ² of {p.name}", p.p_chi2) for p in self.parameters]
        return dict(both + [(f"KS of {p.name}", p.p_ks) for p in self.parameters])

    @property
    def smallest(self) -> float:
        """The smallest p-value."""
        return min(self.p_values.values())

    @property
    def limit(self) -> float:
        """What the smallest p-value must exceed: 0.01 over their number (Bonferroni)."""
        return ERROR_RATE / len(self.p_values)

    @property
    def verdict(self) -> str:
        """One line. Passing is never proof, so it also says what these runs could have missed."""
        name, p = min(self.p_values.items(), key=lambda item: item[1])
        found = f"smallest of {len(self.p_values)} p-values {p:.2g} ({name})"
        if p <= self.limit:
            return f"NOT CALIBRATED: {found}, limit {self.limit:.2g}, {self.runs} runs"
        if self.runs < FEWEST_RUNS:
            return f"INCONCLUSIVE: {self.runs} runs; at least {FEWEST_RUNS} are needed"
        if self.unsettled > FORGIVEN * self.runs:
            return f"INCONCLUSIVE: {self.failures}; {found}"
        return (
            f"no miscalibration found: {found}, limit {self.limit:.2g}; {self.runs} runs cannot "
            f"see a shift of less than about {self.shift:.2f} sd"
        )

    @property
    def failures(self) -> str:
        """How many runs say that they failed: chains converge, a search ends."""
        count = f"{self.unsettled} of {self.runs}"
        if self.worst_rhat is None:
            return f"{count} searches did not end"
        return f"{count} runs did not converge"

    @property
    def shift(self) -> float:
        """The bias, in posterior sd, that KS finds in half of such calibrations: where
        sup |Φ(z + δ) - Φ(z)| ≈ δ/√(2π) reaches the critical distance.
        """
        critical = np.sqrt(-np.log(self.limit / 2) / (2 * self.runs))
        return float(critical * np.sqrt(2 * np.pi))

    def table(self) -> str:
        """The verdict and a row per parameter, as text."""
        masses = "".join(f"{f'{100 * level:g} %':>8}" for level in LEVELS)
        facts = [self.failures, f"{self.calls:.0f} denoiser calls per run"]
        if self.worst_rhat is not None:
            facts.insert(1, f"worst R-hat {self.worst_rhat:.3f}")
            facts.insert(2, f"fewest effective draws {self.least_ess:.0f}")
        named = [f"{count} runs: {name}" for name, count in self.how.items() if name]
        lines = [
            self.verdict,
            ", ".join(facts),
            *named,
            f"{'':>10} {'p χ²':>8} {'p KS':>8} {'ECDF':>8} {'mean z':>8} {'sd z':>8}{masses}",
        ]
        for p in self.parameters:
            ecdf = "inside" if p.band.inside else "OUTSIDE"
            covered = "".join(f"{100 * c:8.1f}" for c in p.coverage)
            lines.append(
                f"{p.name:>10} {p.p_chi2:8.2g} {p.p_ks:8.2g} {ecdf:>8} "
                f"{p.z_mean:8.3f} {p.z_sd:8.3f}{covered}"
            )
        error = 1 / np.sqrt(self.runs)
        allowed = "".join(f"{f'±{100 * np.sqrt(c * (1 - c)) * error:.1f}':>8}" for c in LEVELS)
        lines.append(
            f"{'one s.e.':>10} {'':8} {'':8} {'':8} {f'±{error:.3f}':>8} "
            f"{f'±{error / np.sqrt(2):.3f}':>8}{allowed}"
        )
        return "\n".join(lines)


def calibration_report(records: Sequence[RankRecord], names: Sequence[str]) -> CalibrationReport:
    """Put the runs together; `names` are those of the parameters."""
    if len(records) < 2:
        raise InputError("calibration needs at least 2 runs")
    rhats = [value for r in records for value in r.rhat or ()]
    ess = [value for r in records for value in r.ess or ()]
    parameters = []
    for i, name in enumerate(names):
        u = np.array([r.u[i] for r in records])
        z = np.array([r.z[i] for r in records])
        p = uniformity(u)
        spread = float(z.std(ddof=1)) if np.isfinite(z).all() else float("inf")
        shares = coverage(u)
        parameters.append(
            ParameterReport(name, u, p.chi2, p.ks, ecdf_band(u), float(z.mean()), spread, shares)
        )
    return CalibrationReport(
        tuple(parameters),
        len(records),
        sum(not r.settled for r in records),
        # One chain has no R-hat, a chain that never moved no ESS: NaN, and not hidden.
        float(np.max(rhats)) if rhats else None,
        float(np.min(ess)) if ess else None,
        float(np.mean([r.calls for r in records])),
        dict(Counter(r.how for r in records).most_common()),
    )
