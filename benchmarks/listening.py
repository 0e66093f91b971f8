"""What the weights of eq. (14) are worth, and how they were chosen: on calibration images alone.

    python benchmarks/listening.py --data DIR --config configs/natural.toml [--side 128]

Calibration images of the configuration, a crop of side² of each, under power-law noise, σ
log-uniform on [0.02, 0.4] and φ uniform on [-1, 1], keyed by the image. The score is taken once, at
the truth: with its information J and variance V it says where a Newton step would go, and how sure
it would be, N(J⁻¹g, J⁻¹VJ⁻¹). The table has the mean log density of the truth by that, its median,
and how large z = error/sd is. Weights are made at the φ that a rough search finds, as in `denoise`.
"""

import argparse
import statistics
from dataclasses import replace

import torch

from gibbsdiff import Marginal, PowerLawNoise, Streams, load_model
from gibbsdiff.data.images import protocol_images, split
from gibbsdiff.inference.listening import listening
from gibbsdiff.inference.search import climb
from gibbsdiff.inference.setting import SURE
from gibbsdiff.inference.starts import regression_start
from gibbsdiff.training.config import read_config
from gibbsdiff.training.error_table import quadrants

NOISE = PowerLawNoise()


def crops(images, side):
    """The second quarter of 256², the third quarter of that, or all of every second picture."""
    if side == 256:
        return images[1::2]
    images = quadrants(images)[1::4]
    return images if side == 128 else quadrants(images)[2::4]


def without_excess(marginal):
    """The same weights, as if they did not know the noise."""
    own = marginal.observation
    made = Marginal(marginal.y, NOISE, marginal.denoiser)
    weights = own.weights._replace(excess=torch.zeros_like(own.weights.excess))
    made.observation = replace(own, weights=weights)
    return made


def scores_of(y, seed, denoiser):
    """Name → the score to be judged."""
    plain = Marginal(y, NOISE, denoiser, seed=seed)
    rough = climb(plain, regression_start(y, NOISE), 6, roughly=True).phi
    places = listening(plain, replace(SURE, modes=0.0), rough)
    return {
        "no weights": plain,
        "modes": listening(plain, replace(SURE, slope=0.0), rough),
        "places, without b": without_excess(places),
        "places": places,
        "places and modes": listening(plain, SURE, rough),
        "twice the exponent": listening(plain, replace(SURE, slope=2 * SURE.slope), rough),
        "half the exponent": listening(plain, replace(SURE, slope=SURE.slope / 2), rough),
        "smoothed over 6": listening(plain, replace(SURE, smoothing=6.0), rough),
    }


def judged(marginal, truth):
    """Log density of the truth, and z of σ and φ."""
    score = marginal.score((truth - NOISE.low) / marginal.width)
    g, J, V = score.gradient[0], score.information[0], score.variance[0]
    step = torch.linalg.solve(J, g)
    H = torch.linalg.inv(J)
    C = H @ V @ H.T
    size = float(step @ torch.linalg.solve(C, step))
    z = step / C.diagonal().sqrt()
    return [-0.5 * size - 0.5 * float(torch.logdet(C)), *z.tolist()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--config", default="configs/natural.toml")
    parser.add_argument("--side", type=int, choices=(64, 128, 256), default=128)
    parser.add_argument("--limit", type=int, default=44)
    parser.add_argument("--model", default="natural")
    given = parser.parse_args()
    torch.set_num_threads(1)
    files = split(given.data, read_config(given.config).data.folders).calibration
    images = crops(protocol_images(files), given.side)[: given.limit]
    denoiser, found = load_model(given.model), {}
    for i, x in enumerate(images):
        u = Streams(40, [(i,)]).uniform(2)
        truth = torch.stack([0.02 * 20 ** u[:, 0], 2 * u[:, 1] - 1], 1)
        noise = NOISE.covariance((given.side, given.side), truth, x.dtype)
        y = x[None] + noise.draw(Streams(41, [(i,)]), 3)
        for name, marginal in scores_of(y, i, denoiser).items():
            found.setdefault(name, []).append(judged(marginal, truth))
    print(f"{len(images)} calibration crops of {given.side}²")
    print("| weights | log score: mean, median | rms of z: σ, φ | mean of z: σ, φ |")
    print("| --- " * 4 + "|")
    for name, rows in found.items():
        log_p, *z = zip(*rows, strict=True)
        rms = [statistics.fmean(v * v for v in part) ** 0.5 for part in z]
        mean = [statistics.fmean(part) for part in z]
        print(
            f"| {name} | {statistics.fmean(log_p):.2f}, {statistics.median(log_p):.2f} "
            f"| {rms[0]:.2f}, {rms[1]:.2f} | {mean[0]:+.2f}, {mean[1]:+.2f} |"
        )


if __name__ == "__main__":
    main()
