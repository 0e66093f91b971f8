"""A model's card as a page: what it is, how it was made, how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gibbsdiff.fourier import REFERENCE


def markdown(name: str, card: Mapping[str, Any]) -> str:
    """The card of `release` as Markdown."""
    config = card["config"]
    folders = "; ".join(_folder(f) for f in config["data"]["folders"])
    dust = "dust" in card
    facts = {
        "Made": card.get("date", "not said"),
        "Command": f"`{card['command']}`" if "command" in card else "not said",
        "Training": f"{card['steps']} steps, {card['minutes']} minutes",
        "Data": _maps(config["data"], card["maps"]) if dust else folders,
        "Network": f"U-Net, widths {config['network']['widths']}, blocks "
        f"{config['network']['blocks']}, {config['network']['padding']} padding",
    }
    lines = [f"# {name}", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {k} | {v} |" for k, v in facts.items()), ""]
    if dust:
        lines += _dust(card["dust"])
    else:
        lines += ["## PSNR, told the true (σ, φ), D(y) alone", ""]
    for images, table in card.get("psnr", {}).items():
        lines += [f"**{images}**, mean over the cells {table['mean']:.2f} dB", ""]
        lines += [*_grid(table["cells"]), ""]
    if "calibration" in card:
        lines += _error_model(card["calibration"], "maps" if dust else "crops")
    for title, text in card.get("remarks", {}).items():
        lines += [f"## {title}", "", text, ""]
    return "\n".join(lines)


def _folder(folder: Mapping[str, Any]) -> str:
    held = f"every {folder['hold_out_every']}th by name held out"
    return f"`{folder['path']}`, {held} ({folder['selection']} select, the rest {folder['rest']})"


def _grid(cells: Sequence[Sequence[float]]) -> list[str]:
    """Rows of σ, columns of φ."""
    slopes = sorted({phi for _, phi, _ in cells})
    value = {(sigma, phi): psnr for sigma, phi, psnr in cells}
    rows = ["| σ | " + " | ".join(f"φ = {phi:g}" for phi in slopes) + " |"]
    rows.append("| --- |" + " --- |" * len(slopes))
    for sigma in sorted({s for s, _, _ in cells}):
        rows.append(f"| {sigma:g} | " + " | ".join(f"{value[sigma, p]:.2f}" for p in slopes) + " |")
    return rows


def _maps(data: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    blocks = ", ".join(f"{role} {first}-{last}" for role, (first, last) in data["blocks"].items())
    return (
        f"`{data['maps']}`, {facts['train']} training maps of {facts['side']}². The dust is our "
        "own simulation of driven isothermal turbulence (`gibbsdiff cmb simulate`), not "
        f"observed sky. Snapshots by role: {blocks}. x = (map - {facts['mean']:.6g})"
        f"/{facts['sd']:.6g}"
    )


def _dust(tables: Mapping[str, Any]) -> list[str]:
    """MSE of D and of the Wiener filter, told the truth, by role."""
    lines = [
        "## MSE of the dust, told the true (σ, H0, ω_b)",
        "",
        "In dB below the variance of the training maps: of D(y) alone, of the Wiener filter with "
        "the same S_x, their difference, and the loss (6). Selection and calibration share maps.",
        "",
    ]
    for role, rows in tables.items():
        lines += [f"**{role}**", "", "| σ | H0 | ω_b | D | Wiener | gain | loss (6) |"]
        lines.append("| --- |" + " --- |" * 6)
        for sigma, h0, omega_b, *dB, loss in rows:
            figures = " | ".join(f"{v:.2f}" for v in dB)
            lines.append(f"| {sigma:g} | {h0:g} | {omega_b:g} | {figures} | {loss:.3f} |")
        lines.append("")
    return lines


def _error_model(calibration: Mapping[str, Any], crops: str) -> list[str]:
    bands = " | ".join(f"1/{1 / k:.0f}" if k < 0.5 else f"{k:g}" for k in REFERENCE)
    lines = [
        "## Error model, eq. (7)",
        "",
        f"c was measured on {calibration['images']} {crops}. On the test images, the ratio of true "
        "to predicted error power: its median, the factor that 90 % of the images are within, and "
        "its mean around each |k|, all channels together.",
        "",
        f"| σ | φ | median | 90 % within | {bands} |",
        "| --- | --- | --- | --- |" + " --- |" * len(REFERENCE),
    ]
    for r in calibration["check"]:
        each = " | ".join("" if b is None else f"{b:.2f}" for b in r["bands"])
        lines.append(
            f"| {r['sigma']:g} | {_told(r['phi'])} | {r['median']:.3f} | {r['within']:.2f} "
            f"| {each} |"
        )
    return [*lines, ""]


def _told(phi: float | Sequence[float]) -> str:
    return f"{phi:g}" if isinstance(phi, float | int) else ", ".join(f"{v:g}" for v in phi)
