"""A model's card as a page: what it is, how it was made, how good it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gibbsdiff.fourier import REFERENCE


def markdown(
    name: str, card: Mapping[str, Any], data: str, scores: Sequence[str], samples: str
) -> str:
    """The card of `release` as Markdown: the facts, lines of `scores`, the error model.

    `data` says in a line what it was trained on, and `samples` what it was calibrated on.
    """
    config = card["config"]
    facts = {
        "Made": card.get("date", "unknown"),
        "Command": f"`{card['command']}`" if "command" in card else "unknown",
        "Training": f"{card['steps']} steps, {card['minutes']} minutes",
        "Data": data,
        "Network": network_line(config),
    }
    lines = [f"# {name}", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {k} | {v} |" for k, v in facts.items()), ""]
    lines += scores
    if "calibration" in card:
        lines += _error_model(card["calibration"], samples)
    for title, text in card.get("remarks", {}).items():
        lines += [f"## {title}", "", text, ""]
    return "\n".join(lines)


def network_line(config: Mapping[str, Any]) -> str:
    """What the network is, in a line."""
    net, model = config["network"], config.get("model", {})
    if model.get("kind") in ("original", "resunet"):
        steps = f", {model['steps']} steps" if model["kind"] == "original" else ""
        beta = f"β from {model['beta_min']:g} to {model['beta_max']:g}{steps}"
        return f"the paper's U-Net ({model['kind']}), width {model['width']}, ε-prediction, {beta}"
    return f"U-Net, widths {net['widths']}, blocks {net['blocks']}, {net['padding']} padding"


def folders_line(card: Mapping[str, Any]) -> str:
    """The folders of the training pictures and what was held out of them."""
    return "; ".join(_folder(f) for f in card["config"]["data"]["folders"])


def psnr_tables(card: Mapping[str, Any]) -> list[str]:
    """PSNR by (σ, φ), a table for each set of images."""
    lines = ["## PSNR of D(y) given the true (σ, φ)", ""]
    for images, table in card.get("psnr", {}).items():
        lines += [f"**{images}**, mean over the cells {table['mean']:.2f} dB", ""]
        lines += [*_grid(table["cells"]), ""]
    return lines


def _folder(folder: Mapping[str, Any]) -> str:
    if not folder["hold_out_every"]:
        return f"`{folder['path']}`, none held out"
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


def _error_model(calibration: Mapping[str, Any], samples: str) -> list[str]:
    bands = " | ".join(f"1/{1 / k:.0f}" if k < 0.5 else f"{k:g}" for k in REFERENCE)
    lines = [
        "## Error model, eq. (7)",
        "",
        f"c was measured on {calibration['images']} {samples}. On the test images, the ratio of "
        "true to predicted error power: its median, the factor that 90 % of the images are within, "
        "and its mean around each |k|, all channels together.",
        "",
        f"| σ | φ | median | 90 % within | {bands} |",
        "| --- | --- | --- | --- |" + " --- |" * len(REFERENCE),
    ]
    for r in calibration["check"]:
        each = " | ".join("" if b is None else f"{b:.2f}" for b in r["bands"])
        lines.append(
            f"| {r['sigma']:g} | {_values(r['phi'])} | {r['median']:.3f} | {r['within']:.2f} "
            f"| {each} |"
        )
    return [*lines, ""]


def _values(phi: float | Sequence[float]) -> str:
    return f"{phi:g}" if isinstance(phi, float | int) else ", ".join(f"{v:g}" for v in phi)
