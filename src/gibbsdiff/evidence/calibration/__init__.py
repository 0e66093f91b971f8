"""Is a method right about its own uncertainty? Simulation-based calibration, and the stationary
distribution of Gibbs chains whose conditionals are wrong.

    records = calibrate(gaussian_configuration(method="marginal"), runs=300, path="sbc.jsonl")
    print(report(records, ("sigma", "phi")).table())
"""

from gibbsdiff.evidence.calibration.methods import (
    by_gibbs,
    by_marginal,
    gaussian,
    gaussian_configuration,
)
from gibbsdiff.evidence.calibration.report import Report, report
from gibbsdiff.evidence.calibration.sbc import (
    Configuration,
    Method,
    Outcome,
    Problem,
    Record,
    block,
    calibrate,
    one,
    simulate,
)

__all__ = [
    "Configuration",
    "Method",
    "Outcome",
    "Problem",
    "Record",
    "Report",
    "block",
    "by_gibbs",
    "by_marginal",
    "calibrate",
    "gaussian",
    "gaussian_configuration",
    "one",
    "report",
    "simulate",
]
