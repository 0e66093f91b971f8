"""Is a method right about its own uncertainty? Simulation-based calibration, and the stationary
distribution of Gibbs chains whose conditionals are wrong.

    run = CalibrationRun("gaussian", {"method": "marginal"}, batch=50)
    records = calibrate(run, runs=300, path="sbc.jsonl")
    print(calibration_report(records, ("sigma", "phi")).table())
"""

from gibbsdiff.evidence.calibration.methods import (
    chain_options,
    gaussian,
    inference_method,
    marginal_options,
)
from gibbsdiff.evidence.calibration.report import CalibrationReport, calibration_report
from gibbsdiff.evidence.calibration.sbc import (
    CalibrationMethod,
    CalibrationProblem,
    CalibrationRun,
    Outcome,
    RankRecord,
    block,
    calibrate,
    one,
    simulate,
)

__all__ = [
    "CalibrationMethod",
    "CalibrationProblem",
    "CalibrationReport",
    "CalibrationRun",
    "Outcome",
    "RankRecord",
    "block",
    "calibrate",
    "calibration_report",
    "chain_options",
    "gaussian",
    "inference_method",
    "marginal_options",
    "one",
    "simulate",
]
