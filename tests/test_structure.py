"""The package keeps its shape: import directions, no cycles, cited equations, file lengths."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gibbsdiff

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gibbsdiff"
FILES = sorted(SOURCE.rglob("*.py"))

#: The rooms, in order: a room imports only itself and earlier ones. The root, which loads the
#: public names when they are used, may name any of them and is imported for its version alone.
ROOMS = (
    "errors",
    "identity",
    "registry",
    "streams",
    "checks",
    "fourier",
    "metrics",
    "noise",
    "networks",
    "diffusion",
    "mcmc",
    "io",
    "data",
    "pretrained",
    "inference",
    "plots",
    "training",
    "evidence",
    "ecosystem",
    "cosmo",
    "web",
    "cli",
)
MODULES = {
    ".".join(p.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): p
    for p in FILES
}


def imported(name, path):
    """Modules of the package that a module imports: by any statement, at any place, or by a string
    that names one, which is how `import_module` is told.
    """
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if base == "gibbsdiff" and alias.name in gibbsdiff._HOME:
                    yield f"gibbsdiff.{gibbsdiff._HOME[alias.name]}"
                else:
                    yield inner if inner in MODULES else base
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.rstrip(".").partition(":")[0]
            if id(node) not in prose and text.startswith("gibbsdiff.") and text in MODULES:
                yield text


def edges(name):
    return {
        m for m in imported(name, MODULES[name]) if m in MODULES and m not in (name, "gibbsdiff")
    }


@pytest.mark.parametrize("name", MODULES)
def test_a_room_imports_only_earlier_rooms(name):
    if name == "gibbsdiff":
        return  # the root: public names by their homes
    here = name.split(".")[1]
    later = [m for m in edges(name) if ROOMS.index(m.split(".")[1]) > ROOMS.index(here)]
    assert not later


def test_every_room_is_in_the_list():
    there = {name.split(".")[1] for name in MODULES if name != "gibbsdiff"}
    assert there == set(ROOMS)


def test_no_module_imports_itself_by_a_detour():
    """Lazy imports count: a cycle that works today breaks when somebody moves a line."""
    graph = {name: edges(name) for name in MODULES if name != "gibbsdiff"}
    done, path = set(), []

    def visit(name):
        assert name not in path, " → ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph[name]):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_cited_equations_exist_and_files_are_short(path):
    defined = set(re.findall(r"^\*\*\((\d+)\)", (ROOT / "docs" / "math.md").read_text(), re.M))
    assert defined == {str(i) for i in range(1, 18)}
    text = path.read_text()
    for group in re.findall(r"[Ee]qs?\.\s*((?:\(\d+\)(?:,\s*|\s+and\s+)?)+)", text):
        assert set(re.findall(r"\d+", group)) <= defined
    assert len(text.splitlines()) <= 300


def test_tests_mirror_the_sources():
    """A folder of tests has the name of a room; golden values are of all of them."""
    folders = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and p.name[0] not in "._"}
    assert folders - {"golden"} <= set(ROOMS)


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
