"""p(φ | y) from the marginal score: eq. (11)."""

from gibbsdiff.marginal.method import Marginal, Mode, Score

__all__ = ["Marginal", "Mode", "Score"]
