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
    """MSE of D and of the Wiener filter at the true (σ, H0, ω_b), a table for each role."""
    lines = [
        "## MSE of the dust, given the true (σ, H0, ω_b)",
        "",
        "In dB below the variance of the training maps: of D(y) alone, of the Wiener filter with "
        "the same S_x, their difference, and the loss (6). Selection and calibration share maps.",
        "",
    ]
    for role, rows in card["dust"].items():
        lines += [f"**{role}**", "", "| σ | H0 | ω_b | D | Wiener | gain | loss (6) |"]
        lines.append("| --- |" + " --- |" * 6)
        for sigma, h0, omega_b, *dB, loss in rows:
            figures = " | ".join(f"{v:.2f}" for v in dB)
            lines.append(f"| {sigma:g} | {h0:g} | {omega_b:g} | {figures} | {loss:.3f} |")
        lines.append("")
    return lines
