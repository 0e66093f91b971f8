"""What `make release-check` relies on: one version, a valid citation, a changelog with dates."""

import re
import tomllib
from datetime import date
from pathlib import Path

import yaml

import gibbsdiff

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
TITLES = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)

#: Of the schema of CFF 1.2.0: what must be there, and what else we use.
REQUIRED = {"cff-version", "message", "title", "authors"}
ALLOWED = REQUIRED | {
    "type",
    "abstract",
    "version",
    "date-released",
    "license",
    "keywords",
    "preferred-citation",
}


def test_the_version_has_one_place():
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/gibbsdiff/__init__.py"
    assert CITATION["version"] == gibbsdiff.__version__


def test_the_changelog_has_unreleased_first_then_dates_that_fall():
    assert TITLES[0] == "Unreleased"
    dates = [date.fromisoformat(re.fullmatch(r"[\d.]+ \((.+)\)", t)[1]) for t in TITLES[1:]]
    assert dates == sorted(dates, reverse=True)


def test_the_citation_is_valid_and_names_the_paper():
    assert set(CITATION) <= ALLOWED
    assert set(CITATION) >= REQUIRED
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] == "software"
    assert isinstance(CITATION["date-released"], date)
    assert CITATION["license"] == PROJECT["project"]["license"]
    paper = CITATION["preferred-citation"]
    assert {"type", "title", "authors"} <= set(paper)
    assert paper["type"] == "conference-paper"
    assert paper["title"] == "Listening to the Noise: Blind Denoising with Gibbs Diffusion"
    family = [author["family-names"] for author in paper["authors"]]
    assert family == ["Heurtel-Depeiges", "Margossian", "Ohana", "Régaldo-Saint Blancard"]
    assert "2402.19455" in paper["url"]
    assert "2402.19455" in (ROOT / "README.md").read_text()


def test_the_package_is_smaller_than_a_wheel_may_be():
    """All of its files, before they are packed."""
    files = (ROOT / "src" / "gibbsdiff").rglob("*")
    sizes = [f.stat().st_size for f in files if f.is_file() and "__pycache__" not in f.parts]
    assert 30e6 < sum(sizes) < 95e6
