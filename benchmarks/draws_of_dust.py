"""Samples of dust by one call, by many as they come, and by many matched to the moments of one:
their spectra against the truth's, and how quiet they are between filaments.

    python benchmarks/draws_of_dust.py --dust maps.npz --sigma 0.2 0.5 1

On held-out maps, at the true parameters and the fiducial cosmology. "Quiet" is the lowest decile
of neighbouring pixels' differences over their rms, in per cent: dust is smooth between filaments,
Gaussian draws around D are not.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from torch import Tensor

from gibbsdiff import Streams, few_step
from gibbsdiff.cosmo.bands import bands, compare
from gibbsdiff.cosmo.infer import FLOOR, TRIALS, dust_model
from gibbsdiff.cosmo.mock import SHIPPED, held_out
from gibbsdiff.inference.matched import matched
from gibbsdiff.noise.cmb import CMBNoise

RANGES = ((0.0, 0.12), (0.12, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.8))


def quiet(x: Tensor) -> float:
    """Of maps (n, 1, H, W)."""
    steps = torch.cat([(x - x.roll(1, axis)).flatten(1) for axis in (-1, -2)], 1).abs()
    return float((100 * steps.quantile(0.1, 1) / steps.square().mean(1).sqrt()).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dust", default=SHIPPED)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--sigma", type=float, nargs="+", default=[0.2, 0.5, 1.0])
    parser.add_argument("--calls", type=int, default=12)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--every", type=int, default=1, help="of the maps, every so many")
    chosen = parser.parse_args()
    found, noise, shape = dust_model(chosen.size), CMBNoise(), (chosen.size, chosen.size)
    maps = held_out(chosen.dust, chosen.size, found.card)[0][:: chosen.every]
    k = bands(shape).k.k[1:]
    heads = " | ".join(f"{low:g}-{high:g}" for low, high in RANGES)
    print(f"| σ | draws | {heads} | all bands | ± | as asked | quiet |")
    print("| --- |" + " --- |" * (len(RANGES) + 5))
    rows = torch.zeros(chosen.samples, dtype=torch.int64)
    for sigma in chosen.sigma:
        phi = torch.tensor([[sigma, *noise.emulator.fiducial.tolist()]], dtype=torch.float64)
        cmb = noise.covariance(shape, phi, torch.float32)
        results: dict[str, list[tuple[list[float], float, float]]] = {}
        for i, x in enumerate(maps):
            y = x[None] + cmb.draw(Streams(5, [(i,)]), 1).float()
            with torch.no_grad():
                own = found.denoiser.adapted(y, cmb)
            many = partial(few_step, calls=chosen.calls, floor=FLOOR)
            trials = Streams(78, [(i, j) for j in range(chosen.trials)])
            samplers = {
                "1 call": partial(few_step, calls=1),
                f"{chosen.calls} calls": many,
                f"{chosen.calls} calls, matched": matched(many, own, y, cmb, trials)[0],
            }
            for name, draw_x in samplers.items():
                rng = Streams(11, [(i, j) for j in range(chosen.samples)])
                drawn = draw_x(own, y[rows], cmb.rows(rows), rng).x
                spectra = compare(drawn, x)
                results.setdefault(name, []).append((spectra.ratio, spectra.either, quiet(drawn)))
        for name, records in results.items():
            ratio = torch.tensor([r[0] for r in records])
            cells = [f"{ratio[:, (k >= a) & (k < b)].mean():.3f}" for a, b in RANGES]
            each = ratio.mean(1)
            error = float(each.std() / len(each) ** 0.5)
            as_asked, calm = (sum(r[j] for r in records) / len(records) for j in (1, 2))
            print(
                f"| {sigma:g} | {name} | {' | '.join(cells)} | {each.mean():.3f} | {error:.3f} "
                f"| {100 * as_asked:.0f} % | {calm:.2f} |",
                flush=True,
            )
        print(f"| {sigma:g} | truth |{' |' * len(RANGES)} | | | {quiet(maps):.2f} |", flush=True)


if __name__ == "__main__":
    main()
