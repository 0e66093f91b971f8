"""How well σ and φ are found on photographs, and whether their error bars are true.

    python benchmarks/parameters.py --data DIR --config configs/natural.toml --limit 24

Test images of the configuration (never trained on): the first quarter, 128², of the paper's
256² crop. σ is log-uniform on [0.05, 0.3], φ uniform on [-1, 1], the noise periodic, all keyed by
the image. Five methods, each as `gibbsdiff.denoise` runs it:

    first    the marginal method's first stage
    plain    the same without the weights of eq. (14)
    second   both its stages: 5 iterations × 2 chains × 12 calls
    gibbs    Gibbs at 12 calls per draw, 2 chains × (4 + 16) iterations, from over-dispersed
             starts around the mode of the first stage; "weighted gibbs" has the weights of places
             in its likelihood of φ

z = (truth - mean)/sd, with the sd given the network and with the network's error added, eq. (12).
A call is one image through the network once; seconds are CPU seconds of one thread per image. A
stopped run goes on where it was.
"""

import argparse
import statistics
import sys
import time
from dataclasses import replace

import torch

from gibbsdiff import Options, PowerLawNoise, Streams, infer, load_model
from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.training.config import read_config
from gibbsdiff.training.error_table import quadrants
from records import Records

NOISE = PowerLawNoise()
OPTIONS = {
    "first": Options("marginal", samples=0),
    "plain": Options("marginal", samples=0, weights=None),
    "second": Options("marginal", second_stage=True, samples=0),
    "gibbs": Options("gibbs", 2, 16, burn_in=4, samples=0, stop_when_converged=False),
    "weighted gibbs": Options(
        "gibbs", 2, 16, burn_in=4, samples=0, stop_when_converged=False, weighted_chains=True
    ),
}
METHODS = tuple(OPTIONS)
BARS = {"sigma": 0.01, "phi": 0.04}


def rms(values):
    return statistics.fmean(v * v for v in values) ** 0.5


def observe(x, image):
    """y (C, H, W) and the truth (2,), by the image's own number."""
    u = Streams(4, [(image,)]).uniform(2)
    truth = torch.stack([0.05 * 6 ** u[:, 0], 2 * u[:, 1] - 1], 1)
    covariance = NOISE.covariance((x.shape[-2], x.shape[-1]), truth, x.dtype)
    return (x[None] + covariance.draw(Streams(5, [(image,)]), 3))[0], truth[0]


def record(records, method, image, x, denoiser):
    """Infer one image and keep what was found."""
    y, truth = observe(x, image)
    options = replace(OPTIONS[method], seed=image)
    checkpoint = records.path.with_name(f"{records.path.stem}-{method}-{image}.chains")
    resumed = checkpoint.exists()
    if method.endswith("gibbs"):
        options = replace(options, checkpoint=checkpoint)
    start = time.process_time()
    problem, _ = picture_problem(y, NOISE, {}, denoiser, "periodic")
    (found,) = infer(problem, options)
    if found.interrupted:
        raise KeyboardInterrupt
    seconds = None if resumed else time.process_time() - start
    rows = found.rows
    records.add(
        (method, image),
        truth=truth.tolist(),
        estimate=[r.mean for r in rows],
        raw=[r.sd for r in rows],
        wide=[r.total_sd for r in rows],
        calls=found.calls,
        rhat=max(r.rhat for r in rows) if found.is_chains else None,
        seconds=seconds,
    )
    checkpoint.unlink(missing_ok=True)


def z_scores(found, i, name):
    """Mean, sd, rms and the fraction below 2, as text."""
    z = [(r["truth"][i] - r["estimate"][i]) / max(r[name][i], 1e-12) for r in found]
    spread_of = statistics.pstdev(z) if len(z) > 1 else float("nan")
    within = sum(abs(v) < 2 for v in z) / len(z)
    return f"{statistics.fmean(z):+.1f}, {spread_of:.1f}, {rms(z):.2f}, {100 * within:.0f} %"


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
            f"| {unit(rms(errors))} | {unit(sizes[-1])} | {unit(bias)} "
            f"| {z_scores(found, i, 'raw')} "
            f"| {z_scores(found, i, 'wide')} | {statistics.fmean(r['calls'] for r in found):.1f}, "
            f"{max(r['calls'] for r in found)} "
            f"| {took} |"
        )
    rhats = [r["rhat"] for r in found if r["rhat"] is not None]
    if rhats:
        print(f"{method}: R-hat median {statistics.median(rhats):.2f}, largest {max(rhats):.2f}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default="configs/natural.toml")
    parser.add_argument("--limit", type=int, default=24)
    parser.add_argument("--model", default="natural")
    parser.add_argument("--method", choices=METHODS, action="append")
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
    }
    records = Records(given.out, configuration)
    methods = given.method or METHODS
    print(f"{len(images)} images; every result is kept in {given.out}", flush=True)
    for method in methods:
        for image, x in enumerate(images):
            if (method, image) not in records:
                record(records, method, image, x, denoiser)
            took = records[method, image]["seconds"]
            print(
                f"{method}: {image + 1} of {len(images)} images"
                + ("" if took is None else f", {took:.1f} CPU s"),
                file=sys.stderr,
                flush=True,
            )
    print("| method | parameter | median error | rms | largest | bias ", end="")
    print("| z: mean, sd, rms, below 2 | z with model error | calls: mean, most ", end="")
    print("| CPU s per image |")
    print("| --- " * 10 + "|")
    held = [table(m, [records[m, i] for i in range(len(images))]) for m in methods]
    judged = {m: good for m, good in zip(methods, held, strict=True) if m not in ("first", "plain")}
    for method, good in judged.items():
        print(f"{method}: the bars of both parameters {'hold' if good else 'DO NOT HOLD'}")
    sys.exit(not all(judged.values()))


if __name__ == "__main__":
    main()
