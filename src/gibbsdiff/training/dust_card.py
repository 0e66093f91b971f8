"""What the card of a dust model says of its maps and of its scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def maps_line(card: Mapping[str, Any]) -> str:
    """The maps it was trained on, their roles and their scale."""
    data, facts = card["config"]["data"], card["maps"]
    blocks = ", ".join(f"{role} {first}-{last}" for role, (first, last) in data["blocks"].items())
    return (
        f"`{data['maps']}`, {facts['train']} training maps of {facts['side']}². The dust is our "
        "own simulation of driven isothermal turbulence (`gibbsdiff cmb simulate`), not "
        f"observed sky. Snapshots by role: {blocks}. x = (map - {facts['mean']:.6g})"
        f"/{facts['sd']:.6g}"
    )


def dust_tables(card: Mapping[str, Any]) -> list[str]:
    """MSE of D and of the Wiener filter at the true noise, a table for each role: a row has σ, the
    cosmology unless the noise is white, three figures in dB and the loss (6).
    """
    rows = next(iter(card["dust"].values()))
    names = ["σ", "H0", "ω_b"][: len(rows[0]) - 4]
    given = f"({', '.join(names)})" if len(names) > 1 else names[0]
    lines = [
        f"## MSE of the dust, given the true {given}",
        "",
        "In dB below the variance of the training maps: of D(y) alone, of the Wiener filter with "
        "the same S_x, their difference, and the loss (6). Selection and calibration share maps.",
        "",
    ]
    for role, rows in card["dust"].items():
        heading = [*names, "D", "Wiener", "gain", "loss (6)"]
        lines += [f"**{role}**", "", "| " + " | ".join(heading) + " |"]
        lines.append("|" + " --- |" * len(heading))
        for *noise, mse, wiener, gain, loss in rows:
            cells = [f"{v:g}" for v in noise] + [f"{v:.2f}" for v in (mse, wiener, gain)]
            lines.append("| " + " | ".join([*cells, f"{loss:.3f}"]) + " |")
        lines.append("")
    return lines
