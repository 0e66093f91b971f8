"""How the Gibbs sampler runs in the tables."""

from __future__ import annotations

from dataclasses import dataclass

from gibbsdiff.inference.problem import Mean, SamplerName, Starts, WarmUp


@dataclass(frozen=True)
class ChainLength:
    """A Gibbs run: how many chains, iterations in all, and how many of them are burn-in.

    `starts`: "marginal" is around the mode that the marginal method finds, over-dispersed;
    "paper" takes σ from a regression on y and φ from the prior. `preset`: how the rest is done,
    but for the parts that are given. `weighted_chains`: the likelihood of φ in the chains has the
    weights of the search.
    """

    chains: int = 2
    iterations: int = 20
    burn_in: int = 5
    starts: Starts = "marginal"
    preset: str | None = None
    sampler: SamplerName | None = None
    adaptation: WarmUp | None = None
    mean: Mean | None = None
    weighted_chains: bool = False

    @property
    def few_step(self) -> bool:
        """Whether x is drawn by the few-step kernel, which is told its number of calls."""
        return self.sampler == "few-step" or (self.sampler is None and self.preset is None)


#: 16 chains of 40 iterations, the last 20 kept.
PAPER = ChainLength(16, 40, 20, "paper")
