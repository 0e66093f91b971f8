"""The report as one HTML file: the page's own view of a result, with everything inside it."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from gibbsdiff.inference.posterior import Posterior
from gibbsdiff.io.atomic import write_atomically
from gibbsdiff.web.views import views

KINDS = {".png": "image/png", ".svg": "image/svg+xml"}
LARGEST = 2048  # pixels of a side of the pictures inside, so that the file can be mailed

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main><h1>{title}</h1><div id="result"></div>
<noscript><p>The slider needs JavaScript. The result in words:</p><pre>{summary}</pre></noscript>
</main>
<script type="application/json" id="facts">{facts}</script>
<script>{script}</script>
</body>
</html>
"""
BEGIN = """
const facts = document.getElementById("facts").textContent;
showResult(document.getElementById("result"), JSON.parse(facts));
"""


def html(
    posterior: Posterior,
    path: str | Path | None = None,
    title: str = "",
    profile: bytes | None = None,
) -> str:
    """The report as HTML that needs no other file and asks for none; written to `path` if given.

    `profile` is the input's ICC profile. Sides above 2048 pixels are shown as means over blocks.
    """
    found = views(posterior, title, profile, LARGEST)
    inside = {name: _data(name, content) for name, content in found.files.items()}
    facts = {**found.facts, "inside": inside}
    style, script = static("result.css"), static("result.js") + BEGIN
    # Only these very texts may run, whatever the title holds.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_sha(style)}; script-src {_sha(script)}"
    )
    text = PAGE.format(
        policy=policy,
        title=escape(title or "gibbsdiff"),
        style=style,
        summary=escape(posterior.summary()),
        facts=embedded(facts),
        script=script,
    )
    if path is not None:
        write_atomically(path, text)
    return text


def static(name: str) -> str:
    """One of the page's own files."""
    return (files("gibbsdiff.web") / "static" / name).read_text(encoding="utf-8")


def embedded(facts: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(facts).replace("<", "\\u003c")


def _sha(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _data(name: str, content: bytes) -> str:
    return f"data:{KINDS[Path(name).suffix]};base64,{base64.b64encode(content).decode()}"
