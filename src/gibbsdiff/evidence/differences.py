"""Where this package does not do what the paper prints: one table, for a page and for a terminal.

The rows are in differences.json beside this file. What a difference is worth is a sentence with
gaps, and the figures measured that fill them: a row whose figures are null has not been measured.
`benchmarks/differences.py` measures, and writes the page docs/differences.md.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from gibbsdiff.errors import InputError
from gibbsdiff.io.atomic import write_atomically

RESULTS = Path(__file__).with_name("differences.json")
NOT_MEASURED = "not measured yet"

HEAD = """# What differs from the paper

Heurtel-Depeiges, Margossian, Ohana and Régaldo-Saint Blancard, *Listening to the Noise: Blind
Denoising with Gibbs Diffusion*, ICML 2024, as printed, against this package: what is different,
why, and what it is worth. [`preset="paper"`](inference.md#the-papers-way) sets our additions back;
`make paper` runs it. "The authors' code" is their public repository, where it does something else
than the paper says, or more.

This page is made from `src/gibbsdiff/evidence/differences.json` by `python
benchmarks/differences.py --page`; the same script measures the rows that name it. "Exact Gaussian
case" is eq. (10) of [the mathematics](math.md): the denoiser is the Wiener filter, so that what is
measured is the method's doing.
"""


@dataclass(frozen=True)
class Difference:
    """One row.

    Attributes:
        key: Its name, by which it is measured.
        part: Of the method or the paper; rows of one part stand together.
        what: The thing that differs.
        paper: What the paper has.
        printed: Where it says so.
        ours: What the package has.
        reason: Why.
        effect: A sentence with gaps, `{shift:.2f} sd`, for the figures.
        measured: The figures, by the names of the gaps; None: not measured yet.
        by: How they were measured: a command, a test or a page.
    """

    key: str
    part: str
    what: str
    paper: str
    printed: str
    ours: str
    reason: str
    effect: str
    measured: Mapping[str, Any] | None
    by: str

    @property
    def worth(self) -> str:
        """The measured effect, and how it was measured."""
        if self.measured is None:
            return NOT_MEASURED
        try:
            return f"{self.effect.format(**self.measured)} ({self.by})"
        except (KeyError, IndexError, TypeError, ValueError) as trouble:
            raise InputError(
                f"{self.key}: its figures do not fill its sentence ({trouble!r})"
            ) from None


def read_differences(path: str | Path = RESULTS) -> list[Difference]:
    """The rows of a results file, in order."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        found = [Difference(**row) for row in rows]
    except (OSError, TypeError, ValueError) as trouble:
        raise InputError(f"{path}: not a table of differences ({trouble})") from None
    if len({row.key for row in found}) < len(found):
        raise InputError(f"{path}: two rows have one key")
    return found


def write_differences(rows: Iterable[Difference], path: str | Path = RESULTS) -> None:
    """Write the results file, whole."""
    text = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
    write_atomically(path, text + "\n")


def markdown(rows: Sequence[Difference]) -> str:
    """The page: a heading and a table for each part."""
    lines = [HEAD]
    for part, some in groupby(rows, lambda row: row.part):
        lines += [f"## {part}\n", "| what | the paper | here | why | measured effect |"]
        lines.append("| --- | --- | --- | --- | --- |")
        for row in some:
            cells = [row.what, f"{row.paper} ({row.printed})", row.ours, row.reason, row.worth]
            lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def terminal(rows: Sequence[Difference], width: int = 100) -> str:
    """The same for a terminal: a paragraph for each row."""
    lines = ["What differs from the paper", ""]
    for part, some in groupby(rows, lambda row: row.part):
        lines += [part, "-" * len(part)]
        for row in some:
            lines.append(row.what)
            named = {
                "paper": f"{row.paper} ({row.printed})",
                "here": row.ours,
                "why": row.reason,
                "effect": row.worth,
            }
            for name, text in named.items():
                lines += textwrap.wrap(
                    _plain(text),
                    width,
                    initial_indent=f"  {name:<7}",
                    subsequent_indent=" " * 9,
                    break_on_hyphens=False,
                    break_long_words=False,
                )
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Without Markdown: a link is the page that it leads to."""
    return re.sub(r"\[[^]]*\]\(([^)#]*)[^)]*\)", r"docs/\1", text).replace("`", "")
