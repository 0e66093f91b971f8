"""The package keeps its shape: import directions, cited equations, file lengths."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gibbsdiff"
FILES = sorted(SOURCE.rglob("*.py"))

# What each room may import of the package. `checks`, `errors` and `streams` serve everyone.
COMMON = {"checks", "errors", "streams", "_root"}
ALLOWED = {
    "errors": set(),
    "streams": set(),
    "checks": {"errors"},
    "fourier": set(),
    "mcmc": set(),
    "networks": {"errors"},
    "metrics": COMMON,
    "posterior": COMMON | {"plots"},  # for Posterior.plot alone, imported when called
    "view": COMMON | {"fourier", "noise"},
    "chains": COMMON | {"mcmc"},
    "data": COMMON,
    "noise": COMMON | {"fourier"},
    "diffusion": COMMON | {"fourier", "noise", "networks"},
    "pretrained": COMMON | {"fourier", "noise", "networks", "diffusion"},
    "scales": COMMON | {"fourier"},
    "initial": COMMON | {"fourier", "networks", "noise", "scales", "view"},
    "uncertainty": COMMON | {"fourier", "noise", "diffusion", "view"},
    "marginal": COMMON | {"fourier", "noise", "diffusion", "view", "uncertainty"},
    "model_error": COMMON | {"fourier", "noise", "diffusion", "marginal"},
    "gibbs": COMMON | {"noise", "diffusion", "mcmc", "posterior", "view", "chains"},
}


def room(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "gibbsdiff" and len(parts) > 1:
                known = (SOURCE / parts[1]).is_dir() or (SOURCE / f"{parts[1]}.py").exists()
                yield parts[1] if known else "_root"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    here = room(path)
    if here not in ALLOWED:
        return  # cli, training, demo, diagnostics and the like may import anything
    assert set(imported_rooms(path)) - {here} <= ALLOWED[here]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_cited_equations_exist_and_files_are_short(path):
    defined = set(re.findall(r"^\*\*\((\d+)\)", (ROOT / "docs" / "math.md").read_text(), re.M))
    assert defined == {str(i) for i in range(1, 14)}
    text = path.read_text()
    for group in re.findall(r"[Ee]qs?\.\s*((?:\(\d+\)(?:,\s*|\s+and\s+)?)+)", text):
        assert set(re.findall(r"\d+", group)) <= defined
    assert len(text.splitlines()) <= 300


def test_help_does_not_import_torch():
    code = (
        "import sys, gibbsdiff.cli as cli\n"
        "sys.argv = ['gibbsdiff', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: pass\n"
        "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr
