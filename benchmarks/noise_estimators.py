"""The level of the noise by deepinv's estimators and by ours, on the same pictures.

Centres of 256² of photographs, white and coloured noise of known σ, the standard deviation of a
pixel. Theirs (wavelet median, eigenvalues of patch covariances) are for white noise; ours once as
white and once as a power law, whose exponent is found as well. Prints a table in Markdown.

    python benchmarks/noise_estimators.py --data DIR/cbsd68 [--limit 8] [--model natural]
"""

import argparse
import statistics
import time

import torch

from gibbsdiff import PowerLawNoise
from gibbsdiff.data.images import image_files, protocol_images
from gibbsdiff.ecosystem.deepinv import GibbsdiffNoiseEstimator, deepinv_models

CELLS = ((0.03, 0.0), (0.1, 0.0), (0.2, 0.0), (0.1, -1.0), (0.1, 1.0))
COLOUR = {-1.0: "pink", 0.0: "white", 1.0: "blue"}


def estimators(model):
    return {
        "wavelet (deepinv)": deepinv_models.WaveletNoiseEstimator(),
        "patch covariance (deepinv)": deepinv_models.PatchCovarianceNoiseEstimator(),
        "ours, white": GibbsdiffNoiseEstimator(noise="white", model=model),
        "ours, power law": GibbsdiffNoiseEstimator(noise="power-law", model=model),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="a folder of photographs")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--model", default="natural")
    given = parser.parse_args()
    torch.set_num_threads(1)
    x = protocol_images(image_files(given.data)[: given.limit], given.size)
    shape = (given.size, given.size)
    print("| noise | σ | estimator | mean error | rms | largest | CPU s per picture |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for sigma, phi in CELLS:
        truth = torch.tensor([[sigma, phi]], dtype=torch.float64).expand(len(x), 2)
        noise = PowerLawNoise().draw(shape, truth, channels=3, seed=1).float()
        for name, estimator in estimators(given.model).items():
            start = time.process_time()
            found = [float(estimator((x + noise)[i : i + 1])) for i in range(len(x))]
            seconds = (time.process_time() - start) / len(x)
            errors = [100 * (value / sigma - 1) for value in found]
            rms = statistics.fmean(e**2 for e in errors) ** 0.5
            row = f"{statistics.fmean(errors):+.1f} % | {rms:.1f} % | {max(map(abs, errors)):.1f} %"
            print(f"| {COLOUR[phi]} | {sigma} | {name} | {row} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
