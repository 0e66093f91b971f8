"""PSNR and SSIM."""

import pytest
import torch

from gibbsdiff.metrics import psnr, ssim


def test_psnr_of_a_constant_error_is_its_closed_form():
    x = torch.rand(4, 3, 16, 16, dtype=torch.float64)
    error = torch.tensor([0.1, 0.01, 0.5, 1.0], dtype=torch.float64)
    expected = -20 * torch.log10(error)
    assert torch.allclose(psnr(x + error[:, None, None, None], x), expected)
    assert torch.isinf(psnr(x, x)).all()


def test_ssim_is_1_for_equal_images_and_falls_with_noise():
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(2, 3, 32, 32, generator=rng)
    assert torch.allclose(ssim(x, x), torch.ones(2, dtype=torch.float64))
    noise = torch.randn(x.shape, generator=rng)
    assert (ssim(x + 0.3 * noise, x) < ssim(x + 0.05 * noise, x)).all()


def test_leading_axes_are_kept():
    x = torch.rand(2, 5, 1, 8, 8)
    assert psnr(x, x + 0.1).shape == ssim(x, x + 0.1).shape == (2, 5)


def test_different_shapes_are_refused():
    with pytest.raises(ValueError, match="one shape"):
        psnr(torch.zeros(3, 8, 8), torch.zeros(3, 8, 9))
