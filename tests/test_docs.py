"""The pages in docs/ are true: places that they name exist, links lead somewhere, no gaps."""

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("*.md", "docs/*.md", "docs/how-to/*.md", "docs/reference/*.md")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(folder))
MATH = (ROOT / "docs" / "math.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
STRUCTURE = (ROOT / "tests" / "test_structure.py").read_text()
ROOMS = ast.literal_eval(re.search(r"^ROOMS = (\(.*?^\))", STRUCTURE, re.M | re.S)[1])


def resolved(place):
    """The object at a dotted place: the longest module, then attributes."""
    parts = place.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError as trouble:
            if not ".".join(parts[:n]).startswith(str(trouble.name)):
                raise
            continue
        home = found.__name__
        for name in parts[n:]:
            found = getattr(found, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            # A place is where a thing is written, or a package that offers it.
            assert found.__module__.startswith(home), place
        return found
    raise AssertionError(f"no such place: {place}")


def prose(text):
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", text, flags=re.S)


def anchors(text):
    """What GitHub makes of the headings."""
    for heading in re.findall(r"^#+ (.+)$", prose(text), re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        yield re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(page.read_text())):
        path, _, anchor = target.partition("#")
        to = page if not path else (page.parent / path).resolve()
        assert to.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in set(anchors(to.read_text())), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_named_places_exist(page):
    for place in re.findall(r"`(gibbsdiff(?:\.\w+)+)(?:\([^`]*\))?`", prose(page.read_text())):
        if place not in GROUPS:
            resolved(place)


def test_every_equation_has_a_place():
    """A row of the table for every numbered equation, and for every named one of the code."""
    table = MATH[MATH.index("## Where") :]
    rows = dict(re.findall(r"^\| ([^|]+?) \| [^|]+ \| ([^|]+?) \|$", table, re.M))
    added = MATH[MATH.index("## What the code adds") : MATH.index("## Where")]
    named = re.findall(r"^\*\*([^*]+)\.\*\*", added, re.M)
    numbered = re.findall(r"^\*\*(\(\d+\))", MATH, re.M)
    assert len(numbered) >= 13
    assert len(named) >= 8
    for equation in numbered + named:
        assert re.search(r"`gibbsdiff\.[\w.]+`", rows[equation]), equation


def test_the_architecture_has_the_rooms_in_order_and_places_that_exist():
    assert tuple(re.findall(r"^\| `(\w+)` \|", ARCHITECTURE, re.M)) == ROOMS
    places = re.findall(r"`(\w+(?:\.\w+)+)`", prose(ARCHITECTURE))
    in_rooms = [place for place in places if place.split(".")[0] in ROOMS]
    assert len(in_rooms) > 30
    for place in in_rooms:
        resolved(f"gibbsdiff.{place}")
