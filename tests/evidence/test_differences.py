"""The table of differences from the paper: its page is what the results file makes, and those of
its figures that have a closed form are true.
"""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gibbsdiff.errors import InputError
from gibbsdiff.evidence.differences import (
    NOT_MEASURED,
    markdown,
    read_differences,
    terminal,
    write_differences,
)

ROWS = read_differences()
ROOT = Path(__file__).parents[2]


def figures(key):
    return next(row.measured for row in ROWS if row.key == key)


def test_the_page_is_what_the_results_make():
    page = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
    assert page == markdown(ROWS), "run python benchmarks/differences.py --page"


def test_every_row_says_all_and_is_worth_something_or_not_measured():
    for row in ROWS:
        for text in (row.what, row.paper, row.printed, row.ours, row.reason):
            assert text.strip(), row.key
        if row.measured is None:
            assert row.worth == NOT_MEASURED
        else:
            assert row.by, row.key
            assert not re.search(r"[{}]", row.worth.replace("U{5, …, 15}", "")), row.key


def test_a_terminal_sees_the_same_rows():
    shown = " ".join(terminal(ROWS, 80).split())
    assert all(len(line) <= 80 for line in terminal(ROWS, 80).splitlines())
    for row in ROWS:
        for text in (row.what, row.ours, row.reason, row.worth):
            plain = re.sub(r"\[\w+\]\((\w+\.md)#[^)]*\)", r"docs/\1", text).replace("`", "")
            assert " ".join(plain.split()) in shown, row.key


def test_a_row_is_filled_in_by_its_figures_alone(tmp_path):
    row = replace(ROWS[0], effect="off by {x:.2f} sd", measured=None, by="a test")
    assert row.worth == NOT_MEASURED
    write_differences([replace(row, measured={"x": 0.126})], tmp_path / "rows.json")
    (back,) = read_differences(tmp_path / "rows.json")
    assert back.worth == "off by 0.13 sd (a test)"
    with pytest.raises(InputError, match="do not fill"):
        _ = replace(row, measured={"y": 1.0}).worth


@pytest.mark.parametrize("text", ["{", "[1]", '[{"key": "a"}]'], ids=["broken", "numbers", "short"])
def test_a_file_that_is_no_table_is_refused(tmp_path, text):
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(InputError, match=r"rows\.json"):
        read_differences(tmp_path / "rows.json")


@pytest.mark.parametrize("side", [64, 256])
@pytest.mark.parametrize("phi", [-1, 0, 1])
def test_the_conversion_of_sigma(side, phi):
    """σ here over the printed σ: the standard deviation of a pixel under N = |k|^φ."""
    k = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
    k[0, 0] = 1.0
    factor = math.sqrt(np.mean(k**phi))
    name = f"f{side}_{phi}".replace("-", "m")
    assert figures("normalisation")[name] == pytest.approx(factor, abs=6e-5)


def test_the_end_of_the_process():
    """b(1)/a(1) = √(exp(∫β) - 1), ∫β = (β_min + β_max)/2."""
    found = figures("beta-max")
    for name, high in (("end2", 2.0), ("end202", 2.02)):
        assert found[name] == pytest.approx(math.sqrt(math.expm1((0.1 + high) / 2)), abs=6e-5)
    assert found["at256"] < found["end2"] < found["at128"] < found["end202"]


def test_the_printed_bound_is_none():
    """TV = 2 Φ(δ/2) - 1 = erf(δ/√8) and KL = δ²/2 of unit Gaussians a distance δ apart."""
    for name, shift in (("small", 0.1), ("one", 1.0)):
        ratio = math.erf(shift / math.sqrt(8)) / math.sqrt(shift**2 / 2)
        assert figures("pinsker")[name] == pytest.approx(ratio, abs=2e-4)
        assert 0.5 < ratio < math.sqrt(0.5)


def test_the_calls_of_a_draw():
    """n = round(t* · 5,000), with ∫β = log(1 + σ²) at t*."""
    found = figures("beta-at-zero")
    for sigma, name in ((0.06, "at06"), (0.1, "at1"), (0.2, "at2")):
        for kind, low in (("text", 0.0), ("appendix", 0.1)):
            slope = 20 - low
            t = (math.sqrt(low**2 + 2 * slope * math.log1p(sigma**2)) - low) / slope
            assert found[f"{kind}_{name}"] == round(5000 * t)
