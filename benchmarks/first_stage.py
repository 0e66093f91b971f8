"""The marginal method's first stage against BM3D told the spectrum, on one 256² colour picture.

    python benchmarks/first_stage.py

One run, one thread each, taking turns. The first stage is `gibbsdiff.denoise`, blind: the
regression's start, the search for the mode, the Laplace covariance, the denoised picture and the
check of the noise's model. Fails if it needs more than 12 calls or is not three times faster than
BM3D. CPU seconds are judged, since they do not depend on what else the machine does; the clock is
printed beside them. Needs `pip install 'gibbsdiff[bench]'`.
"""

import argparse
import sys
import time

import torch

from gibbsdiff import denoise, load_model, psnr
from gibbsdiff.data.images import protocol_crop
from gibbsdiff.evidence.baselines import bm3d_with_spectrum
from gibbsdiff.training.evaluation import observed

TRUTH, MOST, FASTER = (0.1, -1.0), 12, 3.0


def picture():
    """scikit-image's astronaut by the paper's protocol, (1, 3, 256, 256)."""
    from skimage import data

    return protocol_crop(torch.from_numpy(data.astronaut().copy()).permute(2, 0, 1))[None]


def first_stage(y, denoiser):
    """The posterior, from y (1, 3, H, W) alone."""
    return denoise(
        y[0], model=denoiser, method="marginal", boundary="periodic", second_stage=False, samples=0
    )


def timed(work):
    """What `work` returns, its CPU seconds, and those by the clock."""
    clock, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.process_time() - processor, time.perf_counter() - clock


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="natural")
    parser.add_argument("--repeats", type=int, default=2, help="the fastest of each counts")
    given = parser.parse_args()
    torch.set_num_threads(1)
    denoiser = load_model(given.model)
    x = picture()
    y, covariance = observed(x, *TRUTH, seed=0)
    ours, theirs = [], []
    for _ in range(given.repeats):
        found, processor, clock = timed(lambda: first_stage(y, denoiser))
        ours.append((processor, clock))
        print(f"first stage: {processor:.1f} CPU s, {clock:.1f} s by the clock", flush=True)
        bm3d, processor, clock = timed(lambda: bm3d_with_spectrum(y[0], covariance))
        theirs.append((processor, clock))
        print(f"BM3D: {processor:.1f} CPU s, {clock:.1f} s by the clock", flush=True)
    with torch.no_grad():
        best = denoiser(y, covariance).mean
    (sigma, phi) = found.rows
    print(
        f"first stage: {found.calls} calls, {found.verdict}; σ {sigma.mean:.4f} ± {sigma.sd:.4f}, "
        f"φ {phi.mean:.3f} ± {phi.sd:.3f} (truth {TRUTH[0]}, {TRUTH[1]})"
    )
    print(
        f"PSNR: blind {float(psnr(found.mean, x[0])):.2f} dB, noise known "
        f"{float(psnr(best, x)):.2f} dB, BM3D told the spectrum {float(psnr(bm3d[None], x)):.2f} dB"
    )
    ratios = [min(t[i] for t in theirs) / min(o[i] for o in ours) for i in (0, 1)]
    print(f"BM3D takes {ratios[0]:.1f} times the CPU seconds, {ratios[1]:.1f} times by the clock")
    good = ratios[0] >= FASTER and found.calls <= MOST
    verdict = "holds" if good else "DOES NOT HOLD"
    print(f"{FASTER:g} times faster than BM3D in at most {MOST} calls: {verdict}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
