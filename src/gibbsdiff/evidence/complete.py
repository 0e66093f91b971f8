"""Inference for evidence: a run counts as a whole, or not at all."""

from __future__ import annotations

from dataclasses import replace

from gibbsdiff.inference.pipeline import infer
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.inference.problem import Options, Problem


def infer_completely(problem: Problem, options: Options) -> list[Posterior]:
    """`gibbsdiff.infer`, but Ctrl-C is passed on: what an interrupted run has found so far is of
    use to someone who waits for a picture, and would spoil a table. The noise is the model's own:
    there is nothing to check.
    """
    found = infer(problem, replace(options, check=False))
    if any(p.interrupted for p in found):
        raise KeyboardInterrupt
    return found
