"""Error bars of spectra: the first order around a mode, against closed forms and draws."""

import math

import pytest
import torch

from gibbsdiff import PowerLawNoise, WhiteNoise
from gibbsdiff.inference.curves import Curves, curves_at
from gibbsdiff.noise import PhotoNoise

SHAPE = (64, 48)


def test_white_noise_has_twice_the_relative_sd_of_its_level():
    """log N = 2 log σ: sd = 2 sd(σ)/σ at all |k|, and τ adds in squares."""
    curves = curves_at(WhiteNoise(), SHAPE, torch.tensor([0.1]), torch.tensor([[0.003**2]]), 0.08)
    assert torch.allclose(curves.power, torch.full_like(curves.power, 0.01))
    assert torch.allclose(curves.sd, torch.full_like(curves.sd, math.hypot(0.06, 0.08)))
    low, high = curves.interval(0.95)
    assert torch.allclose(
        torch.log(high / low), torch.full_like(low, 2 * 1.959964 * 0.1), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("noise", "phi"),
    [
        (PowerLawNoise(), [0.1, -0.4]),
        (PhotoNoise(), [-3.0, 0.2, 2.0, 1.6, -5.0, 0.1, 0.0, 0.1, 4.0, 1.5, -5.0]),
    ],
    ids=str,
)
def test_narrow_draws_scatter_as_the_first_order_says(noise, phi):
    """sd of log N over 20,000 draws of a narrow Gaussian, to 4 standard errors of an sd."""
    rng = torch.Generator().manual_seed(0)
    at, d = torch.tensor(phi).double(), len(phi)
    root = 1e-4 * torch.randn(d, d, generator=rng, dtype=torch.float64)
    curves = curves_at(noise, SHAPE, at, root @ root.T)
    draws = at + torch.randn(20_000, d, generator=rng, dtype=torch.float64) @ root.T
    k = noise.grouping(SHAPE).k
    near = [int((k.k - value).abs().argmin()) for value in (0.05, 0.2, 0.5)]
    mine = [int((curves.k - float(k.k[i])).abs().argmin()) for i in near]
    seen = noise.log_spectra(k, draws)[..., near].std(0)
    # Bins have another |k| by a few percent.
    assert torch.allclose(curves.sd[:, mine], seen, rtol=4 / math.sqrt(2 * 20_000) + 0.1)


def test_curves_survive_plain_numbers():
    curves = curves_at(WhiteNoise(), SHAPE, torch.tensor([0.1]), torch.tensor([[1e-6]]))
    again = Curves.from_dict(curves.as_dict())
    assert all(torch.equal(getattr(again, n), getattr(curves, n)) for n in ("k", "power", "sd"))
