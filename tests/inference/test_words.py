"""The noise in words."""

import math

import pytest
import torch

from gibbsdiff.inference.words import doubts, level_in_words, spectra_in_words
from gibbsdiff.noise import PowerLawNoise

SHAPE = (64, 48)


def test_levels_are_those_of_the_file_and_falls_those_of_the_spectrum():
    white = PowerLawNoise().power(SHAPE, torch.tensor([[0.1, 0.0]]).double())[0]
    (line,) = spectra_in_words(white, SHAPE[1], 255)
    assert line == "noise in luma: 25.5 a pixel, white"
    pink = PowerLawNoise().power(SHAPE, torch.tensor([[0.02, -1.0]]).double())[0]
    luma, chroma = spectra_in_words(torch.cat([white, pink, pink]), SHAPE[1])
    assert luma == "noise in luma: 0.1 a pixel, white"
    # |k|^-½ in amplitude, from about 0.09 to 0.5
    assert chroma.startswith("noise in chroma: 0.02 a pixel, ")
    factor = float(chroma.split()[6])
    assert factor == pytest.approx(math.sqrt(0.5 / 0.09), rel=0.1)


def test_the_level_by_brightness_is_that_of_the_curve():
    phi = torch.tensor([[0.5, 1.0], [0.5, 1.0]]).double()
    (line,) = level_in_words(phi, ("a", "b"))
    assert f"{math.exp(0.3):.2f} ± 0.00" in line
    assert level_in_words(phi, ("sigma", "phi")) == []


def test_walls_and_repeated_draws_are_named():
    box = torch.tensor([[0.0, -1.0], [1.0, 1.0]]).double()
    mode = torch.tensor([0.0, 0.3]).double()
    few = torch.zeros(4, 10, 2).double()
    wall, repeated = doubts(("sigma", "phi"), mode, few, box)
    assert wall == "at a wall of the prior: sigma"
    assert repeated == "only 1 of 40 draws are distinct"
    many = torch.rand(4, 10, 2, generator=torch.Generator().manual_seed(0)).double()
    assert doubts(("sigma", "phi"), mode + 0.2, many, box) == ()
