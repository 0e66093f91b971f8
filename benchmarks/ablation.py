"""What each choice in training is worth: equal minutes for every variant, PSNR on the selection.

    python benchmarks/ablation.py --data DIR --minutes 6 --out runs/ablation

Variants are the shipped configuration with one thing changed.
"""

import argparse
import dataclasses
from pathlib import Path

from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.diffusion.signal import PowerLawSignal
from gibbsdiff.fourier import half_plane
from gibbsdiff.training.config import read_config
from gibbsdiff.training.evaluation import evaluate, summary
from gibbsdiff.training.loop import train


def variants(config):
    """Name -> configuration. The flat S_x has the variance of the shipped one in each channel;
    for white noise it makes eq. (4) a scalar preconditioning, as in EDM.
    """
    shape = (config.evaluation.side,) * 2
    variance = half_plane(shape).mean(config.signal.power(shape)[0].flatten(1))[:, 0]
    flat = PowerLawSignal(tuple(variance.tolist()), (0.0, 0.0, 0.0), config.signal.mean)
    yield "as shipped", config
    yield "flat S_x", dataclasses.replace(config, signal=flat)
    yield "AdamW for all weights", dataclasses.replace(config, optimizer="adamw")
    without = dataclasses.replace(config.step, pixel=0.0, spectral=0.0)
    yield "mean alone, no error heads", dataclasses.replace(config, step=without)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default="configs/natural-fast.toml")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--out", default="runs/ablation")
    given = parser.parse_args()
    config = read_config(given.config)
    quiet = dataclasses.replace(config.evaluation, every=1e9)
    config = dataclasses.replace(config, evaluation=quiet)
    images = protocol_images(split(given.data, config.data.folders).selection, 256)
    for i, (name, variant) in enumerate(variants(config)):
        out = Path(given.out) / str(i)
        model = train(variant, given.data, out, minutes=given.minutes)
        row = summary(evaluate(model, images))
        print(
            f"| {name} | {row['psnr']:.2f} | {row['relative']:.3f} | {row['pixel']:+.3f} | "
            f"{row['spectral']:+.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
