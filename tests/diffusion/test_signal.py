"""The table of a measured spectrum."""

import math

import pytest
import torch

from gibbsdiff.diffusion.analytic import GaussianDenoiser
from gibbsdiff.diffusion.signal import PowerLawSignal, TabulatedSignal
from gibbsdiff.fourier import half_plane
from gibbsdiff.streams import Streams

LAW = PowerLawSignal((2e-3,), (2.6,))


def test_a_table_of_a_power_law_is_that_law_at_every_frequency():
    log_k = tuple(math.log(k) for k in (0.02, 0.1, 0.3))
    values = tuple(math.log(2e-3) - 2.6 * v for v in log_k)
    table = TabulatedSignal(log_k, (values,))
    for shape in ((48, 64), (31, 16)):
        assert torch.allclose(table.power(shape), LAW.power(shape), rtol=1e-12)


def test_the_measured_table_is_the_spectrum_within_its_sampling_error():
    shape = (64, 64)
    x = GaussianDenoiser(LAW).prior(shape, Streams.batch(0, 200))
    table = TabulatedSignal.measured(x)
    ratio = (table.power(shape) / LAW.power(shape)).flatten()
    k = half_plane(shape).k
    # A ring of n modes knows its power to √(2/n) per map; the curvature inside a ring adds 1 %.
    assert (ratio - 1).abs().max() < 5 * math.sqrt(2 / (2 * 200)) + 0.02
    assert (ratio[k > 0.1] - 1).abs().max() < 0.03
    zero = float(x.mean((-2, -1)).square().mean()) * 64**2
    assert float(table.power(shape)[0, 0, 0, 0]) == pytest.approx(zero, rel=1e-9)


def test_a_table_needs_a_value_at_every_knot():
    with pytest.raises(ValueError, match="knot"):
        TabulatedSignal((0.0, 1.0), ((1.0,),))
