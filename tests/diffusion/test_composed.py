"""The law of the paper's chain on a Gaussian signal; test_solvers sets it beside the steps."""

import torch

from gibbsdiff.diffusion import solvers
from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.composed import chain_variance
from gibbsdiff.diffusion.process import DiscreteVariancePreserving
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.noise import PowerLawNoise

SHAPE = (12, 10)


def test_rows_of_other_levels_are_summed_each_over_its_own_steps():
    """Colour, and two levels in a batch."""
    colour = GaussianDenoiser(PowerLawSignal((0.02, 0.01, 0.003), (2.0, 1.5, 1.0), 0.4))
    both = torch.tensor([[0.2, -0.5], [0.03, 0.4]], dtype=torch.float64)
    ratio = PowerLawNoise().covariance(SHAPE, both).power / colour.signal.power(SHAPE)
    level = PowerLawNoise().covariance(SHAPE, both).level

    def variance(rows):
        process = DiscreteVariancePreserving()
        levels = solvers.uniform_in_time(level[rows], process, process.steps, "beta")
        return chain_variance(ratio[rows], levels)

    together = variance([0, 1])
    assert torch.allclose(together, torch.cat([variance([0]), variance([1])]), rtol=1e-12)
    # S N/(S + N) over S, to first order in the step: there are fewer of them under weak noise.
    off = (together * (1 + ratio) / ratio - 1).abs().amax((1, 2, 3))
    assert torch.all(off < torch.tensor([0.005, 0.03]))
