"""What a draw of x does to σ and φ: the bias that each kind of draw leaves, image by image.

    python benchmarks/draws_of_x.py [--images FOLDER]

Four crops of 128², white noise of σ 0.1 (φ 0). A kind of draw of x | y, φ implies a φ: the one at
which the mean power of y - x satisfies the likelihood's equation, where Gibbs chains with that
kind of draw settle. It is found as the fixed point of the marginal method's second stage
(Robbins-Monro), with the denoiser corrected for the image as it ships: a few iterations to get
there from the mode of the first stage, then two independent runs whose mean is the answer and half
of whose difference is its Monte-Carlo error.
Biases contain the posterior's own scatter for this noise (sd in the last line).
"""

import argparse
import sys
import time
from functools import partial

import torch

from gibbsdiff import Options, PowerLawNoise, few_step, load_model
from gibbsdiff.data.images import image_files, protocol_crop, protocol_images
from gibbsdiff.inference.pipeline import search
from gibbsdiff.inference.second_stage import refine
from gibbsdiff.inference.setting import picture_problem
from gibbsdiff.training.evaluation import observed
from records import Records

TRUTH, SEED, COUNT, SIDE = (0.1, 0.0), 7, 4, 128
ROWS = [
    ("ancestral, E = 0", 6, False),
    *(("error model", calls, True) for calls in (1, 3, 6, 12)),
    ("error model", 30, True),
    ("ancestral, E = 0", 30, False),
]


def photographs():
    """Four photographs of scikit-image by the paper's protocol."""
    from skimage import data

    pictures = (data.astronaut(), data.chelsea(), data.coffee(), data.rocket())
    return torch.stack(
        [protocol_crop(torch.from_numpy(p.copy()).permute(2, 0, 1)) for p in pictures]
    )


def crops(folder):
    """The centres, 128², of every seventh picture's protocol crop."""
    x = photographs() if folder is None else protocol_images(image_files(folder)[1::7][:COUNT])
    margin = (x.shape[-1] - SIDE) // 2
    return x[:, :, margin : margin + SIDE, margin : margin + SIDE].contiguous()


def first_stage(y, denoiser):
    """The search of `gibbsdiff.denoise`, image by image."""
    problems = [picture_problem(row, PowerLawNoise(), {}, denoiser, "periodic")[0] for row in y]
    return [search(p, Options("marginal", second_stage=True)) for p in problems]


def implied(found, sampler, settle, iterations):
    """The fixed point (2,) of one image, and its Monte-Carlo error."""
    further = partial(refine, found.marginal, denoiser=found.denoiser, sampler=sampler)
    near = further(mode=found.mode, iterations=settle, seed=0)
    runs = [further(mode=near, iterations=iterations, seed=s).phi[0] for s in (1, 2)]
    return (runs[0] + runs[1]) / 2, (runs[0] - runs[1]).abs() / 2


def show(name, calls, record):
    bias = torch.tensor(record["phi"], dtype=torch.float64) - torch.tensor(TRUTH).double()
    sigma, phi = (100 * bias[:, 0] / TRUTH[0]).tolist(), bias[:, 1].tolist()
    error = ""
    if record["error"]:
        e = torch.tensor(record["error"], dtype=torch.float64).square().mean(0).sqrt()
        error = f"{100 * float(e[0]) / TRUTH[0]:.2f} %, {float(e[1]):.3f}"
    print(
        f"| {name} | {calls} | {', '.join(f'{v:.1f}' for v in sigma)} % "
        f"| {', '.join(f'{v:.2f}' for v in phi)} | {error} | {record['seconds']:.0f} |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", help="folder of photographs; scikit-image's by default")
    parser.add_argument("--model", default="natural")
    parser.add_argument("--settle", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=8, help="of each of the two runs")
    parser.add_argument("--out", default="runs/benchmarks/draws_of_x.jsonl")
    given = parser.parse_args()
    torch.set_num_threads(1)
    denoiser = load_model(given.model)
    configuration = {
        "benchmark": "draws of x",
        "model": denoiser.digest(),
        "images": given.images is not None,
        "settle": given.settle,
        "iterations": given.iterations,
    }
    records = Records(given.out, configuration)
    y, _ = observed(crops(given.images), *TRUTH, SEED)
    start = time.process_time()
    modes = first_stage(y, denoiser)
    first = {
        "phi": [found.mode.phi[0].tolist() for found in modes],
        "error": None,
        "seconds": time.process_time() - start,
    }
    print("| draw of x | calls | relative bias of σ, per image | bias of φ, per image ", end="")
    print("| Monte-Carlo error of both | CPU s |")
    print("| --- " * 6 + "|", flush=True)
    for name, calls, error in ROWS:
        key = (name, calls)
        if key not in records:
            began = time.process_time()
            sampler = partial(few_step, calls=calls, error=error)
            pairs = [implied(found, sampler, given.settle, given.iterations) for found in modes]
            phi, apart = (torch.stack(column) for column in zip(*pairs, strict=True))
            seconds = time.process_time() - began
            records.add(key, phi=phi.tolist(), error=apart.tolist(), seconds=seconds)
            print(f"{name}, {calls} calls: {seconds:.0f} CPU s", file=sys.stderr, flush=True)
        show(name, calls, records[key])
    calls = max(found.mode.calls for found in modes)
    show("marginal method, first stage", f"{calls} in all", first)
    sd = torch.cat([f.mode.covariance for f in modes]).diagonal(dim1=1, dim2=2).sqrt().mean(0)
    print(f"posterior sd by Laplace: σ {100 * float(sd[0]) / TRUTH[0]:.2f} %, φ {float(sd[1]):.3f}")


if __name__ == "__main__":
    main()
