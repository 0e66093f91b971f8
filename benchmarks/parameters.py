"""How well σ and φ are found on photographs, and whether their error bars are true.

    python benchmarks/parameters.py --data DIR --config configs/natural.toml --limit 24

Test images of the configuration (never trained on): the first quarter, 128², of the paper's
256² crop. σ is log-uniform on [0.05, 0.3], φ uniform on [-1, 1], the noise periodic, all keyed by
the image. Three methods, each from the regression's start:

    first    the marginal method's first stage
    second   both its stages: 5 iterations × 2 chains × 12 calls
    gibbs    Gibbs at 12 calls per draw, 2 chains × (4 + 16) iterations, from over-dispersed
             starts around the mode of the first stage (`--gibbs-from second`: of the second)

z = (truth - estimate)/sd, with the method's own sd and with the network's error added, eq. (12).
A call is one image through the network once; seconds are CPU seconds of one thread per image. A
stopped run goes on where it was.
"""

import argparse
import statistics
import sys
import time
from functools import partial

import torch

from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.diffusion.solvers import few_step
from gibbsdiff.inference.denoise import FIRST
from gibbsdiff.inference.gibbs import Settings, gibbs
from gibbsdiff.inference.marginal import Marginal
from gibbsdiff.inference.model_error import with_model_error
from gibbsdiff.inference.posterior import worst_rhat
from gibbsdiff.inference.starts import regression_start, spread
from gibbsdiff.noise import PowerLawNoise
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import read_config
from gibbsdiff.training.error_table import quadrants
from records import Records, blocks

METHODS = ("first", "second", "gibbs")
NOISE = PowerLawNoise()
SAMPLER = partial(few_step, calls=12)
CHAINS, BURN_IN, KEPT = 2, 4, 16
BARS = {"sigma": 0.01, "phi": 0.04}


def observe(x, block):
    """y and the truth (B, 2), by the images' own numbers."""
    u = Streams(4, [(i,) for i in block]).uniform(2)
    truth = torch.stack([0.05 * 6 ** u[:, 0], 2 * u[:, 1] - 1], 1)
    covariance = NOISE.covariance((x.shape[-2], x.shape[-1]), truth, x.dtype)
    return x + covariance.draw(Streams(5, [(i,) for i in block]), 3), truth


def infer(method, y, denoiser, seed, gibbs_from, checkpoint):
    """Estimates (B, 2), their covariances raw and with model error, calls per image, R-hats."""
    marginal = Marginal(y, NOISE, denoiser)
    mode = marginal.mode(regression_start(y, NOISE), most=FIRST - 1 - len(NOISE.parameters))
    if method == "second" or (method == "gibbs" and gibbs_from == "second"):
        mode = marginal.refine(mode, SAMPLER, iterations=5, chains=2, seed=seed)
    calls = mode.calls
    wide = with_model_error(marginal, mode).covariance
    if method != "gibbs":
        return mode.phi, mode.covariance, wide, calls, [None] * len(y)
    starts = [
        spread(p, c, NOISE, Streams(seed, [(b, 3, chain) for chain in range(CHAINS)]))
        for b, (p, c) in enumerate(zip(mode.phi, mode.covariance, strict=True))
    ]
    settings = Settings(
        chains=CHAINS,
        iterations=BURN_IN + KEPT,
        burn_in=BURN_IN,
        stop_when_converged=False,
        seed=seed,
    )
    start = torch.stack(starts)
    results = gibbs(
        y,
        NOISE,
        denoiser,
        settings=settings,
        sampler=SAMPLER,
        start=start,
        checkpoint=checkpoint,
    )
    draws = torch.stack([r.phi.flatten(0, 1) for r in results])
    own = torch.stack([torch.cov(d.T) for d in draws])
    rhats = [worst_rhat(r.phi) for r in results]
    return draws.mean(1), own, own + wide - mode.covariance, calls + results[0].calls, rhats


