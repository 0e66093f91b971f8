"""The README is true: its example runs and finds what it hid."""

import re
from pathlib import Path

import torch

import gibbsdiff

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_recovers_its_parameters(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    scope = {}
    exec(compile(code, "README.md", "exec"), scope)
    flat = scope["draws"].flatten(0, 1)
    z = (flat.mean(0) - torch.tensor([0.1, 10.0, 0.7])) / flat.std(0)
    assert float(z.abs().max()) < 4
    assert "tensor" in capsys.readouterr().out


def test_links_lead_somewhere():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (root / target).exists(), target


def test_public_names_exist():
    for name in gibbsdiff.__all__:
        assert getattr(gibbsdiff, name) is not None
