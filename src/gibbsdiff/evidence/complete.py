"""Inference for evidence: a run counts as a whole, or not at all."""

from __future__ import annotations

from gibbsdiff.inference.pipeline import infer
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options, Problem


def infer_completely(problem: Problem, options: Options) -> list[Posterior]:
    """`gibbsdiff.infer`, but Ctrl-C is passed on: what an interrupted run has found so far is of
    use to someone who waits for a picture, and would spoil a table.
    """
    found = infer(problem, options)
    if any(p.interrupted for p in found):
        raise KeyboardInterrupt
    return found
