"""Arrays from outside."""

import numpy as np
import pytest
import torch

from gibbsdiff.checks import as_images
from gibbsdiff.errors import InputError


def test_good_arrays_become_batches():
    assert as_images(np.zeros((9, 8), np.uint8)).shape == (1, 1, 9, 8)
    assert as_images(np.ones((3, 9, 8), np.uint16)).dtype == torch.float64
    assert as_images(torch.ones(2, 3, 9, 8)).dtype == torch.float32
    assert float(as_images(np.full((8, 8), 65535, np.uint16)).max()) == 65535


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.array([[1.0, np.nan] * 4] * 8), "photo: 32 of 64 pixels are NaN or infinite"),
        (torch.full((8, 8), torch.inf), "photo: 64 of 64"),
        (np.zeros((0, 8)), "photo: the array is empty"),
        (np.zeros(64), "photo: need .* not 1-D"),
        (np.zeros((1, 1, 1, 8, 8)), "not 5-D"),
        (np.zeros((7, 8)), "photo: 7×8 pixels; each side needs at least 8"),
        (np.zeros((8, 8), complex), "dtype complex128"),
        (np.zeros((8, 8), bool), "dtype bool"),
        (np.array([["a"] * 8] * 8), "dtype <U1"),
        (np.full((8, 8), None), "dtype object"),
        ([[1, 2], [3]], "not a rectangular array"),
        (torch.zeros(8, 8, dtype=torch.complex64), "dtype torch.complex64"),
    ],
)
def test_bad_arrays_are_one_clear_line(values, words):
    with pytest.raises(InputError, match=words) as trouble:
        as_images(values, "photo")
    assert "\n" not in str(trouble.value)
