"""What `make paper` does with pictures, with an exact denoiser in the network's place."""

import pytest

from gibbsdiff import DiscreteVariancePreserving, GaussianDenoiser, PowerLawSignal
from gibbsdiff.evidence.paper import SIDE, TASKS, Length, denoised, found_lines, write_figure


@pytest.fixture(scope="module")
def example():
    """Photographs by their mean spectrum alone, on a chain of 200 steps: a few calls for a draw."""
    signal = PowerLawSignal((5e-4, 2.4e-5, 1.06e-5), (2.63, 2.84, 2.56), 0.45)
    model = GaussianDenoiser(signal)
    model.process = DiscreteVariancePreserving(200)
    return denoised("coffee", model=model, length=Length(chains=2, iterations=6), seed=1)


def test_two_thirds_of_the_iterations_are_kept():
    assert (Length().burn_in, Length().draws) == (2, 4)
    assert Length(2, 7).burn_in + Length(2, 7).draws == 7


def test_the_preset_finds_picture_and_noise(example):
    found, facts = example.posterior, example.facts
    assert "preset paper" in found.how
    assert found.phi.shape == (2, 4, 2)
    assert found.truth == TASKS["coffee"]
    assert found.observed.shape == (3, SIDE, SIDE)
    assert facts["mean"] > facts["noisy"] + 5
    assert facts["mean"] > facts["sample"]
    assert facts["found"][0] == pytest.approx(found.truth[0], rel=0.15)
    assert facts["found"][1] == pytest.approx(found.truth[1], abs=0.3)
    # A draw at σ takes round(200 t*(σ)) calls, 5 to 7 around σ = 0.1; 2 chains × 7 draws.
    assert 2 * 7 * 5 <= found.calls <= 2 * 7 * 9


def test_it_is_told_and_drawn(example, tmp_path):
    lines = found_lines(example, "coffee")
    assert lines[0].startswith("coffee, 64²: PSNR 20.0")
    assert f"{example.posterior.calls} network calls" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["sigma", "phi"]
    assert lines[1].endswith("true 0.1")
    assert lines[2].endswith("true 0.4")
    assert write_figure([example], tmp_path).stat().st_size > 10_000
