"""What quantisation leaves of noise, against simulation."""

import torch

from gibbsdiff.inference.jpeg_floor import frequencies, jpeg_floor, quantised_variance


def test_variance_of_rounded_coefficients():
    rng = torch.Generator().manual_seed(0)
    z = torch.randn(400_000, dtype=torch.float64, generator=rng)
    s = torch.tensor([0.3, 0.5, 1.0, 3.0, 20.0], dtype=torch.float64)
    found = torch.stack([(one * z).round().var() for one in s])
    torch.testing.assert_close(
        quantised_variance(s, torch.ones_like(s)), found, rtol=0.03, atol=1e-3
    )


def test_coarse_tables_take_noise_from_flat_blocks_only():
    power = torch.full((8, 8), (4 / 255) ** 2, dtype=torch.float64)
    fine = jpeg_floor(torch.ones(8, 8), power)
    coarse = jpeg_floor(torch.full((8, 8), 30.0), power)
    torch.testing.assert_close(fine.survives, torch.ones(8, 8).double(), atol=0.02, rtol=0)
    assert float(coarse.survives.max()) < 0.02
    assert float(coarse.textured.min()) > float(power.max())
    assert float(coarse.raised.min()) > float(fine.raised.max())
    assert float(frequencies().max()) < 0.72
