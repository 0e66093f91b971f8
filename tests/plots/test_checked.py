"""The check in figures: its numbers stand there, and a misfit stands out."""

import pytest
import torch
from matplotlib.text import Text

from gibbsdiff.inference.model_check import Finding, ModelCheck
from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.plots import figure, report
from gibbsdiff.plots.style import INK, VERMILION

FINE = Finding("band", "luma", "|k| 0.25-0.38", 1.04, 0.02, 2.0, 0.25, 0.375)
WRONG = Finding("band", "green chroma", "|k| 0.38-0.50", 0.07, 0.02, -80.0, 0.375, 0.5)


def make(check):
    image = torch.rand(3, 24, 32, dtype=torch.float64)
    power = torch.full((1, 24, 17), 0.01, dtype=torch.float64)
    phi = 0.1 + 0.01 * torch.randn(2, 40, 1, dtype=torch.float64)
    return Posterior(("sigma",), phi, image, image, image, noise_power=power,
                     method="marginal", check=check)  # fmt: skip


def texts(page):
    return {t.get_text().strip(): t.get_color() for t in page.findobj(Text)}


@pytest.mark.parametrize("draw", [figure, report])
def test_a_misfit_is_coloured_and_what_fits_is_not(draw):
    found = texts(draw(make(ModelCheck(False, "it does NOT fit", (WRONG,), (FINE, WRONG)))))
    assert found["0.07"] == VERMILION
    assert found["1.04"] == INK
    assert found["-"] == INK  # nothing is told of luma there
    assert found["it does NOT fit"] == VERMILION
    assert {"luma", "green chroma", "0.25-0.38", "0.38-0.50"} <= set(found)
    fits = texts(draw(make(ModelCheck(True, "it fits", (), (FINE,)))))
    assert fits["it fits"] == INK
    assert VERMILION not in {fits["1.04"], fits["luma"]}


@pytest.mark.parametrize("draw", [figure, report])
def test_without_a_check_there_is_no_table(draw):
    assert not any("noise/model" in text for text in texts(draw(make(None))))
