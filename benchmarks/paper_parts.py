"""The paper's algorithm against ours, and ours with one part at a time set back to the paper's.

    python benchmarks/paper_parts.py --data DIR/cbsd68 [--paper-model FILE] [--our-model FILE]

The first 3 images by the paper's protocol (shorter side 256, centre 256²), of which the centre of
128² is taken; periodic white noise (φ = 0, not told) of σ 0.06, 0.1 and 0.2, keyed by the image; 2
chains of 12 iterations, 6 of them discarded. Every cell is one call of `gibbsdiff.denoise`.

Rows of our network come first, then those of the paper's, then the long ones: the paper's sampler
takes 74, 135 or 290 calls a draw at these σ. Each cell is kept as it is done; a stopped run goes
on, and --minutes stops it by itself. A table of what is there is written in any case.
"""

import argparse
import statistics
import sys
import time
from itertools import product
from pathlib import Path

import torch

import gibbsdiff
from gibbsdiff import load_model
from gibbsdiff.data.images import image_files, protocol_images
from gibbsdiff.metrics import psnr
from gibbsdiff.training.evaluation import observed
from records import Records

SIGMAS, SIDE, SEED = (0.06, 0.1, 0.2), 128, 11
LENGTH = {"method": "gibbs", "chains": 2, "draws": 6, "burn_in": 6, "boundary": "periodic"}
OURS, PAPER = "ours", "preset paper"
#: Name -> whose network, and options of `gibbsdiff.denoise` beside the length.
VARIANTS = {
    OURS: ("our", {}),
    "warm-up paper": ("our", {"warm_up": "paper"}),
    "starts paper": ("our", {"starts": "paper"}),
    "ε-network": ("paper", {}),
    PAPER: ("paper", {"preset": "paper"}),
    "sampler ddpm": ("our", {"sampler": "ddpm"}),
}
#: From the same chains as ours: another mean of them.
AVERAGE = "mean average"


def centres(folder, count):
    """(n, 3, 128, 128)."""
    x = protocol_images(image_files(folder)[:count])
    margin = (x.shape[-1] - SIDE) // 2
    return x[:, :, margin : margin + SIDE, margin : margin + SIDE].contiguous()


def cell(x, image, sigma, model, options):
    """What one call of `denoise` finds, as plain numbers."""
    y, _ = observed(x[None], sigma, 0.0, SEED, first=image)
    began = time.process_time()
    found = gibbsdiff.denoise(y[0], model=model, seed=image, **LENGTH, **options)
    if found.interrupted:
        raise KeyboardInterrupt
    return {
        "psnr": float(psnr(found.mean, x)),
        "average": float(psnr(found.average, x)),
        "estimate": [r.mean for r in found.rows],
        "ess": [r.ess_bulk for r in found.rows],
        "rhat": [r.rhat for r in found.rows],
        "calls": found.calls,
        "seconds": time.process_time() - began,
        "how": list(found.how),
    }


def rows(records, digests, cells):
    """Name -> {cell: record} of all that is there, with what is made of the same chains."""
    table = {}
    for name, (whose, _) in VARIANTS.items():
        keys = {c: (name, digests[whose], *c) for c in cells}
        table[name] = {c: records[key] for c, key in keys.items() if key in records}
    means = {c: {**r, "psnr": r["average"]} for c, r in table[OURS].items()}
    order = [PAPER, OURS, AVERAGE, *(n for n in VARIANTS if n not in (PAPER, OURS))]
    return {name: (table | {AVERAGE: means})[name] for name in order}


def render(table, words):
    """Markdown: a row per variant, over the cells that it has."""
    lines = [
        words,
        "",
        "| variant | cells | PSNR, σ 0.06 / 0.1 / 0.2 | PSNR less ours | σ: rms error "
        "| φ: rms error | calls | CPU s | effective draws of σ, φ | per 1,000 calls "
        "| R-hat ≤ 1.05 |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: |",
    ]
    ours = table[OURS]
    for name, found in table.items():
        if not found:
            lines.append(f"| {name} | 0 " + "| " * 9 + "|")
            continue
        by_sigma = [[r["psnr"] for (_, s), r in found.items() if s == sigma] for sigma in SIGMAS]
        shown = " / ".join(f"{statistics.fmean(v):.2f}" if v else "-" for v in by_sigma)
        gain = [r["psnr"] - ours[c]["psnr"] for c, r in found.items() if c in ours]
        relative = [r["estimate"][0] / s - 1 for (_, s), r in found.items()]
        calls = statistics.fmean(r["calls"] for r in found.values())
        seconds = statistics.fmean(r["seconds"] for r in found.values())
        ess = [statistics.fmean(r["ess"][i] for r in found.values()) for i in (0, 1)]
        good = sum(max(r["rhat"]) <= 1.05 for r in found.values())
        less = f"{statistics.fmean(gain):+.2f}" if gain else "-"
        lines.append(
            f"| {name} | {len(found)} | {shown} | {less} | {100 * _rms(relative):.2f} % "
            f"| {_rms([r['estimate'][1] for r in found.values()]):.3f} | {calls:.0f} "
            f"| {seconds:.0f} | {ess[0]:.1f}, {ess[1]:.1f} "
            f"| {1e3 * ess[0] / calls:.2f}, {1e3 * ess[1] / calls:.2f} "
            f"| {good} of {len(found)} |"
        )
    return "\n".join(lines) + "\n"


def _rms(values):
    return statistics.fmean(v * v for v in values) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of test images; without it, only the table is made")
    parser.add_argument("--paper-model", default="paper-natural-small", help="an ε-network")
    parser.add_argument("--our-model", default="natural-fast", help="a spectral network")
    parser.add_argument("--words", default="", help="what the table says of the two networks")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--records", default="docs/results/paper-parts.jsonl")
    parser.add_argument("--out", default="docs/results/paper-parts.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    records = Records(given.records, {"benchmark": "paper parts"})
    wanted = {whose for name, (whose, _) in VARIANTS.items() if name in given.variants}
    names = {"our": given.our_model, "paper": given.paper_model}
    models = {whose: load_model(name) for whose, name in names.items() if whose in wanted}
    digests = {whose: models[whose].digest() if whose in models else "" for whose in names}
    # The cheapest first: the paper's sampler takes the longer the stronger the noise.
    cells = [(image, sigma) for sigma, image in product(SIGMAS, range(given.images))]
    if given.data:
        x = centres(given.data, given.images)
        for name in given.variants:
            whose, options = VARIANTS[name]
            for image, sigma in cells:
                key = (name, digests[whose], image, sigma)
                if key in records:
                    continue
                if time.monotonic() - began > 60 * given.minutes:
                    break
                found = cell(x[image], image, sigma, models[whose], options)
                records.add(key, **found)
                print(f"{name}, image {image}, σ {sigma}: {found}", file=sys.stderr, flush=True)
    text = render(rows(records, digests, cells), given.words)
    Path(given.out).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