def record_block(records, method, block, images, denoiser, gibbs_from):
    """Infer one block of images and keep what was found."""
    y, truth = observe(images[block], block)
    # Chains are kept too; the name says whose, since a checkpoint does not know its weights.
    whose = f"{records.configuration['model']}-{gibbs_from}-{block[0]}"
    checkpoint = records.path.with_name(f"{records.path.stem}-{whose}.chains")
    resumed = checkpoint.exists()
    start = time.process_time()
    phi, raw, wide, calls, rhats = infer(method, y, denoiser, block[0], gibbs_from, checkpoint)
    seconds = None if resumed else (time.process_time() - start) / len(block)
    for b, image in enumerate(block):
        records.add(
            (method, image),
            truth=truth[b].tolist(),
            estimate=phi[b].tolist(),
            raw=raw[b].diagonal().clamp(min=0).sqrt().tolist(),
            wide=wide[b].diagonal().clamp(min=0).sqrt().tolist(),
            calls=calls,
            rhat=rhats[b],
            seconds=seconds,
        )
    checkpoint.unlink(missing_ok=True)


def z_scores(found, i, name):
    """Mean, sd and the fraction below 2, as text."""
    z = [(r["truth"][i] - r["estimate"][i]) / max(r[name][i], 1e-12) for r in found]
    spread_of = statistics.pstdev(z) if len(z) > 1 else float("nan")
    within = sum(abs(v) < 2 for v in z) / len(z)
    return f"{statistics.fmean(z):+.1f}, {spread_of:.1f}, {100 * within:.0f} %"


def table(method, found):
    """Two rows, σ (errors relative to it) and φ; returns whether both bars hold."""
    good = True
    times = [r["seconds"] for r in found if r["seconds"] is not None]
    took = f"{statistics.fmean(times):.1f}" if times else "?"
    for i, name in enumerate(NOISE.names):
        errors = [r["estimate"][i] - r["truth"][i] for r in found]
        if name == "sigma":
            errors = [e / r["truth"][i] for e, r in zip(errors, found, strict=True)]
        sizes = sorted(abs(e) for e in errors)
        median, bias = statistics.median(sizes), statistics.fmean(errors)
        held = median <= BARS[name]
        good &= held
        unit = (lambda v: f"{100 * v:.2f} %") if name == "sigma" else (lambda v: f"{v:.3f}")
        print(
            f"| {method} | {name} | {unit(median)} ({'≤' if held else 'ABOVE'} {unit(BARS[name])}) "
            f"| {unit(sizes[-1])} | {unit(bias)} | {z_scores(found, i, 'raw')} "
            f"| {z_scores(found, i, 'wide')} | {max(r['calls'] for r in found)} "
            f"| {took} |"
        )
    rhats = [r["rhat"] for r in found if r["rhat"] is not None]
    if rhats:
        print(f"gibbs: R-hat median {statistics.median(rhats):.2f}, largest {max(rhats):.2f}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default="configs/natural.toml")
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--model", default="natural")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--method", choices=METHODS, action="append")
    parser.add_argument("--gibbs-from", choices=("first", "second"), default="first")
    parser.add_argument("--out", default="runs/benchmarks/parameters.jsonl")
    given = parser.parse_args()
    torch.set_num_threads(1)
    files = split(given.data, read_config(given.config).data.folders).test[: given.limit]
    images = quadrants(protocol_images(files))[::4]
    denoiser = load_model(given.model)
    configuration = {
        "benchmark": "parameters",
        "model": denoiser.digest(),
        "first": files[0].name,
        "batch": given.batch,
        "gibbs from": given.gibbs_from,
    }
    records = Records(given.out, configuration)
    methods = given.method or METHODS
    print(f"{len(images)} images; every block of {given.batch} is kept in {given.out}", flush=True)
    for method in methods:
        for block in blocks(len(images), given.batch):
            # Draws are keyed by the place in the block: a block is done as a whole, or again.
            if any((method, image) not in records for image in block):
                record_block(records, method, block, images, denoiser, given.gibbs_from)
            done, took = block[-1] + 1, records[method, block[-1]]["seconds"]
            print(
                f"{method}: {done} of {len(images)} images"
                + ("" if took is None else f", {took:.1f} CPU s each"),
                file=sys.stderr,
                flush=True,
            )
    print("| method | parameter | median error | largest | bias | z: mean, sd, below 2 ", end="")
    print("| z with model error | calls | CPU s per image |")
    print("| --- " * 9 + "|")
    held = [table(m, [records[m, i] for i in range(len(images))]) for m in methods]
    judged = {m: good for m, good in zip(methods, held, strict=True) if m != "first"}
    for method, good in judged.items():
        print(f"{method}: the bars of both parameters {'hold' if good else 'DO NOT HOLD'}")
    sys.exit(not all(judged.values()))


if __name__ == "__main__":
    main()
