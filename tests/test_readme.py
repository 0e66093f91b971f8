"""README and docs are true: their Python runs, finds what it hid, and names all that is public."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

import gibbsdiff
from gibbsdiff.metrics import psnr

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
FILES = [ROOT / "README.md", *sorted([*DOCS.glob("*.md"), *DOCS.glob("how-to/*.md")]), *REFERENCE]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)
MARK = re.compile(r"<!-- not executed: .+ -->\s*\Z")  # on the line before a block


class Block(NamedTuple):
    """A block of Python: the line that it starts on, its text, and whether it is run."""

    line: int
    code: str
    runs: bool


def blocks(path):
    text = path.read_text()
    return [
        Block(text[: m.start(1)].count("\n"), m[1], MARK.search(text[: m.start()]) is None)
        for m in FENCE.finditer(text)
    ]


def run(path, after=None):
    """Every block that runs, in one scope; `after` (number, scope) is called after each."""
    scope = {"__name__": "__main__"}
    executed = [b for b in blocks(path) if b.runs]
    for i, block in enumerate(executed):
        code = "\n" * block.line + block.code  # a traceback names the line of the page
        exec(compile(code, str(path.relative_to(ROOT)), "exec"), scope)
        if after is not None:
            after(i, scope)
    return scope


WITH_PYTHON = [f for f in FILES if blocks(f) and f.name != "README.md"]


@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda f: str(f.relative_to(ROOT)))
def test_the_python_of_the_docs_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(path)


def test_the_examples_of_the_readme_find_what_was_hidden(capsys, tmp_path, monkeypatch):
    """Within 3 standard deviations that know the network's own error."""
    monkeypatch.chdir(tmp_path)
    truths = [{"sigma": 0.08, "phi": 0.0}, {"sigma": 0.08, "knee": 0.05}]
    seen = []

    def check(i, scope):
        posterior, hidden = scope["posterior"], truths[i]
        assert posterior.names == tuple(hidden)
        for row in posterior.rows:
            assert abs(row.mean - hidden[row.name]) < 3 * row.total_sd
            assert row.total_sd < 0.2 * max(hidden[row.name], 0.5)
        seen.append(posterior)

    scope = run(ROOT / "README.md", check)
    assert len(seen) == 2
    gain = float(psnr(scope["posterior"].mean, scope["x"]) - psnr(scope["y"], scope["x"]))
    assert gain > 5
    assert (tmp_path / "one_over_f.nc").exists()
    shown = capsys.readouterr()
    assert shown.out.count("the search ended") == 2
    assert shown.err == ""


def named(code):
    """Names of the package that a piece of Python imports, or uses as attributes of it."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module == "gibbsdiff":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "gibbsdiff":
            found.add(node.attr)
    return found


def test_every_public_name_occurs_in_python_that_is_run():
    used = set().union(*(named(b.code) for f in FILES for b in blocks(f) if b.runs))
    assert sorted(set(gibbsdiff.__all__) - used) == []


def test_every_public_name_is_in_the_reference_with_an_example_that_uses_it():
    index = (DOCS / "reference" / "index.md").read_text()
    found = set()
    for page in REFERENCE:
        for part in re.split(r"^## ", page.read_text(), flags=re.M)[1:]:
            name = part.partition("\n")[0].replace("\\", "")
            assert re.search(rf"^\.\. auto\w+:: gibbsdiff\.{name}$", part, re.M), name
            assert f"`{name}`" in index, name
            if name in named("\n".join(m[1] for m in FENCE.finditer(part))):
                found.add(name)
    assert sorted(found) == sorted(gibbsdiff.__all__)


def test_blocks_that_are_not_run_are_few():
    left_out = [(f.name, b.line) for f in FILES for b in blocks(f) if not b.runs]
    assert len(left_out) <= 3, left_out


@pytest.mark.parametrize("path", FILES, ids=lambda f: str(f.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_public_names_exist():
    for name in gibbsdiff.__all__:
        assert getattr(gibbsdiff, name) is not None
