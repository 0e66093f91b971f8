"""The site: `make docs`. Pages are those of this folder, readable on their own as well."""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "src"))

import gibbsdiff  # noqa: E402

project = "gibbsdiff"
author = "the gibbsdiff authors"
project_copyright = "2026, the gibbsdiff authors"
release = version = gibbsdiff.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["_build"]
default_role = "code"
suppress_warnings = ["myst.header", "toc.no_title"]  # results are as commands wrote them

myst_heading_anchors = 4
myst_enable_extensions = []
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = True
napoleon_numpy_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"gibbsdiff {version}"
toc_object_entries = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False

#: Pages outside of this folder that are part of the site: where they lie, and what they are here.
OUTSIDE = {
    "../README.md": "index.md",
    "../CHANGELOG.md": "generated/changelog.md",
    "../CONTRIBUTING.md": "generated/contributing.md",
    **{
        f"../src/gibbsdiff/pretrained/{card.name}": f"generated/{card.name}"
        for card in sorted((ROOT / "src" / "gibbsdiff" / "pretrained").glob("*.md"))
    },
}


def _generate(app):
    """Copies of pages from outside, their links turned towards the site."""
    folder = HERE / "generated"
    folder.mkdir(exist_ok=True)
    for source, target in OUTSIDE.items():
        if not target.startswith("generated/"):
            continue
        page = (HERE / source).resolve()

        def turned(match, page=page):
            path, _, anchor = match[1].partition("#")
            to = (page.parent / path).resolve()
            inside = {(HERE / out).resolve(): (HERE / here) for out, here in OUTSIDE.items()}
            to = inside.get(to, to)
            up = Path(*[".."] * (2 if HERE not in to.parents else 1))
            base = HERE if HERE in to.parents else ROOT
            link = (up / to.relative_to(base)).as_posix()
            return f"]({link}#{anchor})" if anchor else f"]({link})"

        text = re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", turned, page.read_text())
        place = HERE / target
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


def _links_to_outside(app, name, source):
    """A page that is part of the site is linked as such."""
    depth = "../" * name.count("/")
    for out, here in OUTSIDE.items():
        source[0] = source[0].replace(f"({depth}{out}", f"({depth}{here}")


def _as_markup(app, what, name, obj, options, lines):
    """Docstrings are plain words: what reStructuredText would take for markup is escaped."""
    for i, line in enumerate(lines):
        parts = re.split(r"(`[^`]+`)", line)
        parts[::2] = [re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", part) for part in parts[::2]]
        parts[1::2] = [f"``{part[1:-1]}``" for part in parts[1::2]]
        lines[i] = "".join(parts)


def setup(app):
    """Before the pages are read: copies, links; before docstrings are parsed: escapes."""
    app.connect("builder-inited", _generate)
    app.connect("source-read", _links_to_outside)
    app.connect("autodoc-process-docstring", _as_markup, priority=100)
