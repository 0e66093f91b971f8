"""One network, any spectrum: PSNR on noise that is no power law, against a fine-tune on it alone.

    python benchmarks/any_spectrum.py --data DIR --model natural --minutes 10 --out runs/any

The network is given the spectrum and nothing else. It has met random smooth spectra in training,
but neither a bump at one scale nor 1/f² noise over a white floor by design. The fine-tune starts
from the same weights and sees only that noise, at levels of 0.03 to 0.4.
"""

import argparse
import dataclasses
import math
from pathlib import Path

import torch

from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.fourier import REFERENCE, between_references, half_plane
from gibbsdiff.noise import SpectralCovariance
from gibbsdiff.pretrained import load_model
from gibbsdiff.streams import Streams
from gibbsdiff.training.config import read_config
from gibbsdiff.training.loop import train

#: log N at the reference frequencies, up to a constant; log-linear in between.
SPECTRA = {
    "bump": [3.0 * math.exp(-0.5 * (math.log(k * 12) / 0.6) ** 2) for k in REFERENCE],
    "one-over-f2": [math.log(1 + (0.06 / k) ** 2) for k in REFERENCE],
}


def covariance(knots, sigma, shape, rows):
    """Noise of level σ with this log-spectrum, and its descriptor, eq. (5)."""
    log_shape = torch.tensor(knots, dtype=torch.float64)
    log_n = log_shape @ between_references(shape)
    offset = 2 * math.log(sigma) - torch.log(half_plane(shape).mean(log_n.exp()))
    power = (log_n + offset).exp().float().reshape(1, 1, shape[0], -1)
    descriptor = 0.5 * (log_shape + offset).float()[None, None].expand(rows, -1, -1)
    return SpectralCovariance(power.expand(rows, -1, -1, -1), shape, descriptor)


@torch.no_grad()
def psnr(denoiser, images, knots, batch=4):
    """Mean PSNR over σ = 0.06, 0.1, 0.2, given the spectrum."""
    values = []
    for sigma in (0.06, 0.1, 0.2):
        for i in range(0, len(images), batch):
            x = images[i : i + batch]
            noise = covariance(knots, sigma, (x.shape[-2], x.shape[-1]), len(x))
            y = x + noise.draw(Streams(3, [(i + j,) for j in range(len(x))]), 3)
            error = (denoiser(y, noise).mean - x).square().mean((1, 2, 3))
            values.append(-10 * torch.log10(error))
    return float(torch.cat(values).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="natural")
    parser.add_argument("--config", default="configs/natural.toml")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--images", type=int, default=24)
    parser.add_argument("--out", default="runs/any")
    parser.add_argument("--spectrum", choices=SPECTRA, action="append")
    given = parser.parse_args()
    config = read_config(given.config)
    test = protocol_images(split(given.data, config.data.folders).test[: given.images], 256)
    for name in given.spectrum or SPECTRA:
        knots = SPECTRA[name]
        before = psnr(load_model(given.model), test, knots)
        law = dataclasses.replace(
            config.noise,
            level=(0.03, 0.4),
            tail_part=0.0,
            spectrum=tuple(knots),
            camera_part=0.0,
            gain_part=0.0,
        )
        special = dataclasses.replace(
            config,
            noise=law,
            schedule=dataclasses.replace(config.schedule, lr=5e-4),
            evaluation=dataclasses.replace(config.evaluation, every=1e9),
        )
        tuned = train(
            special, given.data, Path(given.out) / name, minutes=given.minutes, init=given.model
        )
        after = psnr(tuned, test, knots)
        print(
            f"{name}: {before:.3f} dB given the spectrum, {after:.3f} dB after {given.minutes:g} "
            f"minutes on it alone, difference {after - before:+.3f} dB ({len(test)} images)",
            flush=True,
        )


if __name__ == "__main__":
    main()
