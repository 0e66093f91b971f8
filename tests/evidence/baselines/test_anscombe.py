"""The generalised Anscombe transform against Poisson and Gaussian draws."""

import pytest
import torch

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.baselines.anscombe import anscombe_bm3d, restored, transformed

GAIN = 0.02


@pytest.mark.parametrize("light", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("pedestal", [0.0, 0.05])
def test_noise_has_sd_one_and_the_mean_comes_back(light, pedestal):
    """Five counts and more: sd within 3 %, and no bias beyond a tenth of a count."""
    rng = torch.Generator().manual_seed(2)
    counts = torch.poisson(torch.full((400_000,), light / GAIN).double(), generator=rng)
    y, c = pedestal + GAIN * counts, -GAIN * pedestal
    z = transformed(y, GAIN, c)
    assert float(z.std()) == pytest.approx(1, abs=0.03)
    assert float(restored(z.mean(), GAIN, c)) == pytest.approx(light + pedestal, abs=0.1 * GAIN)


def test_a_gain_is_needed():
    with pytest.raises(InputError, match="gain above 0"):
        anscombe_bm3d(torch.zeros(1, 32, 32), 0.0, 1.0)
