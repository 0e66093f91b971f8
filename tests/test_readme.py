"""The README is true: its example runs and finds what it hid."""

import re
from pathlib import Path

import gibbsdiff
from gibbsdiff.metrics import psnr

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_examples_run_and_find_what_was_hidden(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for code in re.findall(r"```python\n(.*?)```", README, re.S):
        exec(compile(code, "README.md", "exec"), scope)
    sigma, knee = scope["posterior"].rows
    assert abs(sigma.mean - 0.08) < 3 * sigma.sd + 0.004
    assert abs(knee.mean - 0.05) < 3 * knee.sd + 0.005
    assert float(psnr(scope["posterior"].mean, scope["x"])) > 5 + float(
        psnr(scope["y"], scope["x"])
    )
    assert (tmp_path / "one_over_f.nc").exists()
    assert capsys.readouterr().out.count("R-hat") == 2


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_public_names_exist():
    for name in gibbsdiff.__all__:
        assert getattr(gibbsdiff, name) is not None
